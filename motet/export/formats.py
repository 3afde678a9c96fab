"""Exported models for other runtimes: a torch.export program and ONNX, each with the preparation of samples inside."""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from motet.data import Prepare
from motet.errors import MotetError
from motet.io.files import writing

PROGRAM, ONNX = "model.pt2", "model.onnx"
INPUT, OUTPUT = "x", "logits"
NEEDED = {"onnx": ("onnx", "onnxscript", "onnxruntime")}

Run = Callable[[Tensor], Tensor]


class Whole(nn.Module):
    """A module from samples as they are stored to logits: preparation and model in one."""

    def __init__(self, model: nn.Module, prepare: Prepare):
        super().__init__()
        self.model, self.prepare = model, prepare
        self.requires_grad_(False)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of stored samples, or the numbers that are predicted, in the unit of the label."""
        logits: Tensor = self.model(self.prepare(x))
        target = self.prepare.target
        return logits if target is None else target.unscaled(logits).to(logits.dtype)


def require(format: str) -> None:
    """Raise a MotetError if the packages of a format are not installed."""
    missing = [name for name in NEEDED.get(format, ()) if find_spec(name) is None]
    if missing:
        raise MotetError(f"format {format} needs {', '.join(missing)}; accepted: pip install 'motet[{format}]'")


def write_program(path: Path, whole: Whole, stored: torch.dtype) -> Run:
    """Write a model as torch.export.save does, and return a function that reads it back and computes with it."""
    program = _traced(whole, stored)
    with writing(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(program, path)
        again = torch.export.load(path).module()
    return again


def write_onnx(path: Path, whole: Whole, stored: torch.dtype) -> Run:
    """Write a model as ONNX with input `x` [n, …] and output `logits`, and return a function that runs it."""
    onnx, onnxruntime = import_module("onnx"), import_module("onnxruntime")
    program = _traced(whole, stored)
    with _quiet(), _as_motet_error("ONNX"):
        made = torch.onnx.export(program, dynamo=True, input_names=[INPUT], output_names=[OUTPUT], verbose=False)
    assert made is not None
    model = made.model_proto
    _name_the_batch(model)
    with writing(path):
        onnx.save(model, str(path))
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def run(x: Tensor) -> Tensor:
        return torch.from_numpy(np.array(session.run([OUTPUT], {INPUT: x.numpy()})[0]))

    return run


def _traced(whole: Whole, stored: torch.dtype) -> torch.export.ExportedProgram:
    """Return the computation for any number of samples; it is traced on made-up samples, as they are kept in the
    file."""
    example = torch.zeros(2, *whole.prepare.sample_shape, dtype=stored)
    whole = deepcopy(whole)  # an LSTM may keep tensors of the tracer
    with torch.no_grad(), _quiet(), _as_motet_error("torch.export"):
        whole(example)  # creates lazy buffers before tracing, so that they are no tracer's tensors
        program = torch.export.export(whole, (example,), dynamic_shapes=({0: torch.export.Dim("n")},))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # contains paths of this machine
    return program


@contextmanager
def _as_motet_error(what: str) -> Iterator[None]:
    """Turn errors inside the block into a MotetError: a user's own model may do what cannot be traced."""
    try:
        yield
    except MotetError:
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise MotetError(f"this model cannot be written for {what} ({reason}); accepted: --format torch") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's messages about optional packages inside the block."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _name_the_batch(model: Any) -> None:
    """Call the first axis n, and remove the paths of Motet's source from the file."""
    named = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    batch = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in named:
        for side in value.type.tensor_type.shape.dim:
            if side.dim_param == batch:
                side.dim_param = "n"
    for node in model.graph.node:
        del node.metadata_props[:]
