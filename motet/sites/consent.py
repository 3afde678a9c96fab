"""What a site consents to before it joins, in words that are printed, and how that is enforced at the site.

A task or a field of a reply that the consent does not name is refused at the site, whatever the coordinator asks.
"""

import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from motet.config.experiment import Experiment
from motet.config.scoring_section import ScoringSettings
from motet.data import ClientData
from motet.errors import MotetError, shown
from motet.io.json_models import Count, FileModel, Number, Text
from motet.messages.message import Message, State, byte_count
from motet.messages.task import Task
from motet.methods.base import Method
from motet.metrics.client_scores import FAILED
from motet.metrics.metric import ACCURACY, LOSS
from motet.metrics.names import FROM_COUNTS, FROM_RANKS, FROM_SUMS, MetricName, name_of_metric
from motet.metrics.over_clients import SPLIT, TRAINING, VALIDATION
from motet.metrics.pooling import POOL
from motet.runs.summary import TRAINING_LOSS
from motet.server.workplace import Workplace
from motet.sites.wire import Kind, RunId
from motet.sites.workshop import Workshop

TRIAL_BATCHES = 2
FLAGS = ("diverged", "one_class")
OF_PAIRS = ("righted", "wronged", "gain_error")
Shape = Annotated[str, Field(max_length=100)]


class Consent(FileModel):
    """consent.json: what may leave a site in one run."""

    run: RunId
    experiment: dict[str, Any]
    kinds: tuple[Kind, ...]
    uploads: dict[Text, Shape]
    """The fields of a reply to a training, and what each is."""
    prepares: dict[Text, Shape]
    """The fields of the reply before the first round; empty for methods without one."""
    introduces: dict[Text, Shape]
    """What the transforms tell of the site before its first training, such as a public key; empty for most."""
    figures: tuple[Text, ...]
    """The metrics whose values leave the site."""
    pooled: bool
    """Whether counts by class and answer, or by class and score, leave the site too."""
    loss: bool
    tells: tuple[Text, ...]
    bytes_down: Count
    bytes_up: Count
    given: Number
    """When, in seconds since 1970."""
    how: Text

    def refuse_other(self, run: str, experiment: Mapping[str, Any], who: str) -> None:
        """Raise a `MotetError` if another run or another experiment is asked for than was consented to."""
        if run != self.run:
            raise MotetError(
                f"{who} asks for run {run}, but this site consented to run {self.run}; accepted: that run, or another "
                f"--state folder for a new consent"
            )
        mine, theirs = _comparable(self.experiment), _comparable(experiment)
        if not mine["local"]["batch"]:  # the coordinator chooses it once it knows the sizes of the sites
            theirs["local"]["batch"] = 0
        if mine != theirs:
            fields = [
                f"{s}.{n}" for s in mine if isinstance(mine[s], dict) for n in mine[s] if mine[s] != theirs.get(s)
            ]
            plain = [n for n in mine if not isinstance(mine[n], dict) and mine[n] != theirs.get(n)]
            raise MotetError(
                f"{who} asks for another experiment than this site consented to ({', '.join((plain + fields)[:3])}); "
                f"accepted: the one in consent.json"
            )

    def refuse_task(self, kind: Kind, who: str) -> None:
        """Raise a `MotetError` for a kind of task that was not named."""
        if kind not in self.kinds:
            raise MotetError(
                f"{who} asks for {kind!r}, to which this site did not consent; accepted: {', '.join(self.kinds)}"
            )

    def refuse_reply(self, kind: Kind, reply: Message, loss: float | None) -> None:
        """Raise a `MotetError` if a reply holds a field that was not named, or in another form."""
        if loss is not None and not self.loss:
            raise MotetError("the reply tells the training loss, to which this site did not consent")
        for name, value in reply.items():
            if kind in ("train", "prepare", "introduce"):
                named = {"train": self.uploads, "prepare": self.prepares, "introduce": self.introduces}[kind]
                allowed = name in named and (not named[name] or named[name] == form(value))
            else:
                allowed = self._is_figure(name, value)
            if not allowed:
                raise MotetError(
                    f"the reply to {kind!r} holds {shown(name)} ({form(value)}), to which this site did not consent"
                )

    def _is_figure(self, name: str, value: object) -> bool:
        """Return whether a field of a scoring's reply is a size, a figure that was named, or a flag of a model."""
        if name.startswith(POOL):
            return self.pooled and isinstance(value, Tensor)
        if isinstance(value, Tensor):
            return False
        if name in (TRAINING, SPLIT, VALIDATION) or name.rpartition(".")[2] in FLAGS:
            return True
        if name.startswith(FAILED):
            return name.removeprefix(FAILED) in self.figures
        found = MetricName.read(name)
        return found is not None and not found.statistic and found.metric in (*self.figures, *OF_PAIRS)


