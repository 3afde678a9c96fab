"""What a site and a coordinator refuse, each in a sentence: no process is started, every message is a real one."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("cryptography", reason="needs the extra sites: pip install 'motet[sites]'")

from site_runs import NAMES, digits_tables, experiment_values

from motet.config.experiment import resolve
from motet.errors import MotetError
from motet.messages.message import State, encode
from motet.messages.task import Task
from motet.methods.base import Method
from motet.server.assembly import method_of
from motet.sites.at_site import AtSite, Invitation, SiteFiles, SiteTold
from motet.sites.board import Board
from motet.sites.certificates import (
    make_certificates,
    read_certificate,
    read_private_key,
    read_public_key,
    refuse_expired,
    site_names,
)
from motet.sites.disk import Begun, FinalWords, SiteDisk
from motet.sites.engine import STRIKES, Flower, Identity, Terms
from motet.sites.flower.carrier import Incoming, NodeOnline, Outgoing
from motet.sites.options import address_of, seconds_of
from motet.sites.settling import refuse_method, settled_for_sites, with_batch
from motet.sites.wire import FROM_SITE, TO_SITE, Asked, Parcel, Replied, new_nonce, packed, signed, unpacked, words_of
from motet.sites.workshop import Workshop

RUN = "0123456789abcdef"


class Place:
    """A coordinator's key and one site, which answers in this process."""

    def __init__(self, folder: Path, method: str = "scaffold", **changes: Any):
        self.folder, self.said, self.serial = folder, list[str](), 0
        digits_tables(folder, rows=150)
        self.certs = folder / "certs"
        make_certificates(self.certs, ["127.0.0.1"], NAMES)
        self.experiment = settled_for_sites(resolve(experiment_values(method, **changes)))
        self.key = read_private_key(self.certs / "server.key")
        self.certificate = (self.certs / "server.crt").read_bytes()
        self.statement: list[str] = []
        self.consents = True
        self.site = self.join()

    def join(self, name: str = "hospital-a", state: str = "state") -> AtSite:
        disk = SiteDisk(self.folder / state).locked()
        files = SiteFiles(self.folder / f"{name}.csv", self.folder / "schema.toml")
        key, ca = read_private_key(self.certs / f"{name}.key"), read_certificate(self.certs / "ca.crt")
        try:
            return AtSite(name, key, ca, disk, files, self.ask, "fl.example.org:8000", self.said.append)
        finally:
            disk.release()

    def ask(self, lines: list[str]) -> bool:
        self.statement = lines
        return self.consents

    def asked(self, kind: str, state: State | None = None, **words: Any) -> Parcel:
        self.serial += 1
        usual: dict[str, Any] = {"run": RUN, "site": "hospital-a", "kind": kind, "round": 1, "client": 0}
        usual |= {"serial": self.serial, "nonce": new_nonce()}
        return signed(packed(state or {}, Asked(**(usual | words))), self.key, TO_SITE, self.certificate)

    def answer(self, kind: str, state: State | None = None, **words: Any) -> Replied:
        reply = self.site.answer(self.asked(kind, state, **words))
        assert reply is not None
        self.last = reply
        return words_of(reply, Replied)

    def invited(self, **words: Any) -> Replied:
        invitation = Invitation(experiment=self.experiment.model_dump(mode="json"), sites=3)
        return self.answer("hello", text=invitation.to_json().decode(), **words)

    def begin(self) -> Replied:
        begun = Begun(run=RUN, client=0, sites=3, experiment=self.experiment.model_dump(mode="json"))
        return self.answer("begin", text=begun.to_json().decode())

    def message(self) -> State:
        assert self.site._own is not None
        workshop, own = self.site._own
        method: Method = method_of(self.experiment, workshop.facts(own))
        return {**method.broadcast({**method.start(), "round": 1}, 0)}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def ready(place: Place) -> Place:
    assert place.invited().failure is None and place.begin().failure is None
    return place


# ---------------------------------------------------------------- consent


def test_consent_says_what_leaves_and_is_asked_for_once(place: Place) -> None:
    told = place.invited()
    assert told.failure is None
    said = "\n".join(place.statement)
    for words in ("scaffold.dc (float32 [2410])", "training loss", "accuracy, loss", "leaves 0.02 MB", "never"):
        assert words in said
    facts = SiteTold.from_json(told.text.encode(), "facts")
    assert facts.name == "hospital-a" and facts.train > 0
    place.statement = []
    place.site = place.join()  # a restart
    assert place.invited().failure is None and place.statement == []


