"""Build everything that runs an experiment: data, net, method, engine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from motet.config.data_section import DataSettings
from motet.config.experiment import Experiment
from motet.config.scoring_section import ScoringSettings
from motet.data import SOURCES, Federation, FederationFacts, Holdings, Prepare, build, default_net, default_partition
from motet.data.federation import SharedFederation
from motet.data.readers.in_memory import look_in
from motet.engines.engine import Engine, Work
from motet.engines.registry import EngineRequest, build_engine
from motet.errors import MotetError, shown
from motet.io.plugins import is_import
from motet.messages.message import State
from motet.messages.task import EVERY_TASK, TaskKind
from motet.messages.transform import RunPlan, Transform
from motet.messages.transform import TransformEntry as TransformEntry
from motet.messages.transforms import TRANSFORMS, build_transforms, canonical_transforms
from motet.methods import METHODS, build_method, canonical
from motet.methods.base import Facts, Method, MethodEntry
from motet.methods.registry import declared_source
from motet.metrics.classification import AUROC
from motet.metrics.registry import ACCURACY, SampleMetric, headline_metric, require_metrics
from motet.nets import Net, build_net, net_term
from motet.nets.criterion import Criterion
from motet.nets.pretrained import put_weights, weights_sha256
from motet.server.contradictions import refuse_contradictions, refuse_device
from motet.server.evaluation import Evaluator
from motet.server.final_evaluation import FinalEvaluation
from motet.server.memory_estimate import refuse_what_needs_too_much
from motet.server.message_walk import plan_of
from motet.server.number_targets import criterion_of, refuse_metrics_of_others, settled_target
from motet.server.partial_sums import adding_up, batches_of, parcels
from motet.server.workplace import POOLED, Workplace
from motet.training.personal_model_policy import PersonalModelPolicy
from motet.training.randomness import seeded

VALIDATION_SHARE = 0.2
"""The share of each client's data that validates where it is needed and the user names none."""