def _comparable(experiment: Mapping[str, Any]) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in experiment.items()}


def form(value: object) -> str:
    """Return what a field is, such as `float32 [1210]`, or `a number`."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return "a number"


def consent_to(run: str, workshop: Workshop, own: ClientData, how: str) -> Consent:
    """Return what this experiment will send, found by a short training on some of the site's rows, which stays here."""
    experiment, trial = workshop.experiment, _trial(workshop, own)
    scoring, method = experiment.scoring, trial.method
    names = {*map(name_of_metric, scoring.asked_metrics), ACCURACY.name, LOSS.name}
    kinds: list[Kind] = ["hello", "begin", "train", "score", "sync_score", "finish"]
    kinds += ["prepare"] if method.prepares else []
    kinds += ["introduce"] if trial.introduced else []
    return Consent(
        run=run,
        experiment=experiment.model_dump(mode="json"),
        kinds=tuple(kinds),
        uploads=_uploads(experiment, method, trial.reply),
        prepares={name: form(value) for name, value in trial.prepared.items()},
        introduces={name: form(value) for name, value in trial.introduced.items()},
        figures=tuple(sorted(names)),
        pooled=scoring.pooling != "none" and bool(names & (FROM_COUNTS | FROM_RANKS | FROM_SUMS)),
        loss=scoring.train_loss,
        tells=tuple(sorted(tells_of(method, scoring))),
        bytes_down=trial.down,
        bytes_up=byte_count(trial.reply),
        given=time.time(),
        how=how,
    )


def _uploads(experiment: Experiment, method: Method, sent: Message) -> dict[str, str]:
    """Return the fields of a reply to a training: those that were sent, and without transforms all that it declares."""
    found = {name: form(value) for name, value in sent.items()}
    if experiment.transforms:  # these rename fields, or leave some out: a field as the method makes it must not leave
        return found
    return {"n": form(1)} | dict.fromkeys(method.uploads, "") | found


def tells_of(method: Method, scoring: ScoringSettings) -> set[str]:
    """Return what clients reveal beside weights and numbers of samples, as the summary of a run has it."""
    return {*method.tells, *scoring.tells, *([TRAINING_LOSS] if scoring.train_loss else [])}


class _Trial:
    """What a first training sends and gets."""

    def __init__(self, method: Method):
        self.method = method
        self.reply: Message = {}
        self.prepared: Message = {}
        self.introduced: Message = {}
        self.down = 0


