"""What a site does with a message: whose is it, does the consent name it, do it, keep the state, sign the reply."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, JsonValue

from motet.config.experiment import Experiment
from motet.data import ClientData
from motet.data.own_site import read_site_table
from motet.errors import MotetError, one_sentence
from motet.io.json_models import Count, FileModel, Sha256, Text, plain
from motet.messages.message import State, encode
from motet.messages.task import SITE_TASKS, Task
from motet.server.workplace import Workplace
from motet.sites.consent import Ask, Consent, consent_to, statement
from motet.sites.disk import BEGUN, CONSENT, SEEN, SITE, Begun, FinalWords, Seen, SiteDisk
from motet.sites.wire import (
    FROM_SITE,
    Asked,
    Parcel,
    Replied,
    asked_digest,
    packed,
    refuse_strange_coordinator,
    signed,
    unpacked,
    words_of,
)
from motet.sites.workshop import Workshop, experiment_of

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec


class Invitation(FileModel):
    """The text of a first message: the experiment, in which a batch size of 0 is chosen later, and how many sites."""

    experiment: dict[str, JsonValue]
    sites: Annotated[int, Field(gt=0, lt=2**20)]


class SiteTold(FileModel):
    """The text of a site's first answer: what the coordinator may know of its data."""

    name: Text
    train: Annotated[int, Field(gt=0)]
    val: Count
    test: Count
    prepare: dict[str, JsonValue]
    """What `TablePrepare.saved` returned: the schema."""
    data: Sha256
    """A salted hash of its rows: the same after a restart, if they are."""


class NoConsent(MotetError):
    """The site does not take part; its process ends."""


@dataclass(frozen=True)
class SiteFiles:
    """Where a site has its data, and the schema by which they are read."""

    data: Path
    schema: Path