def test_a_site_that_does_not_consent_tells_nothing(place: Place) -> None:
    place.consents = False
    told = place.invited()
    assert told.failure == "hospital-a does not consent, and takes no part" and told.text == ""
    assert place.site.ended and not (place.folder / "state" / "consent.json").exists()


@pytest.mark.parametrize("kind", ["prepare", "adapt"])
def test_a_kind_of_task_that_was_not_named_is_refused_and_who_asked_is_named(kind: str, ready: Place) -> None:
    told = ready.answer(kind, ready.message())
    assert told.failure is not None
    assert told.failure.startswith(f"the coordinator at fl.example.org:8000 asks for {kind!r}, to which this site did")
    assert unpacked(ready.last) == {} and any("refused: the coordinator at" in line for line in ready.said)


@pytest.mark.parametrize("kind", ["export", "client_snapshot", "run_metric"])
def test_what_hands_over_models_cannot_even_be_written(kind: str, ready: Place) -> None:
    with pytest.raises(ValueError, match="kind"):
        ready.asked(kind)


def test_a_field_that_was_not_named_does_not_leave(ready: Place) -> None:
    consent = ready.site.consent
    assert consent is not None
    ready.site.consent = consent.model_copy(update={"uploads": {"n": "a number", "w": consent.uploads["w"]}})
    told = ready.answer("train", ready.message())
    assert told.failure is not None and "holds 'scaffold.dc'" in told.failure and "did not consent" in told.failure
    assert unpacked(ready.last) == {} and not list((ready.folder / "state" / "states").iterdir())


def test_a_figure_or_a_loss_that_was_not_named_does_not_leave(ready: Place) -> None:
    consent = ready.site.consent
    assert consent is not None
    ready.site.consent = consent.model_copy(update={"figures": ("accuracy",)})
    told = ready.answer("score", ready.message())
    assert told.failure is not None and ".loss'" in told.failure
    ready.site.consent = consent.model_copy(update={"loss": False})
    assert "training loss" in str(ready.answer("train", ready.message()).failure)
    ready.site.consent = consent
    assert ready.answer("score", ready.message()).failure is None


def test_another_experiment_than_was_consented_to_is_refused(place: Place) -> None:
    assert place.invited().failure is None
    place.experiment = place.experiment.with_({"scoring": {"majority": False}, "method": "fedavg"})
    told = place.begin()
    assert told.failure is not None and "another experiment than this site consented to (method" in told.failure


def test_a_batch_size_that_was_left_open_may_be_chosen(tmp_path: Path) -> None:
    place = Place(tmp_path, local={"batch": 0})
    assert place.invited().failure is None
    assert place.site._own is not None
    place.experiment = with_batch(place.experiment, place.site._own[0].facts(place.site._own[1]))
    assert place.experiment.local.batch >= 16 and place.begin().failure is None


def test_no_code_runs_at_a_site(place: Place) -> None:
    code = place.experiment.model_dump(mode="json") | {"method": "evil.py:Method"}
    told = place.answer("hello", text=Invitation(experiment=code, sites=3).to_json().decode())
    assert told.failure is not None and "names code, 'evil.py:Method'" in told.failure and "accepted" in told.failure


# ---------------------------------------------------------------- messages that are not what they seem


def test_a_message_that_was_changed_on_its_way_is_not_answered(ready: Place) -> None:
    good = ready.asked("train", ready.message())
    words = good.words.replace(b'"round": 1', b'"round": 2')
    assert ready.site.answer(replace(good, words=words)) is None
    tensors = dict(good.tensors)
    tensors[""] = replace(tensors[""], data=tensors[""].data[:-1] + b"\x01")
    assert ready.site.answer(replace(good, tensors=tensors)) is None
    assert ready.said[-1] == (
        "refused: a message is not as the coordinator signed it; accepted: one that nobody changed"
    )


