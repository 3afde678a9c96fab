"""Dropout draws from the client's own randomness: the same bits wherever and whenever a client is trained."""

from pathlib import Path

import pytest
import torch
from net_data import data_for

import motet
from motet.config.experiment import Experiment
from motet.messages.message import encode
from motet.runs.run import resume, run
from motet.testing.checks import _StopsAfter
from motet.testing.twin import last_states, play, tiny
from motet.training.randomness import layers_draw_by


def experiment(folder: Path, method: str = "fedrep(head_epochs=1)", **more: object) -> Experiment:
    return tiny(
        method,
        data=data_for("fedrod-dropout", folder),
        net={"name": "fedrod-dropout"},
        rounds={"count": 3, "cohort": 2.0},
        **more,
    )


def test_no_order_of_work_changes_a_bit(tmp_path: Path) -> None:
    """The strict twin works in reverse order; torch's own generator may be anywhere."""
    asked = experiment(tmp_path)
    torch.manual_seed(1)
    inline = play(asked)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    strict = play(asked, strict=True)
    assert encode(inline.server) == encode(strict.server) and inline.private() == strict.private()
    assert inline.clients == strict.clients
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.slow
def test_pool_and_resume_give_the_same_bits(tmp_path: Path) -> None:
    asked = experiment(tmp_path, "fedavg+ft(epochs=1)")
    whole = run(asked, tmp_path / "whole")
    pool = run(
        asked.model_copy(update={"engine": asked.engine.model_copy(update={"name": "pool", "workers": 2})}),
        tmp_path / "pool",
    )
    with pytest.raises(KeyboardInterrupt):
        run(asked, tmp_path / "stopped", _StopsAfter(1))
    resumed = resume(tmp_path / "stopped")
    assert last_states(whole) == last_states(pool) == last_states(resumed)
    texts = {(folder / "clients.jsonl").read_text() for folder in (whole, pool, resumed)}
    assert len(texts) == 1


def test_the_model_that_is_served_is_the_one_that_was_scored(tmp_path: Path) -> None:
    result = motet.load(run(experiment(tmp_path, "fedavg+ft(epochs=1)"), tmp_path / "run"))
    torch.manual_seed(3)
    first = result.personal_model(0).state_dict()
    torch.manual_seed(4)
    second = result.personal_model(0).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_dropout_is_dropout(tmp_path: Path) -> None:
    """Another client, another round, another stretch of training: another draw."""
    rng = torch.Generator().manual_seed(0)

    def drawn() -> list[float]:
        with layers_draw_by(rng):
            return torch.nn.functional.dropout(torch.ones(40)).tolist()

    first = drawn()
    assert drawn() == first and 0.0 in first and 2.0 in first
    torch.randperm(3, generator=rng)  # an epoch has begun
    assert drawn() != first
    rng = torch.Generator().manual_seed(1)
    assert drawn() != first


def test_nets_without_dropout_learn_as_before() -> None:
    rng = torch.Generator().manual_seed(0)
    expected = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    with layers_draw_by(rng):
        torch.rand(3)
    assert torch.equal(torch.randperm(9, generator=rng), expected)
