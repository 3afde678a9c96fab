"""Refuse experiments whose choices exclude each other, before anything runs; each in a sentence."""

import torch

from motet.config.experiment import Experiment
from motet.config.names import parse
from motet.engines.registry import ENGINES, factory_of
from motet.errors import MotetError, shown
from motet.methods.registry import entry_of
from motet.metrics.registry import SampleMetric, headline_metric


def refuse_device(device: str) -> None:
    """Raise if torch cannot compute on this device."""
    try:
        torch.ones(1, device=device).add(1).item()
    except Exception as error:  # each kind of device has its own
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise MotetError(f"device is {shown(device)} ({reason}); accepted: cpu, or a device torch has here") from None


def _refuse_methods_of_the_script(experiment: Experiment) -> None:
    """Raise if a method is defined in the calling script, which worker processes do not run."""
    for term in parse(experiment.method):
        thing = entry_of(term.name).thing
        if thing.__module__ == "__main__" or "<locals>" in thing.__qualname__:
            raise MotetError(
                f"engine.name is {experiment.engine.name!r}, but method {term.name!r} is defined in the script that "
                f"was called, which no worker process can import; accepted: engine.name = inline or auto, or the "
                f"method in a file of its own"
            )


def _refuse_partial_sums(experiment: Experiment) -> None:
    """Raise if workers are to add up replies that the server must see one by one, or that come from real sites."""
    engine = experiment.engine
    if engine.partial_sums and experiment.transforms:
        raise MotetError(
            f"engine.partial_sums is {engine.partial_sums} but transforms is {shown(experiment.transforms)}, which the "
            f"server undoes reply by reply; accepted: partial_sums = 0, or no transforms"
        )
    if engine.partial_sums and engine.name not in ENGINES:
        raise MotetError(
            f"engine.partial_sums is {engine.partial_sums} but engine.name is {shown(engine.name)}; accepted: "
            f"partial_sums = 0, or one of {', '.join(ENGINES)}"
        )


def refuse_contradictions(experiment: Experiment) -> None:
    """Raise if choices of the experiment exclude each other."""
    data, scoring = experiment.data, experiment.scoring
    factory_of(experiment.engine.name)
    refuse_device(experiment.device)
    if experiment.engine.name in ("pool", "ray"):
        _refuse_methods_of_the_script(experiment)
    _refuse_partial_sums(experiment)
    local = experiment.local
    if not local.batch:
        raise MotetError("local.batch is 0, by the size of clients, which is settled before a run; accepted: 1 or more")
    if local.optimizer != "sgd" and local.momentum_across_rounds == "persist":
        raise MotetError(
            f"local.momentum_across_rounds is 'persist' but local.optimizer is {local.optimizer!r}, whose moments "
            f"begin anew in every round; accepted: reset, or optimizer = 'sgd'"
        )
    if scoring.report == "best_on_validation" and not data.val_share and not data.shares_validation:
        raise MotetError(
            "scoring.report is 'best_on_validation' but data.val_share is 0; accepted: a val_share above 0"
        )
    if scoring.report == "best" and scoring.test == "common" and scoring.common_test == "last":
        raise MotetError(
            "scoring.report is 'best' on the common test set but scoring.common_test is 'last'; "
            "accepted: common_test = 'always', or report = 'last' or 'best_on_validation'"
        )
    if scoring.report != "last" and "final_sync" in scoring.personal_sources:
        raise MotetError(
            f"scoring.report is {scoring.report!r} but scoring.personal_model has 'final_sync', which trains everybody "
            "once more after the last round alone; accepted: report = 'last', or another personal_model"
        )
    if data.pool == "no_test" and scoring.looks_at_test:
        raise MotetError(
            f"data.pool is 'no_test' but scoring.test is {scoring.test!r}; accepted: scoring.test = 'none'"
        )
    if scoring.test == "none" and not data.val_share and data.pool != "no_test":
        raise MotetError("scoring.test is 'none' but data.val_share is 0; accepted: a val_share above 0")
    if scoring.test == "none" and scoring.report == "best":
        raise MotetError(
            "scoring.report is 'best' on test data but scoring.test is 'none'; accepted: report = 'last' or "
            "'best_on_validation'"
        )
    if scoring.clients == "new" and not data.new_clients:
        raise MotetError(
            "scoring.clients is 'new' but data.new_clients is 0; accepted: a share above 0, or clients = 'training'"
        )
    if scoring.test == "common" and not scoring.by_class:
        raise MotetError(
            "scoring.test is 'common' but scoring.by_class is false, so that nobody tells that figure; accepted: "
            "scoring.test = 'split', or by_class = true"
        )
    if scoring.test == "common" and not isinstance(headline_metric(scoring), SampleMetric):
        raise MotetError(
            f"scoring.metric is {scoring.metric!r}, which is no mean over rows, as the common test set weighted by "
            f"class needs one; accepted: scoring.test = 'split' with a data.test_share above 0, or another metric"
        )
    if scoring.test == "split" and not data.test_share:
        raise MotetError("scoring.test is 'split' but data.test_share is 0; accepted: a test_share above 0")
