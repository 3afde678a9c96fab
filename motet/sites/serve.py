"""The coordinator: start a SuperLink, wait for the sites, agree with them, run the rounds, write the record.

    RUN/sites.json     which sites, at which address, what they told; what a killed coordinator goes on from
    RUN/superlink/     Flower's database, its log, and a secret that nobody else can read

It has no data: what it knows of the sites is what they told it after they consented.
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from motet.config.experiment import Experiment, resolve
from motet.data import Prepare
from motet.data.prepare import restored
from motet.data.prepare_table import TablePrepare
from motet.errors import MotetError, one_sentence, shown
from motet.io.files import make_folder, read_own
from motet.io.json_models import to_json
from motet.io.memory_limits import keep_freed_memory
from motet.messages.message import State
from motet.metrics import family
from motet.metrics.names import GENERIC, MetricName
from motet.metrics.registry import headline_metric
from motet.runs.checkpoint import Checkpoints
from motet.runs.environment import environment
from motet.runs.record import Record
from motet.runs.run import Watcher, finish, gone_back, one_thread, restore
from motet.server.assembly import ServerSide, method_of, net_of, told_to_methods
from motet.server.evaluation import Row, generic_beside
from motet.server.memory_estimate import refuse_what_needs_too_much
from motet.server.number_targets import refuse_metrics_of_others
from motet.sites.at_site import Invitation, SiteTold
from motet.sites.board import Board
from motet.sites.certificates import (
    CA,
    SERVER,
    SERVER_KEY,
    read_certificate,
    read_private_key,
    read_public_key,
    refuse_expired,
    refuse_other_issuer,
    require_cryptography,
)
from motet.sites.disk import Begun, FinalWords
from motet.sites.engine import Flower, Identity, Question, Terms
from motet.sites.flower.carrier import Carrier, Control
from motet.sites.flower.common import require_flower
from motet.sites.settling import facts_of, refuse_method, refuse_missing_sites, settled_for_sites, with_batch
from motet.sites.sites_file import FILE, SitesFile, read_sites_file
from motet.sites.status import StatusPage
from motet.sites.superlink import SuperLink
from motet.training.randomness import secret_bytes

LINK = "superlink"
FOR_EVER = 1e9
DEADLINE = 600.0
"""Seconds that a round waits for a site where the user says nothing."""


@dataclass(frozen=True)
class ServeRequest:
    """Everything that `motet serve` is told for a new run."""

    experiment: Experiment
    host: str
    port: int
    certs: Path
    sites: Sequence[str]
    least: int
    deadline: float
    folder: Path
    status: int | None = None
    """The port of the status page on loopback; None for no page, 0 for a free port."""


@dataclass
class SitesSide(ServerSide):
    """What the coordinator needs for its rounds, and what it hands out at the end."""

    by: TablePrepare
    kept: SitesFile
    folder: Path
    board: Board = field(repr=False)
    link_secret: bytes = field(repr=False)

    @property
    def secret(self) -> bytes:
        """What the noise comes from, which sites cannot compute from the seed; the same after a restart."""
        return secret_bytes(self.link_secret, self.experiment.seed, "noise of the coordinator")

    @property
    def prepare(self) -> Prepare:
        """The preparation that all sites use."""
        return self.by

    def ended(self, server: State, round: int, clients: Sequence[Mapping[str, Any]]) -> None:
        """Send each site what its own model is made from; a site that is away gets it when the run is served again."""
        assert isinstance(self.engine, Flower)
        rows = {row["client"]: row for row in clients}
        members = self._members(clients)
        questions = [
            Question(i, "finish", round, self._last_message(server, i), self._last_words(i, round, rows, members))
            for i in self.federation_facts.training_ids
            if self.engine.names[i] not in self.kept.handed
        ]
        for question in self.engine.ask(questions):
            name, answer = self.engine.names[question.client_id], question.answer
            if answer is None or answer.words is None:
                why = "no answer" if answer is None else answer.failure
                self.board.say(f"{name} has not got its model yet ({why}); `motet serve --resume` gives it")
                continue
            self.board.site(name, "done")
            self.kept = self.kept.model_copy(update={"handed": (*self.kept.handed, name)})
            self.kept.write(self.folder)

    def _last_message(self, server: State, client_id: int) -> Callable[[], State]:
        def build() -> State:
            message = dict(self.method.broadcast(server, client_id))
            generic = self.method.generic(server)
            return message if generic is None else message | generic_beside(message, generic)

        return build

    def _last_words(self, i: int, round: int, rows: Mapping[int, Mapping[str, Any]], members: Mapping[int, str]) -> str:
        assert isinstance(self.engine, Flower)
        figures = {name: value for name, value in rows.get(i, {}).items() if MetricName.read(name)}
        base = self.engine.entries[i].sha256 if i in self.engine.entries else ""
        numbers = {n: float(v) for n, v in figures.items() if isinstance(v, int | float)}
        words = FinalWords(round=round, base=base, member=members.get(i, ""), figures=numbers)
        return words.to_json().decode()

    def _members(self, clients: Sequence[Mapping[str, Any]]) -> dict[int, str]:
        """Return the member of the method's family that each site reports; empty without a family."""
        of, scoring = self.method.family, self.experiment.scoring
        if of is None:
            return {}
        data, metric = scoring.headline.data, headline_metric(scoring)
        found = family.reported(clients, of.members, of.fixed, of.rule, data, metric)
        return {i: found.get(i, of.fixed) for i in self.federation_facts.training_ids}


