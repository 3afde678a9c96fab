"""Every net can be written and read again, with its options; words that name a net run no code and take no memory."""

from pathlib import Path
from typing import Any

import pytest
import torch

import motet
from motet.data import ImagePrepare, Prepare, SignalPrepare, TokensPrepare, VectorPrepare
from motet.data.input import Input
from motet.errors import MotetError
from motet.export import folder
from motet.export.description import Description
from motet.export.folder import read_model, write_model
from motet.export.formats import Whole, write_onnx, write_program
from motet.export.portable import portable
from motet.nets import NETS, build_net
from motet.training.randomness import seeded

OTHERWISE = ["resnet8(norm=group)", "vgg9(norm=batch)", "mlp(hidden=32x16x8)"]


def prepare_of(input: Input) -> Prepare:
    """That a net with this input was trained behind."""
    if input.kind == "tokens":
        return TokensPrepare(input.shape, input.vocabulary)
    if input.kind == "image":
        return ImagePrepare((*input.shape[1:], input.shape[0]))
    return (SignalPrepare if input.kind == "signal" else VectorPrepare)(input.shape)


def samples_of(prepare: Prepare, count: int = 3) -> torch.Tensor:
    rng = torch.Generator().manual_seed(0)
    if isinstance(prepare, TokensPrepare):
        return torch.randint(prepare.vocabulary, (count, *prepare.sample_shape), generator=rng)
    return torch.randn(count, *prepare.sample_shape, generator=rng)


def described(net: str, prepare: Prepare, **more: Any) -> Description:
    return Description("generic", "fedavg", "made up", net, "auto", ("a", "b"), prepare, "float32", 1, **more)


def built(name: str, prepare: Prepare, **more: Any) -> Any:
    with seeded(0, "test"):
        return build_net(name, prepare.input, 2, **more)


@pytest.mark.parametrize("name", [*NETS, *OTHERWISE])
def test_a_net_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    prepare = prepare_of(NETS[name.partition("(")[0]].example)
    net = built(name, prepare)
    form = portable(net, net)
    write_model(tmp_path / "model", described(name, prepare), form, {})
    again = read_model(tmp_path / "model")[1]
    x = prepare(samples_of(prepare))
    with torch.no_grad():
        assert torch.equal(again(x), net.eval()(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NETS, *OTHERWISE])
def test_a_net_runs_in_other_runtimes(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    prepare = prepare_of(NETS[name.partition("(")[0]].example)
    net = built(name, prepare).eval()
    x, whole = samples_of(prepare), Whole(portable(net, net), prepare)
    runs = [write_program(tmp_path / "model.pt2", whole, x.dtype), write_onnx(tmp_path / "model.onnx", whole, x.dtype)]
    for run in (*runs, whole):  # which is as it was
        for rows in (1, 3):
            with torch.no_grad():
                right = net(prepare(x[:rows]))
            assert float((run(x[:rows]) - right).abs().max()) <= 1e-4 * max(1.0, float(right.abs().max()))


def test_statistics_of_batches_are_kept_as_a_choice(tmp_path: Path) -> None:
    prepare = prepare_of(NETS["resnet8"].example)
    net = built("resnet8(norm=batch)", prepare, batch_statistics=True)
    known = described("resnet8(norm=batch)", prepare, batch_statistics=True)
    write_model(tmp_path / "model", known, portable(net, net), {})
    again, x = read_model(tmp_path / "model")[1], prepare(samples_of(prepare))
    with torch.no_grad():
        assert torch.equal(again(x), net.eval()(x))


@pytest.mark.parametrize("words", ["{}:build", "{}:build(width=3)"])
def test_code_behind_options_needs_trust_too(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A description that names a file runs nothing of it."""
    monkeypatch.setattr("motet.runs.trust._in_this_process", set())
    code = tmp_path / "foreign.py"
    code.write_text(f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n")
    prepare = VectorPrepare((5,))
    net = built("mlp", prepare)
    write_model(tmp_path / "model", described(words.format(code), prepare), portable(net, net), {})
    with pytest.raises(MotetError, match="which you did not run"):
        motet.load_model(tmp_path / "model")
    assert not (tmp_path / "ran").exists()


def test_options_ask_for_no_memory_that_the_weights_do_not_fill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty gigabytes."""
    prepare = VectorPrepare((5,))
    net = built("mlp", prepare)
    write_model(tmp_path / "model", described("mlp(hidden=90000x90000)", prepare), portable(net, net), {})
    devices: list[str] = []

    def build(*recipe: Any, **more: Any) -> Any:
        made = build_net(*recipe, **more)
        devices.append(next(made.parameters()).device.type)
        return made

    monkeypatch.setattr(folder, "build_net", build)
    with pytest.raises(MotetError, match="export it anew"):
        motet.load_model(tmp_path / "model")
    assert devices == ["meta"]