@dataclass
class ServerSide:
    """Everything the server needs for its rounds. It holds no sample of any client: only the engine reaches those."""

    experiment: Experiment
    federation_facts: FederationFacts
    method: Method
    generic_net: Net  # a plain net, for the generic model
    engine: Engine

    @cached_property
    def transforms(self) -> tuple[Transform, ...]:
        """The transforms of replies that the experiment asks for."""
        return build_transforms(self.experiment.transforms)

    @property
    def secret(self) -> bytes:
        """Random bytes of a coordinator of real sites, from which its noise comes; none in a simulation."""
        return b""

    @cached_property
    def plan(self) -> RunPlan:
        """What transforms may know of the run."""
        return plan_of(self.experiment, self.method, self.evaluator.run_metrics, self.transforms)

    @property
    def policy(self) -> PersonalModelPolicy:
        """The rule that decides which models of clients are scored."""
        return PersonalModelPolicy.of(self.experiment.scoring, self.method)

    def samples_of(self, cohort: Sequence[int]) -> dict[int, float]:
        """Return how many training samples each of these clients has, as the federation's facts say."""
        by_id, everybody = self.federation_facts.by_id, self.federation_facts.training_ids
        whole = sum(by_id[i].train for i in everybody) if POOLED in cohort else 0
        return {i: float(whole if i == POOLED else by_id[i].train) for i in cohort}

    def refuse_what_cannot_be_followed(self) -> None:
        """Raise `MotetError` if the method, a transform, an attack or a metric cannot work in this experiment."""
        if why := refused(self.method, self.experiment):
            raise MotetError(f"method {self.experiment.method!r} cannot run here: {why}")
        transforms = self.transforms  # built here, so that a wrong option is said before anything runs
        if self.method.pooled and transforms:
            raise MotetError(
                f"transforms is {self.experiment.transforms!r} but {self.experiment.method!r} trains in one place and "
                f"sends nothing; accepted: no transforms"
            )
        for transform in transforms:
            if why := transform.refuse(self.plan):
                raise MotetError(f"transforms is {shown(self.experiment.transforms)}: {why}")
        data = self.experiment.data
        if self.method.pooled and data.malicious and data.attack != "label-poison":
            raise MotetError(
                f"data.attack is {data.attack!r} but {self.experiment.method!r} trains in one place and sends nothing; "
                f"accepted: label-poison"
            )
        for metric in self.evaluator.run_metrics:
            if why := metric.refuse(self.final_evaluation.before):
                raise MotetError(f"{metric.setting}: {why}")
        if self.method.net.normalizes_batches:
            self._refuse_lone_samples()

    def _refuse_lone_samples(self) -> None:
        """Raise if a batch could have a single sample, from which batch normalization cannot learn."""
        net = f"net {self.experiment.net.name!r} normalizes over batches, so that"
        if self.experiment.local.batch == 1:
            raise MotetError(f"{net} local.batch = 1 cannot train it; accepted: 2 or more")
        for client in self.federation_facts.clients:
            if client.train == 1:
                raise MotetError(f"{net} client {client.id} with 1 training sample cannot; accepted: 2 or more")

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator, which scores a server state through the engine."""
        return Evaluator(
            self.method, self.generic_net, self.federation_facts, self.experiment.scoring, self.policy, self.engine
        )

    @property
    def final_evaluation(self) -> FinalEvaluation:
        """The evaluation after the last round."""
        return FinalEvaluation(self.evaluator, self.experiment.seed)

    @property
    def prepare(self) -> Prepare | None:
        """The preparation of samples, with which models are served later; None if the server does not know it."""
        test = self.federation_facts.test
        return None if test is None else test.prepare

    def ended(self, server: State, round: int, clients: Sequence[Mapping[str, Any]]) -> None:
        """React to the end of a run, while clients can still be asked; `clients` are their last rows.

        In a simulation there is nothing to do.
        """

    @property
    def client_ids(self) -> list[int]:
        """The clients that rounds draw their cohorts from."""
        return [POOLED] if self.method.pooled else self.federation_facts.training_ids


@dataclass
class Assembly(ServerSide):
    """Everything that an experiment needs in a simulation, where all data are on this machine."""

    federation: Federation
    workplace: Workplace


def settle(experiment: Experiment) -> Experiment:
    """Return the experiment with every `auto` replaced by its value, so that the record is complete."""
    data, net, scoring = experiment.data, experiment.net, experiment.scoring
    if data.partition_seed is None:
        data = data.model_copy(update={"partition_seed": experiment.seed})
    data = data.model_copy(update={"partition": default_partition(data)})
    if net.name == "auto":
        net = net.model_copy(update={"name": default_net(data)})
    net = net.model_copy(update={"name": str(net_term(net.name))})
    if net.weights and not net.weights_sha256:
        net = net.model_copy(update={"weights_sha256": weights_sha256(net.weights)})
    if experiment.rounds.count == "auto":
        data, scoring = ending_by_validation(data, scoring, experiment.rounds.patience)
    if scoring.threshold and not data.val_share and not data.shares_validation:
        data = data.model_copy(update={"val_share": VALIDATION_SHARE})  # to choose it on
    require_metrics(scoring.metrics)
    if data.name not in SOURCES and not is_import(data.name):
        data, scoring = settled_target(data, scoring, experiment.seed)
    if scoring.metric == "auto":
        scoring = scoring.model_copy(update={"metric": fitting_metric(data, scoring, experiment.seed)})
    by_rows = isinstance(headline_metric(scoring), SampleMetric)  # others cannot be weighted by class
    if scoring.test == "auto":
        own = data.test_share > 0 and (data.partition == "natural" or not by_rows)
        scoring = scoring.model_copy(update={"test": "split" if own else "common"})
    scoring = settled_scoring(scoring, experiment.method, data)
    experiment = experiment.model_copy(update={"data": data, "net": net, "scoring": scoring})
    if not experiment.local.batch:
        batch = batch_for(FederationFacts.of(build(data, experiment.seed)))
        experiment = experiment.model_copy(update={"local": experiment.local.model_copy(update={"batch": batch})})
    names = {"method": canonical(experiment.method), "transforms": canonical_transforms(experiment.transforms)}
    return experiment.model_copy(update=names)


def batch_for(facts: FederationFacts) -> int:
    """Return the batch size for clients of this size: a quarter of the median, as a power of two from 16 to 128."""
    median = float(np.median([facts.by_id[i].train for i in facts.training_ids]))
    return int(2 ** np.clip(np.round(np.log2(max(1.0, median / 4))), 4, 7))


def ending_by_validation(
    data: DataSettings, scoring: ScoringSettings, patience: int
) -> tuple[DataSettings, ScoringSettings]:
    """Return the settings for rounds that end by themselves: with validation data, and scored often enough."""
    if scoring.report == "best":
        raise MotetError(
            "scoring.report is 'best' on test data but rounds.count is 'auto', which keeps the best round on "
            "validation data; accepted: report = 'best_on_validation', or a number of rounds"
        )
    if not data.val_share and not data.shares_validation:
        data = data.model_copy(update={"val_share": VALIDATION_SHARE})
    every = min(scoring.every, max(1, patience // 4))
    return data, scoring.model_copy(update={"report": "best_on_validation", "every": every})


def settled_scoring(scoring: ScoringSettings, method: str, data: DataSettings) -> ScoringSettings:
    """Return the scoring settings with `auto` replaced in `personal_model` and in what clients tell of their classes.

    The personal model is the one that the method declares (`motet/training/personal_model_policy.py`). Scores by class
    reveal class counts, so that `auto` computes them only where clients are simulated or share a common test set.
    """
    simulated = data.partition != "natural"
    if scoring.personal_model == "auto":
        scoring = scoring.model_copy(update={"personal_model": declared_source(method)})
    if scoring.by_class == "auto":
        by_class = simulated or scoring.test not in ("split", "none")
        scoring = scoring.model_copy(update={"by_class": by_class})
    if scoring.pooling == "auto":
        scoring = scoring.model_copy(update={"pooling": "exact" if simulated else "binned"})
    return scoring


RARE = 0.2
"""Of two classes, one in a smaller share of the training rows is rare: then accuracy says little."""


def fitting_metric(data: DataSettings, scoring: ScoringSettings, seed: int) -> str:
    """Return the metric by which to judge models on these data, where the user names none.

    It is accuracy, but AUROC for a user's own data with two classes of which one is rare, if the clients whose test
    rows hold both classes have most of the test rows: the others have no AUROC.
    """
    if data.name in SOURCES or is_import(data.name) or not data.test_share or scoring.test == "common":
        return ACCURACY.name
    try:
        federation = build(data, seed)
    except MotetError:
        return ACCURACY.name  # the run says why the data cannot be read
    if federation.classes != 2:
        return ACCURACY.name
    clients = [client for client in federation.clients if not client.new]
    train = sum(client.train.counts(2) for client in clients)
    tests = [(client.val if scoring.test == "none" else client.test).counts(2) for client in clients]
    rows = sum(int(counts.sum()) for counts in tests)
    both = sum(int(counts.sum()) for counts in tests if bool((counts > 0).all()))
    rare = float(torch.as_tensor(train).min()) < RARE * float(torch.as_tensor(train).sum())
    return AUROC.name if rare and 2 * both > rows else ACCURACY.name


def assemble(experiment: Experiment, folder: Path | None = None) -> Assembly:
    """Read the data, build net, method and engine, and return them; raise `MotetError` for what cannot run.

    Private states are kept in `folder`, a run's checkpoint folder, or in memory without one.
    """
    scoring = settled_scoring(experiment.scoring, experiment.method, experiment.data)
    experiment = experiment.model_copy(update={"scoring": scoring})
    refuse_contradictions(experiment)
    if folder is not None:
        look_in(experiment.data.name, folder.parent)
    federation = build(experiment.data, experiment.seed)
    facts = FederationFacts.of(federation)
    refuse_metrics_of_others(experiment, facts)
    refuse_what_needs_too_much(experiment, facts, told_to_methods(experiment, facts))
    workplace = workplace_of(experiment, federation, facts)
    engine = _engine(experiment, federation, workplace, folder)
    assembly = Assembly(experiment, facts, workplace.method, workplace.generic_net, engine, federation, workplace)
    assembly.refuse_what_cannot_be_followed()
    return assembly


def refuse_what_cannot_run(experiment: Experiment) -> None:
    """Raise `MotetError` if the experiment could not begin: it is built with an engine of this process and let go."""
    assemble(experiment.with_({"engine": {"name": "inline"}})).engine.close()


def _engine(experiment: Experiment, federation: Federation, workplace: Workplace, folder: Path | None) -> Engine:
    """Return the engine that the experiment names."""
    there: Callable[[], Federation] = SharedFederation.of(federation).cut
    if experiment.engine.name == "ray" and experiment.engine.data == "path":
        there = partial(_read_there, experiment.data, experiment.seed, federation.content_hash)
    build = partial(_perform_elsewhere, experiment, there, dict(METHODS), dict(TRANSFORMS))
    size = experiment.engine.partial_sums
    return build_engine(
        EngineRequest(
            experiment.engine,
            experiment.device,
            adding_up(workplace),
            build,
            {client.id: client.train for client in workplace.facts.clients},
            parcels(size) if size else batches_of(workplace),
            folder,
        )
    )


def _perform_elsewhere(
    experiment: Experiment,
    there: Callable[[], Federation],
    methods: dict[str, MethodEntry],
    transforms: dict[str, TransformEntry],
) -> Work:
    """Return the same work in a worker process: the same experiment and registries; `there` returns the data."""
    METHODS.clear()
    METHODS.update(methods)  # the caller may have added some
    TRANSFORMS.clear()
    TRANSFORMS.update(transforms)
    federation = there()
    return adding_up(workplace_of(experiment, federation, FederationFacts.of(federation)))


def _read_there(data: DataSettings, seed: int, content_hash: str) -> Federation:
    """Read the federation on the node of a worker; raise `MotetError` if it is not the driver's, to the bit."""
    federation = build(data, seed)
    if federation.content_hash != content_hash:
        raise MotetError(
            f"data.name is {shown(data.name)}, which has another content on a node of the cluster than here; accepted: "
            f"the same files on every node, or engine.data = driver"
        )
    return federation


