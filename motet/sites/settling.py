"""An experiment for real sites: every `auto` replaced without a look at data, and refused what sites cannot do."""

from collections.abc import Sequence

from motet.config.data_section import DataSettings
from motet.config.experiment import Experiment
from motet.config.sections import EngineSettings
from motet.data import ClientFacts, FederationFacts
from motet.data.prepare_table import TablePrepare
from motet.data.readers.raw import default_net_for
from motet.engines.elsewhere import FLOWER
from motet.errors import MotetError, shown
from motet.messages.transforms import canonical_transforms
from motet.methods import canonical
from motet.methods.base import Method
from motet.metrics.metric import ACCURACY
from motet.metrics.numbers import R2, RMSE
from motet.metrics.registry import require_metrics, run_metrics_of
from motet.nets import net_term
from motet.server.assembly import VALIDATION_SHARE, ServerSide, batch_for, ending_by_validation, settled_scoring
from motet.sites.workshop import experiment_of

NAME = "sites"
"""The name of the data in the record: they are at the sites."""
SIMULATED = ("new_clients", "domains", "label_noise", "long_tail", "malicious", "subset", "augment", "resize")
"""Fields of [data] by which a simulation changes data; a real site has its own."""
EVERY_ROUND = ("apple", "l2gd")
"""Methods whose rule needs every client in every round."""


def settled_for_sites(experiment: Experiment) -> Experiment:
    """Return the experiment as sites are asked for it; only a batch size of 0 stays open until they told their sizes.

    Raise a `MotetError` for what real sites cannot do.
    """
    experiment_of(experiment.model_dump(mode="json"))
    _refuse_simulated(experiment.data)
    data, scoring, net = experiment.data, experiment.scoring, experiment.net
    if data.partition_seed is None:
        data = data.model_copy(update={"partition_seed": experiment.seed})
    there = {"name": NAME, "client": None, "domain": None, "table_schema": None, "dir": "", "download": False}
    data = data.model_copy(update={**there, "partition": "natural"})
    if experiment.rounds.count == "auto":
        data, scoring = ending_by_validation(data, scoring, experiment.rounds.patience)
    if not data.val_share and scoring.test == "none":
        data = data.model_copy(update={"val_share": VALIDATION_SHARE})
    name = default_net_for("vector") if net.name == "auto" else net.name
    net = net.model_copy(update={"name": str(net_term(name))})
    require_metrics(scoring.metrics)
    if scoring.metric == "auto":
        scoring = scoring.model_copy(update={"metric": RMSE.name if data.target == "number" else ACCURACY.name})
    if data.target == "number" and R2.name not in scoring.metrics:
        scoring = scoring.model_copy(update={"metrics": (*scoring.metrics, R2.name), "by_class": False})
    if scoring.test == "auto":
        scoring = scoring.model_copy(update={"test": "split"})
    scoring = settled_scoring(scoring, experiment.method, data)
    if scoring.pooling == "exact":  # which would send the score and the class of each row
        scoring = scoring.model_copy(update={"pooling": "binned"})
    _refuse_scoring(experiment.model_copy(update={"scoring": scoring, "data": data}))
    every = 1 if experiment.checkpoint.every == "auto" else experiment.checkpoint.every
    return experiment.model_copy(
        update={
            "data": data,
            "net": net,
            "scoring": scoring,
            "engine": EngineSettings.model_validate({"name": FLOWER}),
            "checkpoint": experiment.checkpoint.model_copy(update={"every": every}),
            "method": canonical(experiment.method),
            "transforms": canonical_transforms(experiment.transforms),
        }
    )


def _refuse_simulated(data: DataSettings) -> None:
    usual = DataSettings.model_validate({})
    for field in SIMULATED:
        if getattr(data, field) != getattr(usual, field):
            raise MotetError(
                f"data.{field} is {shown(getattr(data, field))}, which changes data in a simulation; accepted at real "
                f"sites: {shown(getattr(usual, field))}"
            )


def _refuse_scoring(experiment: Experiment) -> None:
    """Raise if a figure is asked for that would take more from sites than they give."""
    scoring = experiment.scoring
    if scoring.test == "common":
        raise MotetError(
            "scoring.test is 'common', but real sites have no test set in common; accepted: split, their own test rows"
        )
    if scoring.by_class:
        raise MotetError("scoring.by_class is true, which needs a common test set; accepted at real sites: false")
    if scoring.derived_generic:
        raise MotetError(
            "scoring.derived_generic is true, for which personal models leave their sites; accepted: false"
        )
    if scoring.threshold:
        raise MotetError(
            f"scoring.threshold is {shown(scoring.threshold)}, which is chosen from what real sites do not hand over; "
            f"accepted: none, and one chosen at the site for its own model"
        )
    for metric in run_metrics_of(scoring.metrics, scoring.threshold):
        if metric.asks_clients:
            raise MotetError(
                f"scoring.metrics has {metric.name!r}, for which clients hand over more than scores; accepted at real "
                f"sites: metrics of each client's rows"
            )
    if scoring.test == "split" and not experiment.data.test_share:
        raise MotetError("scoring.test is 'split' but data.test_share is 0; accepted: a test_share above 0")


def refuse_method(method: Method, name: str, sites: int, least: int) -> None:
    """Raise if a method cannot run at real sites, or not with rounds that go on without some."""
    if method.pooled:
        raise MotetError(f"method {name!r} trains on everybody's data in one place; accepted: one that does not")
    if method.needs_shared_data:
        raise MotetError(
            f"method {name!r} shows every site some samples of others, and there are no public ones; accepted: another"
        )
    if least < sites and any(each in name for each in EVERY_ROUND):
        raise MotetError(f"method {name!r} needs every site in every round; accepted: --least {sites}")


def refuse_missing_sites(side: ServerSide, least: int) -> None:
    """Raise if rounds may go on without a site where a transform needs the whole cohort."""
    size = side.experiment.rounds.cohort_size(len(side.federation_facts.training_ids))
    if least < size and any(transform.needs_whole_cohort for transform in side.transforms):
        raise MotetError(
            f"--least is {least}, but a round with transforms {shown(side.experiment.transforms)} is lost if one of "
            f"its {size} sites is missing; accepted: {size} or more"
        )


def facts_of(told: Sequence[tuple[str, int, int, int]], prepare: TablePrepare, digest: str) -> FederationFacts:
    """Return the facts of a federation of sites: (name, train, val, test) of each, in the order of their numbers."""
    schema = prepare.schema
    target = schema.label if schema.target is not None else ""
    return FederationFacts(
        NAME,
        tuple(ClientFacts(i, train, val, test, name=name) for i, (name, train, val, test) in enumerate(told)),
        1 if target else len(schema.classes),
        prepare.input,
        digest,
        None,
        class_names=(target,) if target else schema.classes,
        target=target,
    )


def with_batch(experiment: Experiment, facts: FederationFacts) -> Experiment:
    """Return the experiment with a batch size: the one that is named, or by the sizes of the sites."""
    if experiment.local.batch:
        return experiment
    return experiment.model_copy(update={"local": experiment.local.model_copy(update={"batch": batch_for(facts)})})
