"""Initial weights from a safetensors file: names and shapes are checked, and nothing is unpickled."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from motet.errors import MotetError, shown
from motet.io.user_paths import regular_size, shown_path, user_path
from motet.nets.net import Net

FIELD = "net.weights"
COUNTS = ".num_batches_tracked"
"""How many batches BatchNorm has seen: who saves weights may leave it out."""


def weights_sha256(text: str) -> str:
    """Return the SHA-256 of a weights file."""
    try:
        with _file(text).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(text, error.strerror or str(error)) from None


def put_weights(net: Net, text: str, head: bool, sha256: str = "") -> None:
    """Load the weights of a file into a net; with `head` false the net's head stays as it is."""
    if sha256 and weights_sha256(text) != sha256:
        raise MotetError(
            f"{FIELD} {shown_path(text)} has another SHA-256 than net.weights_sha256, {sha256[:12]}…; accepted: the "
            f"file as it was"
        )
    file = _file(text)
    try:
        with safe_open(file, "pt") as found, torch.no_grad():
            here = {_name(name, net.elsewhere): name for name in found.keys()}  # noqa: SIM118  it has no iterator
            wanted = _wanted(net, head)
            _refuse_names(text, here, wanted, net, head)
            for name, mine in wanted.items():
                if name in here:
                    _put(text, name, found.get_tensor(here[name]), mine)
    except (SafetensorError, OSError, ValueError) as error:
        raise _unreadable(text, str(error).splitlines()[0]) from None


def _file(text: str) -> Path:
    path = user_path(text, FIELD)
    if not path.exists():
        raise MotetError(f"{FIELD} is {shown_path(text)}, and there is no such file; accepted: a .safetensors file")
    regular_size(path, f"{FIELD} {shown_path(text)}")
    return path


def _name(there: str, elsewhere: Mapping[str, str]) -> str:
    for theirs, ours in elsewhere.items():
        if there.startswith(theirs):
            return ours + there.removeprefix(theirs)
    return there


def _wanted(net: Net, head: bool) -> dict[str, Tensor]:
    named = [*net.named_parameters(), *net.named_buffers()]
    return {name: t for name, t in named if head or not name.startswith(net.head_names())}


def _refuse_names(text: str, here: Mapping[str, str], wanted: Mapping[str, Tensor], net: Net, head: bool) -> None:
    """Raise a `MotetError` about the first weights that are missing or too many."""
    for name in wanted:
        if name not in here and not name.endswith(COUNTS):
            hint = ", or net.weights_head = false" if head and name.startswith(net.head_names()) else ""
            raise MotetError(
                f"{FIELD} {shown_path(text)} has no {shown(name)}; accepted: a file with every weight of the net{hint}"
            )
    every = _wanted(net, head=True)
    for name in here:
        if name not in every and not name.endswith(COUNTS) and (head or _of_body(name, net)):
            raise MotetError(
                f"{FIELD} {shown_path(text)} has {shown(name)}, which the net has not; accepted: the weights of this "
                f"net alone"
            )


def _of_body(name: str, net: Net) -> bool:
    return name.startswith(net.body_names())


def _put(text: str, name: str, theirs: Tensor, mine: Tensor) -> None:
    if name.endswith(COUNTS) and theirs.numel() == 1:
        theirs = theirs.reshape(())  # files of Motet's runs store scalars as lists of one
    if theirs.shape != mine.shape:
        raise MotetError(
            f"{FIELD} {shown_path(text)} has {shown(name)} of shape {tuple(theirs.shape)}; accepted: "
            f"{tuple(mine.shape)}, or net.weights_head = false where a head differs"
        )
    theirs = theirs.to(mine.dtype)
    if not torch.isfinite(theirs).all():
        raise MotetError(f"{FIELD} {shown_path(text)} has NaN or infinity in {shown(name)}; accepted: finite numbers")
    mine.copy_(theirs)


def _unreadable(text: str, why: str) -> MotetError:
    return MotetError(f"{FIELD} {shown_path(text)} cannot be read ({why}); accepted: a .safetensors file")
