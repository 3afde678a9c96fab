"""The transforms `top-k` and `int8`, which make replies smaller, both with error feedback.

What a compression leaves out of a change stays with the client as its residual, in its private state, and is added to
its next change (Seide et al. 2014; Karimireddy et al. 2019). So nothing is lost, it only comes later. Fields of floats
are compressed, each by itself; numbers and tensors of whole numbers travel as they are.
"""

import math
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from motet.errors import MotetError
from motet.messages.message import Message, tensor
from motet.messages.transform import PREFIX, Arrival, RunPlan, Sender, Transform, TransformEntry, references


class Compression(Transform):
    """The base of compressions of one field's change; a subclass says how, and how it is undone."""

    compresses: ClassVar[bool] = True
    name: ClassVar[str]

    feedback: bool = Field(True, description="a client adds to its next change what was left out of this one")

    def refuse(self, plan: RunPlan) -> str | None:
        """Return a sentence if something that compresses comes before: its residual would belong to other numbers."""
        earlier = plan.transforms[: plan.position(self)]
        if any(each.compresses for each in earlier):
            return f"{self.name} follows a transform that compresses or masks already; accepted: one of them"
        return None

    def pack(self, client: Sender, message: Message, reply: Message) -> Message:
        """Return the reply with the compressed change of each field of floats, and keep the residuals."""
        found = dict(reply)
        for name, start in references(message, reply).items():
            if not isinstance(start, Tensor):
                continue
            change, residual = tensor(reply, name) - start, client.private.get(self._residual(name))
            if self.feedback and isinstance(residual, Tensor):
                change = change + residual.to(change)
            small = self.compressed(change)
            if self.feedback:
                client.private[self._residual(name)] = change - self.restored(name, small, change.shape).to(change)
            del found[name]
            found |= {f"{name}.{part}": value for part, value in small.items()}
            found[f"{name}.shape"] = torch.tensor(change.shape)
        return found

    def open(self, arrival: Arrival, message: Message, reply: Message) -> Message:
        """Return the reply with each field as the message has it plus its change; raise if a part does not fit."""
        found = dict(reply)
        for name in [field.removesuffix(".shape") for field in reply if field.endswith(".shape")]:
            shape = self._shape(name, tensor(found, f"{name}.shape"))
            del found[f"{name}.shape"]
            small = {part: tensor(found, f"{name}.{part}") for part in self.parts}
            for part in small:
                del found[f"{name}.{part}"]
            change = self.restored(name, small, shape)
            found[name] = change + tensor(references(message, {name: change}), name)
        return found

    parts: ClassVar[tuple[str, ...]]  # names of what `compressed` returns

    def compressed(self, change: Tensor) -> dict[str, Tensor]:
        """Return a change in fewer bytes."""
        raise NotImplementedError

    def restored(self, name: str, small: dict[str, Tensor], shape: tuple[int, ...]) -> Tensor:
        """Return the change that `compressed` made small; raise `MotetError` if the parts are not of one."""
        raise NotImplementedError

    def _residual(self, name: str) -> str:
        return f"{PREFIX}{self.name}.{name}"

    @staticmethod
    def _shape(name: str, told: Tensor) -> tuple[int, ...]:
        shape = tuple(int(side) for side in told.tolist())
        if told.dtype != torch.int64 or min(shape, default=0) < 0:
            raise MotetError(f"reply field {name!r} has shape {shape}; accepted: whole numbers of at least 0")
        return shape


class TopK(Compression):
    """Sends the largest numbers of a change and where they are: 8 bytes for each of them."""

    name: ClassVar[str] = "top-k"
    parts: ClassVar[tuple[str, ...]] = ("values", "at")

    share: float = Field(0.1, gt=0, le=1, description="of the numbers of a field, which are sent")

    def compressed(self, change: Tensor) -> dict[str, Tensor]:
        """Return the k largest numbers by magnitude, and their places in rising order."""
        flat = change.flatten()
        at = flat.abs().topk(self._k(flat.numel()), sorted=False).indices.sort().values
        return {"values": flat[at], "at": at.to(torch.int32)}

    def restored(self, name: str, small: dict[str, Tensor], shape: tuple[int, ...]) -> Tensor:
        """Return zeros with the sent numbers at their places."""
        values, at, size = small["values"], small["at"].long(), math.prod(shape)
        if at.shape != (self._k(size),) or values.shape != at.shape or not values.is_floating_point():
            raise MotetError(
                f"reply field {name!r} has {tuple(at.shape)} places; accepted: {self._k(size)} of its {size} numbers"
            )
        if size and not (bool((at.diff() > 0).all()) and int(at[0]) >= 0 and int(at[-1]) < size):
            raise MotetError(f"reply field {name!r} has wrong places; accepted: rising ones from 0 to below {size}")
        change = torch.zeros(size, dtype=values.dtype, device=values.device)
        change[at] = values
        return change.view(shape)

    def _k(self, size: int) -> int:
        return math.ceil(self.share * size)


class EightBits(Compression):
    """Sends each number of a change in 8 bits, with one scale for every 256 of them."""

    name: ClassVar[str] = "int8"
    parts: ClassVar[tuple[str, ...]] = ("bits", "scales")

    def compressed(self, change: Tensor) -> dict[str, Tensor]:
        """Return whole numbers from -127 to 127, and the scale of each block."""
        blocks = self._blocks(change.flatten())
        scales = blocks.abs().amax(1) / 127
        steps = torch.where(scales > 0, scales, torch.ones_like(scales))
        bits = (blocks / steps[:, None]).round_().to(torch.int8).flatten()[: change.numel()]
        return {"bits": bits, "scales": scales}

    def restored(self, name: str, small: dict[str, Tensor], shape: tuple[int, ...]) -> Tensor:
        """Return the numbers times their scales."""
        bits, scales, size = small["bits"], small["scales"], math.prod(shape)
        right = bits.dtype == torch.int8 and bits.shape == (size,) and scales.shape == (-(-size // BLOCK),)
        if not right or not scales.is_floating_point():
            raise MotetError(f"reply field {name!r} has {tuple(bits.shape)} numbers of 8 bits; accepted: {size}")
        return (self._blocks(bits.to(scales.dtype)) * scales[:, None]).flatten()[:size].view(shape)

    @staticmethod
    def _blocks(flat: Tensor) -> Tensor:
        return torch.nn.functional.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)


BLOCK = 256
"""Numbers that share a scale in `int8`."""

ENTRIES = [
    TransformEntry("top-k", "the largest numbers of a change; the others come later", "Aji and Heafield 2017", TopK),
    TransformEntry("int8", "each number in 8 bits; what is rounded off comes later", "Seide et al. 2014", EightBits),
]