def _trial(workshop: Workshop, own: ClientData) -> _Trial:
    """Train for a moment on a few rows, from the method's start, and return what would have left the site."""
    batch = workshop.experiment.local.batch or 32
    few = replace(own, train=own.train.part(0, min(len(own.train), TRIAL_BATCHES * batch)))
    short = workshop.experiment.with_({"local": {"epochs": 1, "batch": batch}})
    place = replace(workshop, experiment=short).workplace(few)
    trial, method = _Trial(place.method), place.method
    with torch.random.fork_rng(devices=[]):
        server: State = {**method.start(), "round": 1}
        with suppress(MotetError, LookupError, RuntimeError, ValueError):
            if method.prepares:
                asked = Task("prepare", workshop.client, 0, method.broadcast(server, workshop.client))
                trial.prepared = place.perform(asked, {}).reply or {}
                server = {**method.prepared(server, {workshop.client: trial.prepared}), "round": 1}
        trial.introduced = place.introduction(place.client_of(few, 1, {}))
        message = _addressed(place, few, server, method.broadcast(server, workshop.client))
        trial.down = byte_count(message)
        with suppress(MotetError, LookupError, RuntimeError, ValueError):  # then the declared fields are named alone
            trial.reply = place.perform(Task("train", workshop.client, 1, message), {}).reply or {}
    if place.transforms and not trial.reply:
        raise MotetError(
            f"what method {short.method!r} sends after transforms {shown(short.transforms)} cannot be found by a trial "
            f"on this site's rows; accepted: another method, or no transforms"
        )
    return trial


def _addressed(place: Workplace, own: ClientData, server: State, message: Message) -> Message:
    """Return a message as the transforms send it, to a cohort of this site and of others that do not exist."""
    others = [i for i in range(place.method.facts.clients) if i != own.id][: place.method.facts.cohort - 1]
    introduced = {own.id: place.introduction(place.client_of(own, 1, {}))}
    for i in others:
        stranger = replace(place, secret=secrets.token_bytes(32))
        introduced[i] = stranger.introduction(stranger.client_of(replace(own, id=i), 1, {}))
    cohort = dict.fromkeys(sorted(introduced), float(len(own.train)))
    for transform in place.transforms:
        server = transform.introduced(server, introduced)
        message = transform.address(server, cohort, message)
    return message


# -------- In words


def statement(consent: Consent, workshop: Workshop, own: ClientData, address: str) -> list[str]:
    """Return what is printed before a site consents, line by line."""
    experiment = workshop.experiment
    rounds, sites = experiment.rounds, workshop.sites
    count = f"up to {rounds.last}" if rounds.count == "auto" else str(rounds.count)
    size = rounds.cohort_size(sites)
    personal = ", ".join(consent.figures)
    lines = [
        f"The coordinator at {address} asks {workshop.name} to take part in run {consent.run}:",
        f"  method        {experiment.method}, {count} rounds, {size} of {sites} sites in each",
        f"  before it     leaves: how many rows train, validate and test ({len(own.train)}, {len(own.val)}, "
        f"{len(own.test)}), the schema with its",
        "                columns, means, categories and classes, and a salted hash of the rows",
    ]
    for name, what in consent.prepares.items():
        lines.append(f"                leaves: {name} ({what})")
    for name, what in consent.introduces.items():
        lines.append(f"                leaves: {name} ({what})")
    lines.append(f"  each round    comes {_size(consent.bytes_down)}; leaves {_size(consent.bytes_up)}:")
    lines += [f"                {name} ({what or 'as the method makes it'})" for name, what in consent.uploads.items()]
    if experiment.transforms:
        lines.append(f"                each after {experiment.transforms}")
    lines.append(f"  it tells      {', '.join(consent.tells) or 'nothing more'}")
    where = "test and validation rows" if experiment.data.val_share else "test rows"
    lines.append(f"  each scoring  leaves: {personal} of the generic and the site's own model on its {where}")
    if consent.pooled:
        lines.append("                and counts of rows by class and answer, or by class and score")
    lines += [
        "  never         rows, labels, the private state and the site's own model; no code comes, none runs but Motet",
        "  to stop       end this process (Ctrl-C); to withdraw, remove the --state folder",
    ]
    return lines


def _size(count: int) -> str:
    return f"{count / 1e6:.2f} MB" if count >= 10_000 else f"{count:,} bytes"


Ask = Callable[[list[str]], bool]
"""Shows the lines to who decides, and returns whether the site consents."""