class AtSite:
    """The site: answers one message after the other."""

    def __init__(
        self,
        name: str,
        key: "ec.EllipticCurvePrivateKey",
        ca: "x509.Certificate",
        disk: SiteDisk,
        files: SiteFiles,
        ask: Ask,
        address: str,
        said: Callable[[str], None],
    ):
        """Be this site; `ask` decides about consent, `said` takes sentences for the log."""
        self.name, self.key, self.ca, self.disk, self.files = name, key, ca, disk, files
        self.ask, self.address, self.said = ask, address, said
        self.who = f"the coordinator at {address}"
        self.identity = disk.identity(name).model_copy(
            update={"files": (str(files.data.resolve()), str(files.schema.resolve()))}
        )
        disk.write(SITE, self.identity)
        self.consent = disk.read(CONSENT, Consent)
        self.begun = disk.read(BEGUN, Begun)
        seen = disk.read(SEEN, Seen)
        self.serial = -1 if seen is None else seen.serial
        self.ended = False
        self._own: tuple[Workshop, ClientData] | None = None
        self._workplace: Workplace | None = None

    # ------------------------------------------------------------ messages

    def answer(self, parcel: Parcel) -> Parcel | None:
        """Return the signed reply to a message; None for one that is not the coordinator's, or not for this site.

        The message loses its tensors: a model is held once.
        """
        try:
            refuse_strange_coordinator(parcel, self.ca)
            asked = words_of(parcel, Asked)
        except MotetError as error:
            self.said(f"refused: {error}")
            return None
        told = Replied(
            run=asked.run, site=self.name, kind=asked.kind, round=asked.round, client=asked.client, nonce=asked.nonce
        )
        reply: State = {}
        try:
            state = unpacked(parcel)
            parcel.tensors.clear()
            told, reply = self._answered(asked, state, told)
        except NoConsent as error:
            self.ended = True
            told = told.model_copy(update={"failure": str(error)})
        except MotetError as error:
            self.said(f"refused: {error}")
            told = told.model_copy(update={"failure": str(error)})
        except OSError as error:  # a full disk, for example: the work was not done, and nothing of it is lost
            why = one_sentence(f"{type(error).__name__}: {error.strerror or error}")
            self.said(f"failed: {why}")
            told = told.model_copy(update={"failure": why})
        return signed(packed(reply, told), self.key, FROM_SITE)

    def is_superseded(self, parcel: Parcel, by: Parcel) -> bool:
        """Return whether a later message of the coordinator asks instead of this one, which then needs no answer."""
        try:
            first, second = words_of(parcel, Asked), words_of(by, Asked)
            refuse_strange_coordinator(by, self.ca)
        except MotetError:
            return False
        return (first.run, first.site) == (second.run, second.site) and first.serial < second.serial

    def _answered(self, asked: Asked, state: State, told: Replied) -> tuple[Replied, State]:
        if asked.site != self.name:
            raise MotetError(f"a message for {asked.site!r} came to {self.name!r}")
        if self.consent is not None and asked.run != self.consent.run:
            self.consent.refuse_other(asked.run, self.consent.experiment, self.who)
        if asked.serial <= self.serial:
            raise MotetError(f"a message that came before (number {asked.serial}) was sent again")
        if asked.kind == "hello":
            self._greeted(asked)
        if self.consent is None:
            raise MotetError(f"{self.who} asks for {asked.kind!r} before this site was asked for its consent")
        self.consent.refuse_task(asked.kind, self.who)
        self._accept(asked)
        if asked.kind == "hello":
            return told.model_copy(update={"text": self._told().to_json().decode()}), {}
        if asked.kind == "begin":
            self._begin(asked)
            return told, {}
        if asked.kind == "finish":
            self._finish(asked, state)
            return told, {}
        return self._worked(asked, state, told)

    def _accept(self, asked: Asked) -> None:
        """Note the number of a message before anything is done about it."""
        self.serial = asked.serial
        self.disk.write(SEEN, Seen(serial=asked.serial))

    # ------------------------------------------------------------ before the first round

    def _greeted(self, asked: Asked) -> None:
        """Look at an invitation; ask for consent if there is none yet."""
        invited = Invitation.from_json(asked.text.encode(), "an invitation")
        experiment = experiment_of(invited.experiment)
        if self.consent is not None:
            self.consent.refuse_other(asked.run, experiment.model_dump(mode="json"), self.who)
            if self._own is None:
                self._own = self._prepared(experiment, asked.client, invited.sites)
            return
        workshop, own = self._prepared(experiment, asked.client, invited.sites)
        offered = consent_to(asked.run, workshop, own, "asked")
        if not self.ask(statement(offered, workshop, own, self.address)):
            raise NoConsent(f"{self.name} does not consent, and takes no part")
        self.disk.write(CONSENT, offered)
        self.consent, self._own = offered, (workshop, own)

    def _prepared(self, experiment: Experiment, client: int, sites: int) -> tuple[Workshop, ClientData]:
        """Read the table by the settings of the experiment, and refuse rows that changed since the site joined."""
        table = read_site_table(experiment.data, self.files.data, self.files.schema)
        workshop = Workshop(experiment, table, client, sites, self.name, bytes.fromhex(self.identity.secret))
        digest = table.digest(bytes.fromhex(self.identity.salt))
        if self.identity.data is None:
            self.identity = self.identity.model_copy(update={"data": digest})
            self.disk.write(SITE, self.identity)
        if self.identity.data != digest:
            raise MotetError(
                f"the rows of {self.name} are not those with which it joined this run; accepted: the file as it was, "
                f"or another --state folder for a new run"
            )
        return workshop, workshop.data()

    def _told(self) -> SiteTold:
        assert self._own is not None and self.identity.data is not None
        workshop, own = self._own
        prepare, _ = workshop.table.prepare.saved()
        return SiteTold(
            name=self.name,
            train=len(own.train),
            val=len(own.val),
            test=len(own.test),
            prepare=plain(prepare),
            data=self.identity.data,
        )

    def _begin(self, asked: Asked) -> None:
        """Take the experiment as it runs, with what the coordinator settled, and build the workplace."""
        assert self.consent is not None
        begun = Begun.from_json(asked.text.encode(), "a beginning")
        experiment = experiment_of(begun.experiment)
        self.consent.refuse_other(asked.run, experiment.model_dump(mode="json"), self.who)
        if (begun.run, begun.client) != (asked.run, asked.client):
            raise MotetError(f"{self.who} begins another run than it asks for")
        self._workplace = None
        self.begun = begun
        _ = self.workplace  # what is wrong is said now
        self.disk.write(BEGUN, begun)
        self.said(f"run {begun.run} begins: {experiment.method} with {begun.sites} sites")

    # ------------------------------------------------------------ tasks

    @property
    def workplace(self) -> Workplace:
        """The workplace of the run that began; after a restart it is made again from the disk."""
        if self._workplace is None:
            if self.begun is None:
                raise MotetError(f"{self.who} asks for work before the run began")
            experiment = experiment_of(self.begun.experiment)
            workshop, own = self._own = self._prepared(experiment, self.begun.client, self.begun.sites)
            self._workplace = workshop.workplace(own)
        return self._workplace

    def _worked(self, asked: Asked, state: State, told: Replied) -> tuple[Replied, State]:
        """Do a task from the private state that the message names; the new one is on disk before the reply is made."""
        assert self.consent is not None
        if asked.kind not in SITE_TASKS or self.begun is None or asked.client != self.begun.client:
            raise MotetError(f"{self.who} asks {self.name} for {asked.kind!r} of client {asked.client}")
        task = Task(asked.kind, asked.client, asked.round, state)
        self.said(f"{asked.kind} of round {asked.round}")
        private = self.disk.state(asked.base)
        if asked.kind == "train":
            self._promise(asked, state)
        outcome = self.workplace.perform(task, private)
        state.clear()
        self.workplace.let_go()  # before the reply takes as much memory again
        if outcome.reply is None:
            raise MotetError(outcome.failure or "no reply")
        self.consent.refuse_reply(asked.kind, outcome.reply, outcome.train_loss)
        entry, changed = None, outcome.private is not None
        if outcome.private is not None:
            entry = self.disk.keep(outcome.private)
            self.disk.forget_but({*asked.needed, asked.base, entry.sha256 if entry else ""})
        update = {"train_loss": outcome.train_loss, "changed": changed, "entry": entry}
        return told.model_copy(update=update), outcome.reply

    def _promise(self, asked: Asked, message: State) -> None:
        """Let the transforms note what they must not forget, on disk before anything is computed, or refuse."""
        before = after = self.disk.promised
        digest = asked_digest(asked, message) if self.workplace.transforms else b""
        for transform in self.workplace.transforms:
            said = transform.announced(after)
            after = transform.promise(after, asked.round, digest, message)
            if transform.announced(after) != said:
                self.said(transform.announced(after))
        if encode(after) != encode(before):
            self.disk.promised = after

    def _finish(self, asked: Asked, state: State) -> None:
        """Keep what the site's own model is made from."""
        words = FinalWords.from_json(asked.text.encode(), "a last message")
        self.disk.state(words.base)  # it is here and whole, or that is said
        self.disk.write_final(words, state)
        self.ended = True
        self.said(f"the run ended after round {words.round}")
