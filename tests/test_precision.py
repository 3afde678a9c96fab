"""precision = bf16: nets learn in bfloat16; weights, steps and scores stay in float32."""

import pytest
import torch
from inputs import input_of
from torch.nn.functional import cross_entropy

import motet
from motet.errors import MotetError
from motet.nets import build_net
from motet.runs.environment import cpu_has_bf16
from motet.training.flat_weights import Layout


def gradient_of(bf16: bool, name: str) -> torch.Tensor:
    torch.manual_seed(0)
    net = build_net(name, input_of(1, 28, 28), 10)
    net.bf16 = bf16
    layout = Layout(net)
    g = torch.zeros(layout.size)
    layout.bind(net, layout.flatten(net), g)
    logits = net(torch.randn(8, 1, 28, 28))
    assert logits.dtype == torch.float32
    cross_entropy(logits, torch.arange(8)).backward()
    return g


@pytest.mark.parametrize("name", ["cnn4", "twonn"])
def test_gradients_are_float32s_but_for_rounding(name: str) -> None:
    exact, rounded = gradient_of(False, name), gradient_of(True, name)
    assert rounded.dtype == torch.float32
    error = (rounded - exact).norm() / exact.norm()
    assert 1e-4 < error < 0.2


def test_weights_that_changed_are_seen_at_the_next_step() -> None:
    net = build_net("twonn", input_of(1, 28, 28), 10)
    net.bf16 = True
    x = torch.randn(2, 1, 28, 28)
    before = net(x).detach()
    for p in net.parameters():
        p.data.zero_()
    assert before.abs().max() > 0 and net(x).abs().max() == 0


def test_scores_are_computed_in_float32() -> None:
    net = build_net("cnn4", input_of(1, 28, 28), 10)
    x = torch.randn(4, 1, 28, 28)
    with torch.no_grad():
        exact = net(x)
        net.bf16 = True
        assert torch.equal(net(x), exact)


def test_a_run_learns_and_the_choice_is_recorded() -> None:
    low, high = (motet.run(method="fedavg", rounds=10, seed=1, precision=p) for p in ("bf16", "fp32"))
    assert 'precision = "bf16"' in (low.folder / "experiment.toml").read_text()
    assert abs(low.generic.accuracy - high.generic.accuracy) < 0.1
    assert low.generic.accuracy > 0.5
    ours, theirs = (torch.cat([p.flatten() for p in r.generic_model().parameters()]) for r in (low, high))
    assert not torch.equal(ours, theirs)


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(MotetError, match=r"precision is 'fp8'; accepted: .*bf16"):
        motet.run(precision="fp8")


def test_a_torch_without_mkldnn_has_no_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> bool:
        raise AttributeError("no such operator")

    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", missing)
    assert cpu_has_bf16() is False