def test_a_message_of_another_authority_or_an_expired_one_is_not_answered(ready: Place, tmp_path: Path) -> None:
    make_certificates(tmp_path / "others", ["127.0.0.1"], [])
    ready.key, own = read_private_key(tmp_path / "others" / "server.key"), ready.certificate
    ready.certificate = (tmp_path / "others" / "server.crt").read_bytes()
    assert ready.site.answer(ready.asked("train", ready.message())) is None
    assert "was not issued by the authority" in ready.said[-1]
    ready.certificate = own  # their key with our certificate
    assert ready.site.answer(ready.asked("train", ready.message())) is None
    assert "not as the coordinator signed it" in ready.said[-1]
    make_certificates(ready.certs, ["127.0.0.1"], [], days=-1)
    ready.key = read_private_key(ready.certs / "server.key")
    ready.certificate = (ready.certs / "server.crt").read_bytes()
    assert ready.site.answer(ready.asked("train", ready.message())) is None
    assert "expired on" in ready.said[-1]
    with pytest.raises(MotetError, match=r"expired on .*`motet certs`"):
        refuse_expired(read_certificate(ready.certs / "server.crt"), "x")


def test_a_message_that_came_before_is_refused_also_after_a_restart(ready: Place) -> None:
    again = ready.asked("train", ready.message())
    assert ready.site.answer(replace(again, tensors=dict(again.tensors))) is not None
    for site in (ready.site, ready.join()):
        reply = site.answer(replace(again, tensors=dict(again.tensors)))
        assert reply is not None
        assert "came before" in str(words_of(reply, Replied).failure)


def test_another_run_and_another_sites_message_are_refused(ready: Place) -> None:
    other = ready.answer("train", ready.message(), run="f" * 16)
    assert "asks for run ffffffffffffffff, but this site consented to run 0123456789abcdef" in str(other.failure)
    assert "a message for 'hospital-b' came to 'hospital-a'" in str(ready.answer("train", site="hospital-b").failure)
    assert "of client 2" in str(ready.answer("train", ready.message(), client=2).failure)


def test_rows_that_changed_are_refused(ready: Place) -> None:
    path = ready.folder / "hospital-a.csv"
    path.write_text(path.read_text().replace("d0", "d1", 1))
    message = ready.message()
    ready.site = ready.join()
    assert "are not those with which it joined" in str(ready.answer("train", message).failure)


# ---------------------------------------------------------------- states on the site's disk


def test_a_state_is_on_disk_before_the_reply_that_names_it_and_work_starts_from_the_one_that_is_named(
    ready: Place,
) -> None:
    first = ready.answer("train", ready.message())
    assert first.changed and first.entry is not None
    states = ready.folder / "state" / "states"
    assert [p.stem for p in states.iterdir()] == [first.entry.sha256]
    again = ready.answer("train", ready.message(), needed=(first.entry.sha256,))
    assert again.entry == first.entry  # repeated from the same state: the same bytes
    later = ready.answer("train", ready.message(), round=2, base=first.entry.sha256, needed=(first.entry.sha256,))
    assert later.entry is not None and later.entry != first.entry
    assert {p.stem for p in states.iterdir()} == {first.entry.sha256, later.entry.sha256}
    third = ready.answer("train", ready.message(), round=3, base=later.entry.sha256)
    assert third.entry is not None
    assert {p.stem for p in states.iterdir()} == {later.entry.sha256, third.entry.sha256}  # nobody needs the first
    (states / f"{third.entry.sha256}.safetensors").write_bytes(b"x")
    assert "is damaged" in str(ready.answer("train", ready.message(), base=third.entry.sha256).failure)
    assert "is not on the site's disk" in str(ready.answer("train", ready.message(), base="0" * 64).failure)


def test_a_folder_belongs_to_one_site_and_one_process(ready: Place) -> None:
    with pytest.raises(MotetError, match="belongs to 'hospital-a'; accepted: --name hospital-a"):
        ready.join("hospital-b")
    assert os.stat(ready.folder / "state").st_mode & 0o077 == 0


def test_the_site_keeps_what_its_model_is_made_from(ready: Place) -> None:
    words = FinalWords(round=3, base="", member="", figures={"personal.split.accuracy": 0.5})
    assert ready.answer("finish", ready.message(), text=words.to_json().decode()).failure is None
    final = ready.site.disk.final()
    assert ready.site.ended and final is not None and final[0].round == 3 and "w" in final[1]


