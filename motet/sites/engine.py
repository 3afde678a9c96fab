"""The engine of real sites: tasks become signed messages, and private states stay there, known by their hashes.

Each message names the private state that the work starts from, by its SHA-256. A site has its last states on disk and
looks that one up, so that a task that is repeated, late or resumed starts from where it must: `go_back` needs no
message, and `keep` none either, for each reply tells the hash of the state that the work left.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from motet.engines.engine import Engine
from motet.errors import MotetError, one_sentence
from motet.io.hashed_files import ClientFiles
from motet.io.text import listed
from motet.messages.message import State, byte_count
from motet.messages.task import SITE_TASKS, Outcome, Task, counted, in_task_order
from motet.sites.board import Board
from motet.sites.flower.carrier import Incoming, NodeOnline, Outgoing
from motet.sites.wire import (
    FROM_SITE,
    TO_SITE,
    Asked,
    Kind,
    Parcel,
    Replied,
    is_signed_by,
    new_nonce,
    packed,
    signed,
    unpacked,
    words_of,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

POLL = 0.1
"""Seconds between two looks for replies."""
LOOK = 1.0
"""Seconds between two looks at who is there, and at least between two messages about the same task."""
STRIKES = 3
"""How many answers that are not what was asked for a site may give to one task before it is set aside."""
SERIALS = 2**32
"""Messages that a coordinator may send between two starts."""
REMIND = 60.0


class Carries(Protocol):
    """What carries messages: `Carrier`, over a SuperLink."""

    def nodes(self) -> dict[str, NodeOnline]:
        """Return the sites that are on, by name."""

    def push(self, message: Outgoing) -> str:
        """Send a message and return its number; empty if it was not taken."""

    def pull(self, message_ids: Sequence[str]) -> Iterable[Incoming]:
        """Return what came of these messages by now."""

    def finish(self) -> None:
        """End the run and close the connections."""


@dataclass(frozen=True)
class Terms:
    """When a round goes on without a site: after the deadline, if at least so many sites answered."""

    least: int
    deadline: float


@dataclass
class Question:
    """A message to a site, as long as it is not answered."""

    client_id: int
    kind: Kind
    round: int
    build: Callable[[], State]
    text: str = ""
    bytes: int = 0
    sent_to: NodeOnline | None = None
    sent_at: float = 0.0
    message_id: str = ""
    nonce: str = ""
    strikes: int = 0
    answer: "Answer | None" = None


@dataclass(frozen=True)
class Answer:
    """What a site said: its words and tensors, or the reason why there are none."""

    words: Replied | None = None
    state: State = field(default_factory=dict)
    failure: str | None = None


@dataclass(frozen=True)
class Identity:
    """By what a coordinator is known: its run, its key and its certificate."""

    run: str
    key: "ec.EllipticCurvePrivateKey"
    certificate: bytes


class Flower(Engine):
    """Asks real sites, waits for them, and asks again whoever came back."""

    def __init__(
        self,
        carrier: Carries,
        identity: Identity,
        sites: "Mapping[str, ec.EllipticCurvePublicKey]",
        terms: Terms,
        board: Board,
        start: int = 1,
    ):
        """Ask these sites, whose numbers are their places; `start` counts how often the coordinator was started."""
        self.carrier, self.identity, self.terms, self.board = carrier, identity, terms, board
        self.names, self.keys = list(sites), dict(sites)
        self.serial = start * SERIALS
        self.entries: ClientFiles = {}
        self._kept: list[ClientFiles] = []  # of the checkpoints that exist: the states that sites must keep
        self._absent: set[str] = set()
        self._online: dict[str, NodeOnline] = {}
        self._looked = 0.0

    # ------------------------------------------------------------ who is there

    def _look(self, at_least_every: float = LOOK) -> dict[str, NodeOnline]:
        if time.monotonic() - self._looked >= at_least_every:
            self._online = {name: node for name, node in self.carrier.nodes().items() if name in self.keys}
            self._looked = time.monotonic()
            self._absent -= self._online.keys()
        return self._online

    def available(self, client_ids: Sequence[int]) -> list[int]:
        """Return who is there, after waiting for all that were there before, up to the deadline.

        With fewer than the least number of sites it waits on: a round needs them.
        """
        end, reminded = time.monotonic() + self.terms.deadline, time.monotonic()
        while True:
            online = self._look(0.3)
            there = [i for i in client_ids if self.names[i] in online]
            awaited = [self.names[i] for i in client_ids if i not in there and self.names[i] not in self._absent]
            for name in self.names:
                if name not in online:
                    self.board.site(name, "away", late=name in awaited)
            if not awaited and len(there) >= self.terms.least:
                return there
            if time.monotonic() > end:
                if awaited:
                    self.board.say(f"going on without {listed(awaited)}, not there for {self.terms.deadline:g} s")
                    self._absent |= set(awaited)
                if len(there) >= self.terms.least:
                    return there
            if time.monotonic() - reminded > REMIND:
                reminded = time.monotonic()
                self.board.say(f"waiting for {listed([n for n in self.names if n not in online])}")
            time.sleep(0.3)

    def fewest(self, cohort: int) -> int:
        """Return the least number of sites, or the cohort if that is smaller."""
        return min(cohort, self.terms.least)

    # ------------------------------------------------------------ questions

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        allowed = [task for task in tasks if task.kind in SITE_TASKS]
        refused = [t.failed("a real site does not hand that over") for t in tasks if t.kind not in SITE_TASKS]
        yield from in_task_order(tasks, [*refused, *self._outcomes(allowed)] if refused else self._outcomes(allowed))

    def _outcomes(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        by_client = {task.client_id: task for task in tasks}
        questions = [Question(t.client_id, t.kind, t.round, t.build_message) for t in tasks]  # type: ignore[arg-type]
        for question in self.ask(questions):
            yield self._outcome(by_client[question.client_id], question)

    def _outcome(self, task: Task, question: Question) -> Outcome:
        answer = question.answer
        assert answer is not None
        if answer.words is None:
            return task.failed(answer.failure or "no answer")
        words, loss = answer.words, answer.words.train_loss
        if words.changed:
            self.entries.pop(task.client_id, None)
            self.entries |= {task.client_id: words.entry} if words.entry else {}
        kind, round = words.kind, words.round
        found = Outcome(kind, task.client_id, round, answer.state, train_loss=None if loss is None else float(loss))  # type: ignore[arg-type]
        return counted(found, question.bytes)

    def ask(self, questions: Sequence[Question], deadline: float | None = None) -> Iterator[Question]:
        """Yield each question once it is answered, or, after the deadline, once enough others are.

        Without tasks to wait for it ends. A site that comes back is asked again; what is not answered in the end has
        an answer with the reason.
        """
        seconds = self.terms.deadline if deadline is None else deadline
        end, reminded = time.monotonic() + seconds, time.monotonic()
        open_ones = list(questions)
        while open_ones:
            self._send([q for q in open_ones if self._is_due(q)], seconds)
            for question in self._take_in(open_ones):
                open_ones.remove(question)
                self.board.answered(self.names[question.client_id])
                yield question
            late = time.monotonic() > end
            for question in open_ones:
                self._show(question, late)
            enough = sum(q.answer is not None and q.answer.words is not None for q in questions) >= min(
                self.terms.least, len(questions)
            )
            given_up = [q for q in open_ones if late or self.names[q.client_id] in self._absent]
            if enough and len(given_up) == len(open_ones):
                for question in given_up:
                    name = self.names[question.client_id]
                    self._absent.add(name)
                    question.answer = Answer(failure=f"{name} gave no answer in {seconds:g} s")
                    yield question
                return
            if time.monotonic() - reminded > REMIND:
                reminded = time.monotonic()
                self.board.say(f"waiting for {listed([self.names[q.client_id] for q in open_ones])}")
            if open_ones:
                time.sleep(POLL)

    def _is_due(self, question: Question) -> bool:
        """Return whether a question must be sent: the site is there, and has not got it since it came."""
        node = self._look().get(self.names[question.client_id])
        if node is None or question.sent_to == node:
            return False
        return time.monotonic() - question.sent_at > LOOK or question.sent_to is not None

    def _send(self, questions: Sequence[Question], seconds: float) -> None:
        for question in questions:  # one after the other: each holds a model until it is sent
            name = self.names[question.client_id]
            node = self._online[name]
            if question.sent_to is not None:
                self.board.say(f"asking {name} again, which came back")
            state = question.build()
            question.bytes, question.nonce = byte_count(state), new_nonce()
            question.sent_to, question.sent_at = node, time.monotonic()
            parcel = signed(packed(state, self._words(question)), self.identity.key, TO_SITE, self.identity.certificate)
            message = Outgoing(node.number, question.kind, question.round, parcel, max(3600.0, 2 * seconds))
            question.message_id = self.carrier.push(message)
            if not question.message_id:
                question.sent_to = None  # the site was gone again: next time

    def _words(self, question: Question) -> Asked:
        i = question.client_id
        self.serial += 1
        needed = {kept[i].sha256 for kept in self._kept if i in kept}
        base = self.entries[i].sha256 if i in self.entries else ""
        return Asked(
            run=self.identity.run,
            site=self.names[i],
            kind=question.kind,
            round=question.round,
            client=i,
            serial=self.serial,
            nonce=question.nonce,
            base=base,
            needed=tuple(sorted(needed | ({base} if base else set()))),
            text=question.text,
        )

    def _show(self, question: Question, late: bool) -> None:
        name = self.names[question.client_id]
        what = f"{question.kind} of round {question.round}" if question.round else question.kind
        if name in self._online and question.sent_to is not None:
            self.board.site(name, "working", what, late)
        else:
            self.board.site(name, "away", what, late)

    # ------------------------------------------------------------ answers

    def _take_in(self, questions: Sequence[Question]) -> list[Question]:
        by_id = {q.message_id: q for q in questions if q.message_id}
        answered = []
        for incoming in self.carrier.pull(list(by_id)) if by_id else ():
            question = by_id.pop(incoming.message_id, None)
            if question is None:
                continue
            question.message_id = ""
            if incoming.parcel is None:
                self._without_reply(question, incoming)
            else:
                self._judge(question, incoming.parcel)
            if question.answer is not None:
                answered.append(question)
        return answered

    def _without_reply(self, question: Question, incoming: Incoming) -> None:
        """Note that a site could not be reached, which is waited for, or that its reply is no message of Motet's."""
        if incoming.unavailable:
            question.sent_to = None
            self.board.site(self.names[question.client_id], "away")
        else:
            self._strike(question, incoming.why)

    def _judge(self, question: Question, parcel: Parcel) -> None:
        """Take a reply as the answer if it is the site's own, to this very message; otherwise ask once more."""
        name = self.names[question.client_id]
        if not is_signed_by(parcel, self.keys[name], FROM_SITE):
            self._strike(question, f"a reply in the name of {name} is not signed with its key, or was changed")
            return
        try:
            words = words_of(parcel, Replied)
            if words.nonce != question.nonce or (words.run, words.site) != (self.identity.run, name):
                self._strike(question, f"a reply of {name} answers another message (replayed, or of another run)")
            elif words.client != question.client_id:
                self._strike(question, f"a reply of {name} is in the name of client {words.client}")
            elif words.failure is not None:
                question.answer = Answer(failure=one_sentence(f"{name}: {words.failure}"))
            else:
                question.answer = Answer(words, unpacked(parcel))
        except MotetError as error:
            question.answer = Answer(failure=one_sentence(f"{name} sent a reply that cannot be read: {error}"))

    def _strike(self, question: Question, why: str) -> None:
        question.strikes += 1
        self.board.say(f"not accepted: {why}")
        if question.strikes >= STRIKES:
            question.answer = Answer(failure=why)
        else:
            question.sent_to = None

    # ------------------------------------------------------------ private states, which are at the sites

    def keep(self, round: int) -> ClientFiles:
        """Return what replies told of the present states: sites wrote them before they answered."""
        return dict(self.entries)

    def kept(self, round: int, also: ClientFiles | None = None) -> None:
        """From now on sites must keep the states of this checkpoint and of the one before, and `also`."""
        before = self._kept[-1:]
        self._kept = [*([also] if also else []), *before, dict(self.entries)]

    def go_back(self, round: int, entries: ClientFiles) -> None:
        """Let the next tasks start from these states."""
        self.entries = dict(entries)
        self._kept.append(dict(entries))

    def must_keep(self, entries: ClientFiles) -> None:
        """Let sites keep these states too, of another checkpoint that exists."""
        self._kept.insert(0, dict(entries))

    def close(self) -> None:
        """End the run at the SuperLink."""
        self.carrier.finish()
