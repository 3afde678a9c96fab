"""Components: a method is FedAvg plus parts, and a part acts at these points and no others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from torch import Tensor

from motet.client import Client
from motet.data import Samples
from motet.local import Descent
from motet.message import Message, State
from motet.methods.method import Facts
from motet.nets import Net
from motet.settings import Section
from motet.weights import Layout


@dataclass(frozen=True)
class Forward:
    """One batch through the net: x, the body's features, the features the head saw, the generic logits."""

    x: Tensor
    raw: Tensor
    z: Tensor
    logits: Tensor


@dataclass
class Training:
    """One client's local training: what a part may read and correct.

    `w` and `g` are the client's whole weights and where their gradient is added up, flat; g holds the momentum too, so
    add to it, never read it. `shared` and `g_shared` are the trainable part of them that travels, without what parts
    added to the net; `anchor` is it as the server sent it.
    A part keeps what it needs until the end of this training under a name: `t["scaffold.c"] = ...`.
    """

    client: Client
    net: Net
    layout: Layout
    parts: "tuple[Part, ...]"
    w: Tensor
    g: Tensor
    descent: Descent
    start: Tensor
    objective: "Callable[[Training, Tensor, Tensor], Tensor]"
    values: dict[str, Tensor] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        return self.values[name]

    def __setitem__(self, name: str, value: Tensor) -> None:
        self.values[name] = value

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """The local objective on a batch, without corrections."""
        return self.objective(self, x, y)

    @property
    def counts(self) -> Tensor:
        """N_m: samples of each class in the client's whole training set, and in what a part adds to it."""
        if "counts" not in self.values:
            self["counts"] = self.client.counts.to(self.w)
        return self["counts"]

    @property
    def shared(self) -> Tensor:
        """The travelling trainable weights now."""
        return self.w[self.layout.shared_trainable]

    @property
    def g_shared(self) -> Tensor:
        """Where their gradient is added up: corrections are added too."""
        return self.g[self.layout.shared_trainable]

    @property
    def anchor(self) -> Tensor:
        """The same weights as the server sent them."""
        return self.start[self.layout.shared_trainable]


class Part(Section):
    """What a component may do; each default does nothing. Its fields are the options of the method's name."""

    needs_sharing: ClassVar[bool] = True  # makes no sense where nothing travels
    needs_shared_data: ClassVar[bool] = False  # declares that clients see the federation's small balanced set
    serves_adaptation: ClassVar[bool] = True  # False: acts for the federation's sake, not when a client adapts
    serves_prediction: ClassVar[bool] = True  # False: what it broadcasts is for training alone
    weighting: ClassVar[Literal["samples", "uniform"]] = "samples"  # how the server averages with this part
    role: ClassVar[str | None] = None  # two parts of the same role exclude each other

    @property
    def from_counts(self) -> bool:
        """Whether a personal model needs nothing of the client but its class counts."""
        return False

    # ------------------------------------------------------------ once

    def brings(self) -> "tuple[Part, ...]":
        """Other parts that come with this one and act right after it, such as FED-ROD's balanced loss."""
        return ()

    def private(self, net: Net) -> tuple[str, ...]:
        """Name patterns of the parameters that never travel."""
        return ()

    def extend(self, net: Net) -> None:
        """Add modules or parameters to the net; those that travel are plainly averaged by samples."""

    def start(self, server: State, facts: Facts) -> None:
        """Add to the server state, before the first round."""

    def preparation(self) -> "Part | None":
        """For a part that needs the clients before the first round: what acts in one plain epoch of theirs."""
        return None

    def prepare(self, t: Training, reply: Message) -> None:
        """That epoch ended: add to what the client tells. The weights trained in it are thrown away."""

    def prepared(self, server: State, replies: Mapping[int, Message]) -> None:
        """Back at the server, still before the first round."""

    # ------------------------------------------------------------ each round, at the server

    def broadcast(self, server: State, client_id: int, message: Message) -> None:
        """Add to the message for one client."""

    def aggregate(self, server: State, sent: Tensor, replies: Mapping[int, Message]) -> None:
        """After averaging; `sent` is what server["w"] was before."""

    def diagnostics(self, server: State) -> dict[str, float]:
        """Numbers worth a line in the record of each round."""
        return {}

    # ------------------------------------------------------------ each round, at a client

    def before(self, t: Training, message: Message) -> None:
        """Local training starts."""

    def samples(self, t: Training, samples: Samples) -> Samples:
        """Change what the client trains on."""
        return samples

    def features(self, net: Net, z: Tensor) -> Tensor:
        """Change the features between body and head, in training and in personal prediction."""
        return z

    def criterion(self, t: Training, out: Forward, y: Tensor) -> Tensor | None:
        """Replace cross-entropy as the loss of the generic logits; None: leave it."""
        return None

    def objective(self, t: Training, out: Forward, y: Tensor, loss: Tensor) -> Tensor:
        """Add to the local loss."""
        return loss

    def shapes_loss(self) -> bool:
        """Whether it does any of these three, which need the features beside the logits."""
        kind = type(self)
        return (kind.features, kind.criterion, kind.objective) != (Part.features, Part.criterion, Part.objective)

    def correct(self, t: Training) -> None:
        """Add to the flat gradient before the step."""

    def after(self, t: Training, reply: Message) -> None:
        """Local training ended: add to the reply, keep private state."""

    # ------------------------------------------------------------ personal prediction

    def note(self, client: Client) -> Tensor | None:
        """What personal prediction needs to know of the client, such as its class distribution."""
        return None

    def personal_logits(self, net: Net, out: Forward, note: Tensor | None) -> Tensor:
        """Logits of the personal model."""
        return out.logits