def serve(request: ServeRequest, watcher: Watcher, said: Callable[[str], None]) -> Path:
    """Run an experiment at real sites from its beginning, and return the folder of its record."""
    experiment = settled_for_sites(request.experiment)
    if not 0 < request.least <= len(request.sites):
        raise MotetError(f"--least is {request.least}; accepted: 1 to {len(request.sites)}, the number of --sites")
    folder = request.folder
    if (folder / FILE).exists():
        raise MotetError(f"{folder} holds a run of sites already; accepted: `motet serve --resume {folder}`")
    Record(folder).refuse_if_taken()
    make_folder(folder)
    kept = SitesFile(
        run=secrets.token_hex(8),
        sites=tuple(request.sites),
        host=request.host,
        port=request.port,
        certs=str(request.certs.resolve()),
        least=request.least,
        deadline=request.deadline,
        experiment=experiment.model_dump(mode="json"),
    )
    return _served(folder, kept, request.status, watcher, said)


def serve_again(
    folder: Path, certs: Path | None, status: int | None, watcher: Watcher, said: Callable[[str], None]
) -> Path:
    """Go on with a run at real sites after any kill, and return its folder; `certs` counts in place of the noted."""
    kept = read_sites_file(folder)
    if certs is not None:
        kept = kept.model_copy(update={"certs": str(certs.resolve())})
    finished = (folder / "experiment.toml").exists() and Record(folder).finished
    if finished and set(kept.handed) == set(kept.sites):
        return folder
    return _served(folder, kept, status, watcher, said)


def _served(folder: Path, kept: SitesFile, status: int | None, watcher: Watcher, said: Callable[[str], None]) -> Path:
    require_cryptography()
    require_flower()
    keep_freed_memory()
    kept = kept.model_copy(update={"starts": kept.starts + 1})
    certs = Path(kept.certs)
    identity, keys = _identity(kept.run, certs), {n: read_public_key(certs / f"{n}.pub") for n in kept.sites}
    board = Board(kept.sites, said)
    make_folder(folder / LINK)
    link = SuperLink(folder / LINK, certs, kept.host, kept.port, board.say)
    page = None
    try:
        kept = kept.model_copy(update={"port": link.port})
        kept.write(folder)  # before the first message, whose number depends on it
        page = StatusPage(board, status) if status is not None else None
        if page:
            said(f"status page: {page.address}")
        link.start()
        control = Control(link.socket)
        control.register(keys)
        link.open()
        said(f"waiting for {', '.join(kept.sites)} at {kept.host}:{link.port}")
        carrier = Carrier(link.socket, link.secret, control.start_run())
        control.close()
        engine = Flower(carrier, identity, keys, Terms(kept.least, float(kept.deadline)), board, kept.starts)
        with one_thread():
            _run(folder, kept, engine, board, watcher, link.secret)
        board.about(ended="the run is finished")
        return folder
    finally:
        link.stop()
        if page:
            page.stop()


def _identity(run: str, certs: Path) -> Identity:
    """Return by what the coordinator is known; raise if its certificate has expired or is of another authority."""
    certificate, where = read_certificate(certs / SERVER), str(certs / SERVER)
    refuse_expired(certificate, where)
    refuse_other_issuer(certificate, read_certificate(certs / CA), where)
    return Identity(run, read_private_key(certs / SERVER_KEY), read_own(certs / SERVER, 2**16))


def _run(folder: Path, kept: SitesFile, engine: Flower, board: Board, watcher: Watcher, secret: bytes) -> None:
    """Greet the sites, if they did not tell about themselves yet, then do the rounds."""
    record, asked = Record(folder), resolve(kept.experiment)
    try:
        if not kept.told:
            kept = kept.model_copy(update={"told": tuple(_greeted(engine, asked, board))})
            kept.write(folder)
        side = _side(kept, asked, engine, folder, board, secret)
    except BaseException:
        engine.close()
        raise
    onlooker = _WithBoard(watcher, board, side)
    if (folder / "experiment.toml").exists():
        with record.reopen():
            checkpoints = Checkpoints(record.checkpoint_folder)
            for round in checkpoints.rounds:
                engine.must_keep(checkpoints.clients_of(round))
            if record.finished:
                _hand_out(side, record, checkpoints)
                return
            finish(side, record, checkpoints, gone_back(side, record, checkpoints), onlooker)
        return
    try:
        _begun(engine, side, kept)
        created = record.create(side.experiment, environment({}))
    except BaseException:
        engine.close()
        raise
    with created:
        finish(side, record, Checkpoints(record.checkpoint_folder), None, onlooker)


