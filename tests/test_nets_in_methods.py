"""Every net in the methods that cut it into pieces: the same bits inline and in the strict twin."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from net_data import data_for

from motet.config.experiment import Experiment
from motet.methods.fedbasis import FedBasis
from motet.nets import NETS, net_term
from motet.runs.run import run
from motet.testing.twin import everything, first_difference, play, tiny

METHODS = ["fedavg", "fedbasis(k=2, warm_start=0)", "dbe", "superfed-lm(start=0)", "fedper", "fedrod(head=hyper)"]
NORMALIZED = ["resnet8", "resnet9", "resnet18", "resnet20", "vgg11", "mobilenet", "efficientnet-lite0"]
SMALLER = {"stacked-lstm": "stacked-lstm(hidden=8)"}
QUICK = {"resnet8", "stacked-lstm", "fasttext", "fedrod-dropout"}
PAIRS = [(net, method) for net in NETS for method in [*METHODS, *(["fedbn"] if net in NORMALIZED else [])]]


def asked(net: str, method: str, folder: Path) -> Experiment:
    return tiny(
        method,
        data=data_for(net_term(net).name, folder),
        net={"name": SMALLER.get(net, net)},
        local={"batch": 8, "lr": 0.01},
        rounds={"count": 2, "cohort": 2.0},
    )


@pytest.fixture(autouse=True)
def memory_is_free_again() -> Iterator[None]:
    """Models that refer to each other are freed at once: a few large nets' would fill the memory before Python does."""
    yield
    gc.collect()


@pytest.mark.parametrize(
    ("net", "method"),
    [pytest.param(*pair, marks=() if pair[0] in QUICK else pytest.mark.slow) for pair in PAIRS],
)
def test_a_net_in_a_method(net: str, method: str, tmp_path: Path) -> None:
    experiment = asked(net, method, tmp_path)
    inline, strict = play(experiment), play(experiment, strict=True)
    assert first_difference(everything(inline), everything(strict)) is None
    assert (inline.timeless(), inline.clients) == (strict.timeless(), strict.clients)
    assert all(not row["set_aside"] for row in inline.rows)


@pytest.mark.parametrize(
    ("net", "blocks"),
    [
        ("resnet8", ["layer1", "layer2", "layer3", "fc"]),
        ("stacked-lstm", ["embed", "lstm", "fc"]),
        ("fasttext", ["words", "fc1", "fc2"]),
        ("logistic", ["fc"]),
    ],
)
def test_blocks_of_fedbasis_are_the_stages(net: str, blocks: list[str], tmp_path: Path) -> None:
    method = play(asked(net, "fedbasis(k=2, warm_start=0)", tmp_path)).assembly.method
    assert isinstance(method, FedBasis)
    assert method.mixing.names == blocks


def test_an_lstm_is_one_module_for_superfed(tmp_path: Path) -> None:
    """Both layers, weights and biases, share one λ: Hahn et al. mix module by module."""
    method = play(asked("stacked-lstm", "superfed-lm", tmp_path)).assembly.method
    assert len(method.stretches) == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(("net", "features"), [("har-cnn", (64, 1, 1)), ("resnet8", (64,)), ("fasttext", (32,))])
def test_dbes_translation_has_the_shape_of_the_features(net: str, features: tuple[int, ...], tmp_path: Path) -> None:
    method = play(asked(net, "prbm", tmp_path)).assembly.method
    assert tuple(method.net.prbm.shape) == features


@pytest.mark.parametrize("net", ["stacked-lstm", "fasttext", "logistic", "resnet8"])
def test_a_net_learns(net: str, tmp_path: Path) -> None:
    experiment = tiny(
        "fedavg",
        data=data_for(net, tmp_path),
        net={"name": {"stacked-lstm": "stacked-lstm(hidden=16)"}.get(net, net)},
        local={"batch": 8, "lr": 0.2 if net in ("stacked-lstm", "fasttext") else 0.02, "epochs": 5},
        rounds={"count": 6, "cohort": 1.0},
        scoring={"every": 6},
    )
    assert play(experiment).rows[-1]["generic.common.accuracy.pooled"] > 0.8  # 1/3 by chance


def test_logistic_clients_are_trained_as_one_computation(tmp_path: Path) -> None:
    values = asked("logistic", "fedavg", tmp_path)
    together = values.model_copy(update={"local": values.local.model_copy(update={"batched_clients": True})})
    assert play(together).assembly.workplace.most_batched > 1
    a, b = (run(each, tmp_path / name) for each, name in ((values, "alone"), (together, "batched_clients")))
    from safetensors.torch import load_file

    ours, theirs = (load_file(folder / "weights.safetensors") for folder in (a, b))
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=1e-5)