# ---------------------------------------------------------------- what a coordinator does not accept


class Line:
    """Carries messages to one site in this process; `spoil` changes its replies on their way."""

    def __init__(self, site: AtSite):
        self.site, self.replies, self.count = site, dict[str, Parcel](), 0
        self.spoil: list[Any] = []

    def nodes(self) -> dict[str, NodeOnline]:
        return {"hospital-a": NodeOnline(1, "now")}

    def push(self, message: Outgoing) -> str:
        self.count += 1
        reply = self.site.answer(message.parcel)
        assert reply is not None
        if self.spoil:
            reply = self.spoil.pop(0)(reply)
        self.replies[str(self.count)] = reply
        return str(self.count)

    def pull(self, message_ids: Sequence[str]) -> list[Incoming]:
        return [Incoming(i, self.replies.pop(i)) for i in message_ids if i in self.replies]

    def finish(self) -> None:
        pass


def engine_of(ready: Place, line: Line, said: list[str]) -> Flower:
    keys = {"hospital-a": read_public_key(ready.certs / "hospital-a.pub")}
    identity = Identity(RUN, ready.key, ready.certificate)
    return Flower(line, identity, keys, Terms(1, 30.0), Board(keys, said.append))


def resigned(parcel: Parcel, key: Any, **changes: Any) -> Parcel:
    words = words_of(parcel, Replied).model_copy(update=changes)
    return signed(Parcel(words.to_json(), parcel.tensors), key, FROM_SITE)


def test_replies_that_are_forged_changed_or_replayed_are_not_accepted(ready: Place) -> None:
    line, said = Line(ready.site), list[str]()
    own, other = ready.site.key, read_private_key(ready.certs / "hospital-b.key")
    engine = engine_of(ready, line, said)
    old = ready.last
    for spoil, words in (
        (lambda reply: resigned(reply, other), "is not signed with its key, or was changed"),
        (lambda reply: replace(reply, words=reply.words + b" "), "is not signed with its key, or was changed"),
        (lambda reply: old, "answers another message (replayed, or of another run)"),
        (lambda reply: resigned(reply, own, run="f" * 16), "answers another message (replayed, or of another run)"),
        (lambda reply: resigned(reply, own, client=1), "is in the name of client 1"),
    ):
        line.spoil = [spoil]
        (outcome,) = engine.run([Task("train", 0, 1, ready.message())])
        assert outcome.reply is not None and words in said[-1]  # asked once more, the site answered itself
    line.spoil = [lambda reply: resigned(reply, other)] * STRIKES
    (outcome,) = engine.run([Task("train", 0, 1, ready.message())])
    assert outcome.reply is None and "not signed with its key" in str(outcome.failure)


def test_the_engine_knows_states_by_their_hashes_and_hands_over_nothing_else(ready: Place) -> None:
    engine = engine_of(ready, Line(ready.site), [])
    (outcome,) = engine.run([Task("train", 0, 1, ready.message())])
    assert outcome.train_loss is not None and outcome.sent > 0 and outcome.received > 0
    kept = engine.keep(1)
    engine.kept(1)
    (later,) = engine.run([Task("train", 0, 2, ready.message())])
    assert later.reply is not None and engine.keep(2) != kept
    engine.go_back(1, kept)
    (again,) = engine.run([Task("train", 0, 2, ready.message())])
    assert again.reply is not None and encode(again.reply) == encode(later.reply)
    for kind in ("export", "client_snapshot", "run_metric"):
        (refused,) = engine.run([Task(kind, 0, 2, {})])  # type: ignore[arg-type]
        assert refused.failure == "a real site does not hand that over"
    with pytest.raises(MotetError, match="stays where the client is"):
        engine.private(0)


# ---------------------------------------------------------------- words of a user


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scoring": {"test": "common", "by_class": True}}, "real sites have no test set in common"),
        ({"scoring": {"derived_generic": True}}, "personal models leave their sites"),
        ({"scoring": {"threshold": "f1"}}, "scoring.threshold"),
        ({"data": {"label_noise": "pair:0.2"}}, "data.label_noise is 'pair:0.2', which changes data in a simulation"),
        ({"method": "mine.py:Method"}, "names code, 'mine.py:Method'"),
        ({"net": {"name": "mlp", "weights": "w.safetensors"}}, "net.weights"),
    ],
)
def test_what_real_sites_cannot_do_is_refused_in_a_sentence(changes: Mapping[str, Any], words: str) -> None:
    values = experiment_values(**{"method": "fedavg", **changes})
    with pytest.raises(MotetError) as error:
        settled_for_sites(resolve(values))
    assert words in str(error.value) and "accepted" in str(error.value)