def workplace_of(
    experiment: Experiment,
    holdings: Holdings,
    facts: FederationFacts,
    allowed: frozenset[TaskKind] = EVERY_TASK,
    secret: bytes = b"",
) -> Workplace:
    """Return a workplace with a method of its own: the same from the same experiment, in any process.

    `allowed` are the kinds of tasks that it serves: a real site passes `SITE_TASKS`, and random bytes of its own as
    `secret`, from which its keys and its noise come; in a simulation they come from the seed.
    """
    method = method_of(experiment, facts)
    return Workplace(experiment, method, net_of(experiment, facts), holdings, facts, allowed, secret)


def method_of(experiment: Experiment, facts: FederationFacts) -> Method:
    """Return the method, built on a new net."""
    with seeded(experiment.seed, "method"):  # parts may add weights to the net
        return build_method(experiment.method, net_of(experiment, facts), told_to_methods(experiment, facts))


def refused(method: Method, experiment: Experiment) -> str | None:
    """Return why the method cannot run in this experiment, or None."""
    optimizer = experiment.local.optimizer
    if optimizer != "sgd" and method.assumes_sgd:
        return f"{method.assumes_sgd}, and local.optimizer is {optimizer!r}; accepted: optimizer = 'sgd'"
    target = method.facts.target
    if target and (method.needs_classes or method.needs_shared_data or method.from_counts):
        return f"it needs classes, and the target {shown(target)} is a number"
    return method.refuse(method.facts)


