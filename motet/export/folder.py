"""The folder of one exported model, written whole and read with suspicion.

    model.json          what it is, how samples are prepared, names of classes, figures, checksums of the other files
    model.safetensors   its weights and constants
    model.pt2           the whole computation, for torch.export.load    (if asked for)
    model.onnx          the same for ONNX runtimes                       (if asked for)

A folder may come from anybody. Its files are its own, what they say is checked by their model (`ModelFile`), no net is
built that the weights beside it do not fill, and nothing is unpickled.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from motet.errors import MotetError
from motet.export.description import Description, ModelFile, ModelFormat, from_file, to_file
from motet.export.portable import MATRIX, SHIFT, Portable
from motet.io.files import is_own_folder, make_folder, read_own, write_atomic
from motet.io.plugins import is_import
from motet.io.user_code import place_of
from motet.messages.message import decode, encode
from motet.nets import Net, build_net, net_term
from motet.runs.trust import require_trust_in
from motet.training.randomness import seeded

MODEL, WEIGHTS = "model.json", "model.safetensors"
PREPARE, NET = "prepare.", "net."
MOST_JSON = 2**28


def write_model(
    folder: Path,
    known: Description,
    model: Portable | None,
    others: Mapping[str, ModelFormat],
    difference: float | None = None,
    checked_on: str | None = None,
) -> None:
    """Write a model's weights, and model.json last; `others` are the files that are there already.

    `difference` says how far the weights' logits are from those of the run's own model, and on which samples.
    """
    make_folder(folder)
    described = known if model is None else replace(known, voting=model.voting)
    files = dict(others)
    if model is not None:
        _, constants = known.prepare.saved()
        tensors = model.constants() | {PREPARE + name: value for name, value in constants.items()}
        data = encode({name: value if value.dim() else value.view(1) for name, value in tensors.items()})
        write_atomic(folder / WEIGHTS, data)
        files[WEIGHTS] = ModelFormat.of(data, difference, checked_on)
    write_atomic(folder / MODEL, to_file(described, files).to_json(indent=1))


def is_model(folder: Path) -> bool:
    """Return whether the folder holds one exported model."""
    return (folder / MODEL).is_file()


def read_model(folder: Path, trust_code: bool = False) -> tuple[Description, Portable]:
    """Return the model of a folder, or raise a MotetError that says what is wrong with it."""
    if not is_own_folder(folder) or not is_model(folder):
        raise MotetError(f"{folder} holds no exported model: no {MODEL} there; accepted: a folder of `motet export`")
    file = _described(folder)
    tensors = _tensors(folder, file)
    constants = {name.removeprefix(PREPARE): t for name, t in tensors.items() if name.startswith(PREPARE)}
    try:
        known = from_file(file, constants)
    except (ValueError, LookupError, TypeError, MotetError) as error:  # a damaged preparation of samples
        raise _no_model(folder, error) from error
    if is_import(code := net_term(known.net).name):  # the user's own code needs the same trust as in a run
        require_trust_in([code], f"model {folder}", trust_code)
    try:
        return known, _model(known, {name: t for name, t in tensors.items() if not name.startswith(PREPARE)})
    except (ValueError, RuntimeError) as error:  # the net does not fit the samples or the weights
        if place_of(error):
            raise
        raise _no_model(folder, error) from error


def _no_model(folder: Path, error: Exception) -> MotetError:
    why = (str(error).splitlines() or [type(error).__name__])[0][:150]
    return MotetError(f"{folder / MODEL} and its weights do not make a model ({why}); export it anew")


def _described(folder: Path) -> ModelFile:
    path = folder / MODEL
    try:
        data = read_own(path, MOST_JSON)
    except OSError as error:
        raise MotetError(f"cannot read {path}: {error.strerror}") from error
    return ModelFile.from_json(data, str(path))


def _tensors(folder: Path, file: ModelFile) -> dict[str, Tensor]:
    path, told = folder / WEIGHTS, file.files.get(WEIGHTS)
    if told is None:
        there = ", ".join(name[:40] for name in file.files)
        raise MotetError(
            f"the model of {folder} is more than weights, so that only {there or 'nothing'} was written; "
            f"accepted: its own runtime, such as onnxruntime or torch.export.load"
        )
    try:
        data = read_own(path)
    except OSError as error:
        raise MotetError(f"cannot read {path}: {error.strerror}") from error
    if ModelFormat.of(data).sha256 != told.sha256:
        raise MotetError(f"{path} is not the file that {MODEL} tells of (its checksum is another); export it anew")
    try:
        state = decode(data)
    except MotetError as error:
        raise MotetError(f"{path} is damaged ({error})") from error
    return {name: value if isinstance(value, Tensor) else torch.tensor(value) for name, value in state.items()}


def _model(known: Description, tensors: Mapping[str, Tensor]) -> Portable:
    net = _net(known, {name.removeprefix(NET): t for name, t in tensors.items() if name.startswith(NET)})
    rest = {name: t for name, t in tensors.items() if not name.startswith(NET)}
    features, classes = torch.Size(net.feature_shape()), len(known.class_names)
    shapes = {SHIFT: features, MATRIX: torch.Size((classes, features.numel()))}
    for name, shape in shapes.items():
        if name in rest and (rest[name].shape != shape or rest[name].dtype != torch.float32):
            raise ValueError(f"{name} has shape {tuple(rest[name].shape)}")
    memory = ("z", "y") if known.voting else ()
    if unknown := set(rest) - set(shapes) - set(memory):
        raise ValueError(f"unknown tensor {min(unknown)[:60]!r}")
    if missing := set(memory) - set(rest):
        raise ValueError(f"no tensor {min(missing)!r}")
    remembered = (rest["z"], rest["y"]) if known.voting else None
    if remembered:
        z, y = remembered
        fits = z.shape == (len(y), features.numel()) and z.dtype == torch.float32 and y.dtype == torch.int64
        if not fits or y.dim() != 1 or not len(y) or int(y.min()) < 0 or int(y.max()) >= classes:
            raise ValueError("the remembered samples")
    return Portable(net, {name: rest[name] for name in shapes if name in rest}, known.voting, remembered)


def _net(known: Description, state: Mapping[str, Tensor]) -> Net:
    """Return the net, built only if the weights fill it: a small file could otherwise ask for all memory."""
    split = None if known.head == "auto" else known.head
    given, classes = known.prepare.input, len(known.class_names)
    build = partial(build_net, known.net, given, classes, split, batch_statistics=known.batch_statistics)
    if not is_import(net_term(known.net).name):
        with torch.device("meta"):
            _require_fitting(build().state_dict(), state)
    with seeded(0, "load"):
        net = build()
    wanted = net.state_dict()
    _require_fitting(wanted, state)
    net.load_state_dict({name: t.view(wanted[name].shape) for name, t in state.items()})
    return net


def _require_fitting(wanted: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
    if set(wanted) != set(state):
        other = min(set(wanted) ^ set(state))
        raise ValueError(f"the net has {len(wanted)} tensors, the file {len(state)}; {other[:60]!r} is in one of them")
    for name, own in wanted.items():
        given = state[name]
        if tuple(given.shape) != (tuple(own.shape) or (1,)):
            raise ValueError(f"{name[:60]!r} has shape {tuple(given.shape)}, and the net {tuple(own.shape)}")
        if given.dtype != own.dtype:  # torch would silently convert whole numbers to weights
            raise ValueError(f"{name[:60]!r} has type {given.dtype}, and the net {own.dtype}")