@pytest.mark.parametrize(("name", "least", "words"), [("shared-data", 3, "no public ones"), ("apple", 2, "--least 3")])
def test_methods_that_need_more_than_sites_give_are_refused(name: str, least: int, words: str, place: Place) -> None:
    assert place.invited().failure is None and place.site._own is not None
    workshop, own = place.site._own
    experiment = place.experiment.with_({"method": name, "rounds": {"cohort": 1.0}})
    method = method_of(experiment, Workshop(experiment, workshop.table, 0, 3, "x").facts(own))
    with pytest.raises(MotetError, match=words):
        refuse_method(method, name, 3, least)


@pytest.mark.parametrize("text", ["", "8000", "host:", ":1", "host:99999", "host:1x"])
def test_an_address_that_is_none(text: str) -> None:
    with pytest.raises(MotetError, match=r"--address is .*; accepted: HOST:PORT"):
        address_of(text, "--address")


@pytest.mark.parametrize(("text", "seconds"), [("90", 90.0), ("90s", 90.0), ("10m", 600.0), ("2h", 7200.0)])
def test_times(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
    assert address_of("[::1]:80", "x") == ("::1", 80)


@pytest.mark.parametrize("text", ["", "0", "x", "10d", "nan", "-5m"])
def test_a_time_that_is_none(text: str) -> None:
    with pytest.raises(MotetError, match=r"--deadline is .*; accepted: 1s to 168h"):
        seconds_of(text)


@pytest.mark.parametrize("text", ["Hospital A", "a,,b", "a,a", "server", "-a", "../x"])
def test_names_that_no_site_can_have(text: str) -> None:
    with pytest.raises(MotetError, match="--sites"):
        site_names(text)


def test_keys_have_their_modes_and_are_not_replaced(tmp_path: Path) -> None:
    make_certificates(tmp_path, ["fl.example.org", "10.0.0.1"], ["hospital-a"])
    for path in tmp_path.glob("*.key"):
        assert path.stat().st_mode & 0o777 == 0o600
    ca = (tmp_path / "ca.crt").read_bytes()
    with pytest.raises(MotetError, match="whose key is in"):
        make_certificates(tmp_path, ["fl.example.org"], ["hospital-a"])
    make_certificates(tmp_path, ["fl.example.org"], ["hospital-b"])  # one more site, of the same authority
    assert (tmp_path / "ca.crt").read_bytes() == ca
    os.chmod(tmp_path / "hospital-a.key", 0o644)
    with pytest.raises(MotetError, match="may be read by others"):
        read_private_key(tmp_path / "hospital-a.key")
    with pytest.raises(MotetError, match="is no public key"):
        read_public_key(tmp_path / "ca.crt")
    with pytest.raises(MotetError, match=r"cannot read .*; accepted: a folder of `motet certs`"):
        read_public_key(tmp_path / "nobody.pub")


def test_tensors_of_every_type_travel_as_they_are() -> None:
    words = Replied(run=RUN, site="a", kind="train", round=1, client=0, nonce=new_nonce())
    state: State = {"n": 3, "f": 0.5, "t": True, "small": torch.arange(5), "large": torch.randn(40_000).bfloat16()}
    state |= {"grid": torch.randn(200, 200)}
    found = unpacked(packed(state, words))
    assert encode(found) == encode(state)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_between_two_tasks_a_site_holds_no_model_of_the_last_one(ready: Place) -> None:
    """Its nets kept weights and gradients of the last task beside those of the next."""
    assert ready.answer("train", ready.message()).failure is None
    place = ready.site.workplace
    for net in (place.method.net, place.generic_net):
        assert all(p.untyped_storage().nbytes() <= p.element_size() and p.grad is None for p in net.parameters())
    assert ready.answer("train", ready.message()).failure is None  # which binds them again