def told_to_methods(experiment: Experiment, facts: FederationFacts) -> Facts:
    """Return the facts that a method may know; raise if the cohort is larger than the federation."""
    ids, rounds = tuple(facts.training_ids), experiment.rounds
    validating, samples = sum(facts.by_id[i].val > 0 for i in ids), tuple(facts.by_id[i].train for i in ids)
    cohort, seed = rounds.cohort_size(len(ids)), experiment.seed
    laid_out, protocol = rounds.laid_out_for, experiment.protocol
    return Facts(ids, cohort, laid_out, facts.classes, seed, validating, samples, facts.target, protocol)


def net_of(experiment: Experiment, facts: FederationFacts) -> Net:
    """Return a new net as the experiment describes it, on its device; raise if the device does not work."""
    asked = experiment.net
    with seeded(experiment.seed, "net"):
        split = None if asked.head == "auto" else asked.head
        by: Criterion = criterion_of(experiment.local.loss, facts)
        statistics = asked.batch_statistics
        net = build_net(asked.name, facts.input, facts.classes, split, batch_statistics=statistics, criterion=by)
    if asked.weights:
        put_weights(net, asked.weights, asked.weights_head, asked.weights_sha256)
    net.bf16 = experiment.precision == "bf16"
    refuse_device(experiment.device)
    return net.to(experiment.device)