def _hand_out(side: SitesSide, record: Record, checkpoints: Checkpoints) -> None:
    """Send what their models are made from to the sites that were away when the run ended."""
    try:
        loaded = restore(side, checkpoints)
        if loaded is not None:
            rows = [row for row in record.clients_of(loaded.round) if not row.get("new")]
            side.ended(loaded.server, loaded.round, rows)
    finally:
        side.engine.close()


def _greeted(engine: Flower, experiment: Experiment, board: Board) -> list[SiteTold]:
    """Ask every site for its consent and for what it tells, and wait until all have answered."""
    invitation = Invitation(experiment=experiment.model_dump(mode="json"), sites=len(engine.names))
    text = invitation.to_json().decode()
    questions = [Question(i, "hello", 0, dict, text) for i in range(len(engine.names))]
    told = dict[int, SiteTold]()
    for question in _all_of(engine, questions):
        name = engine.names[question.client_id]
        assert question.answer is not None and question.answer.words is not None
        told[question.client_id] = SiteTold.from_json(question.answer.words.text.encode(), f"what {name} told")
        board.say(f"{name} takes part, with {told[question.client_id].train} training rows")
        if told[question.client_id].name != name:
            raise MotetError(f"{name} calls itself {shown(told[question.client_id].name)}; accepted: {name}")
    return [told[i] for i in range(len(engine.names))]


def _all_of(engine: Flower, questions: Sequence[Question]) -> list[Question]:
    """Return all questions, answered; raise a `MotetError` if a site fails, which stops before the first round."""
    everybody, before = list[Question](), engine.terms
    engine.terms = replace(before, least=len(questions))
    try:
        for question in engine.ask(questions, FOR_EVER):
            if question.answer is None or question.answer.words is None:
                why = question.answer.failure if question.answer else "no answer"
                raise MotetError(f"the run cannot begin: {why}")
            everybody.append(question)
    finally:
        engine.terms = before
    return everybody


def _begun(engine: Flower, side: ServerSide, kept: SitesFile) -> None:
    """Tell the sites the experiment as it runs; each builds its workplace."""
    texts = [
        Begun(run=kept.run, client=i, sites=len(engine.names), experiment=side.experiment.model_dump(mode="json"))
        .to_json()
        .decode()
        for i in range(len(engine.names))
    ]
    _all_of(engine, [Question(i, "begin", 0, dict, text) for i, text in enumerate(texts)])


def _side(kept: SitesFile, asked: Experiment, engine: Flower, folder: Path, board: Board, secret: bytes) -> SitesSide:
    """Return the server's side, from what the sites told; raise if they do not agree or the method cannot run."""
    first = kept.told[0]
    for site in kept.told:
        if site.prepare != first.prepare:
            raise MotetError(
                f"{site.name} has another schema than {first.name}; accepted: the same schema.toml at all sites"
            )
    prepare = restored(first.prepare, {})
    if not isinstance(prepare, TablePrepare):
        raise MotetError(f"{first.name} told no schema of a table; accepted: a table")
    prepare = replace(prepare, given=True)
    digest = hashlib.sha256(to_json([site.model_dump() for site in kept.told]).encode()).hexdigest()
    facts = facts_of([(s.name, s.train, s.val, s.test) for s in kept.told], prepare, digest)
    experiment = with_batch(asked, facts)
    refuse_metrics_of_others(experiment, facts)
    refuse_what_needs_too_much(experiment, facts, told_to_methods(experiment, facts))
    method = method_of(experiment, facts)
    refuse_method(method, experiment.method, len(kept.sites), kept.least)
    net = net_of(experiment, facts)
    side = SitesSide(experiment, facts, method, net, engine, prepare, kept, folder, board, secret)
    side.refuse_what_cannot_be_followed()
    refuse_missing_sites(side, kept.least)
    return side


class _WithBoard:
    """A watcher that notes rounds on the board and passes them on."""

    def __init__(self, watcher: Watcher, board: Board, side: SitesSide):
        self.watcher, self.board, self.side = watcher, board, side
        self.names = {str(i): client.name for i, client in side.federation_facts.by_id.items()}

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """Note what the run is, and the rounds that are done."""
        metric = headline_metric(experiment.scoring)
        self.board.about(
            method=experiment.method,
            rounds=experiment.rounds.last,
            metric=metric.said,
            higher_is_better=metric.higher_is_better,
            folder=str(folder),
        )
        with suppress(MotetError):
            for row in Record(folder).rounds:
                self._note(row)
        if warning:
            self.board.say(one_sentence(warning))
        self.watcher.started(experiment, folder, round, warning)

    def round(self, row: Row) -> None:
        """Note a round, and who was set aside in it."""
        self._note(row)
        for name, why in dict(row["set_aside"]).items():  # type: ignore[call-overload]
            self.board.say(f"round {row['round']}: {self.names.get(name, name)} was set aside: {why}")
        self.watcher.round(row)

    def _note(self, row: Mapping[str, Any]) -> None:
        headline = self.side.experiment.training_headline
        generic = replace(headline, model=GENERIC).of(row)
        aside = {self.names.get(i, i): why for i, why in dict(row["set_aside"]).items()}
        self.board.round({**row, "set_aside": aside}, generic, headline.of(row))
