"""Parts: a method is FedAvg plus parts, and a part acts at these points and no others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from torch import Tensor

from motet.config.section import Section
from motet.data import Samples
from motet.messages.message import Message
from motet.messages.replies import Rule
from motet.methods.base.learned_figure import Learned, LearnedFigure
from motet.methods.base.method import Facts, MemoryNeed
from motet.methods.base.serving import Serving
from motet.methods.base.training import Training
from motet.nets import Net
from motet.training.client import Client

Acts = Literal["sharing", "samples", "loss", "features", "correction", "server"]
"""What a part changes. The order of these words is the order in which the parts of a sum act."""

ORDER: tuple[Acts, ...] = get_args(Acts)
NEEDS_BATCHES: dict[str, tuple[str, ...]] = {
    "samples": ("samples",),
    "loss": ("criterion", "objective", "features"),
    "features": ("criterion", "objective", "features"),
}
"""The points at which only parts of these kinds may act: such a client is trained alone, batch by batch."""

MAKES_A_CLIENT_DIFFER = ("private", "features", "note", "personal_logits")
"""The points at which a part gives a client something of its own to predict with."""


@dataclass(frozen=True)
class Forward:
    """One batch through the net: x, the body's features, the features the head saw, the generic logits."""

    x: Tensor
    raw: Tensor
    z: Tensor
    logits: Tensor


@dataclass(frozen=True)
class Phase:
    """A stretch of local training: which trainable weights move, for how many epochs (None: as the settings say)."""

    moving: slice
    epochs: int | None = None


class Part(Section):
    """What a part may do; each default does nothing. Its fields are the options of the method's name."""

    # ------------------------------------------------------------ declarations

    acts: ClassVar[Acts] = "correction"
    role: ClassVar[str | None] = None  # two parts of the same role exclude each other
    without: ClassVar[Mapping[str, str]] = {}  # names of other parts that it makes no sense with, and why
    tells: ClassVar[frozenset[str]] = frozenset()  # what it makes clients tell beside weights and numbers of samples
    uploads: ClassVar[Mapping[str, Rule]] = {}  # the fields that it adds to a reply
    weighting: ClassVar[Literal["samples", "uniform"]] = "samples"  # how the server averages with this part
    in_phases: ClassVar[bool] = False  # trains in stretches of its own: see `phases`
    private_rests: ClassVar[bool] = False  # what it keeps from travelling is never trained: the same for everybody
    shares: ClassVar[bool] = True  # False: with this part no weight travels
    needs_sharing: ClassVar[bool] = True  # makes no sense where nothing travels
    needs_validation: ClassVar[bool] = False  # sees the client's validation data, to choose by; else it is shown none
    needs_shared_data: ClassVar[bool] = False  # clients see the federation's small balanced set
    serves_adaptation: ClassVar[bool] = True  # False: acts for the federation's sake, not when a client adapts
    serves_prediction: ClassVar[bool] = True  # False: what it broadcasts is for training alone
    shows: ClassVar[tuple[str, ...]] = ()  # measures of a run whose pictures belong to what it learned
    personalizes: ClassVar[bool] = False
    """With it clients have models of their own; False: everybody is served the server's model. A part that does not say
    so does if it acts where a client gets something of its own to predict with."""

    def __init_subclass__(cls, **words: Any) -> None:
        """A part that acts on batches says so: clients of other parts may be trained as one, past these points."""
        super().__init_subclass__(**words)
        if "personalizes" not in cls.__dict__:
            differ = any(getattr(cls, point) is not getattr(Part, point) for point in MAKES_A_CLIENT_DIFFER)
            cls.personalizes = cls.personalizes or (differ and not cls.private_rests)
        for point in sorted({p for points in NEEDS_BATCHES.values() for p in points}):
            kinds = [kind for kind, points in NEEDS_BATCHES.items() if point in points]
            if getattr(cls, point) is not getattr(Part, point) and cls.acts not in kinds:
                accepted = " or ".join(map(repr, kinds))
                raise TypeError(f"{cls.__name__} has `{point}` but acts = {cls.acts!r}; accepted: acts = {accepted}")
        if cls.combine is not Part.combine and cls.role != "aggregation":
            raise TypeError(f"{cls.__name__} has `combine` but role = {cls.role!r}; accepted: role = 'aggregation'")
        if cls.phases is not Part.phases and not cls.in_phases:
            raise TypeError(f"{cls.__name__} has `phases`; accepted: in_phases = True beside it")

    # ------------------------------------------------------------ once

    def brings(self) -> "tuple[Part, ...]":
        """Other parts that come with this one and act right after it, such as FED-ROD's balanced loss."""
        return ()

    def refuse(self, facts: Facts) -> str | None:
        """One sentence where the experiment lacks what the part needs, said before anything runs."""
        return None

    def memory(self, net: Net, facts: Facts, model: int) -> MemoryNeed | None:
        """Return what memory the part needs on this net, whose weights take `model` bytes; None: hardly any."""
        return None

    def private(self, net: Net) -> tuple[str, ...]:
        """Name patterns of the parameters that never travel."""
        return ()

    def extend(self, net: Net) -> None:
        """Add modules or parameters to the net; those that travel are plainly averaged by samples."""

    def makes_from_counts(self) -> bool:
        """Whether it makes a new client's model from its class counts alone."""
        return False

    def start(self, s: Serving) -> None:
        """Add to the server state, before the first round. Not called when a run is resumed."""

    def preparation(self) -> "Part | None":
        """For a part that needs the clients before the first round: what acts in one plain epoch of theirs."""
        return None

    def prepare(self, t: Training, reply: Message) -> None:
        """That epoch ended: add to what the client tells. The weights trained in it are thrown away."""

    def prepared(self, s: Serving, replies: Mapping[int, Message]) -> None:
        """Back at the server, still before the first round."""

    # ------------------------------------------------------------ each round, at the server

    def broadcast(self, s: Serving, client_id: int, message: Message) -> None:
        """Add to the message for one client."""

    def combine(self, s: Serving, replies: Mapping[int, Message]) -> Tensor | None:
        """Replace the mean of the clients' w; None: leave it. Such a part has the role "aggregation"."""
        return None

    def aggregate(self, s: Serving, replies: Mapping[int, Message]) -> None:
        """After averaging."""

    def diagnostics(self, s: Serving) -> dict[str, float]:
        """Numbers worth a line in the record of each round."""
        return {}

    # ------------------------------------------------------------ after the last round

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        """What the part learned, to be drawn in a report; made at the server."""
        return []

    def client_snapshot(self, client: Client, net: Net) -> Message:
        """What a client hands over for them, in a simulation alone; the net has the model just received, and what the
        client keeps."""
        return {}

    # ------------------------------------------------------------ each round, at a client

    def before(self, t: Training, message: Message) -> None:
        """Local training starts."""

    def samples(self, t: Training, samples: Samples) -> Samples:
        """Change what the client trains on."""
        return samples

    def phases(self, t: Training) -> Sequence[Phase]:
        """The stretches of a part that trains in them; also when a client adapts."""
        return [Phase(t.layout.trainable)]

    def features(self, net: Net, z: Tensor) -> Tensor:
        """Change the features between body and head, in training and in personal prediction."""
        return z

    def criterion(self, t: Training, out: Forward, y: Tensor) -> Tensor | None:
        """Replace cross-entropy as the loss of the generic logits; None: leave it."""
        return None

    def objective(self, t: Training, out: Forward, y: Tensor, loss: Tensor) -> Tensor:
        """Add to the local loss."""
        return loss

    def correct(self, t: Training) -> None:
        """Add to the flat gradient before the step: `t.g_shared.add_(...)`."""

    def after(self, t: Training, reply: Message) -> None:
        """Local training ended: add to the reply, keep private state."""

    # ------------------------------------------------------------ personal prediction

    def note(self, client: Client, net: Net) -> object | None:
        """What personal prediction needs to know of the client, with its weights in the net."""
        return None

    def personal_logits(self, net: Net, out: Forward, note: Any) -> Tensor:
        """Logits of the personal model."""
        return out.logits

    def constants(self, net: Net, note: Any) -> Mapping[str, Tensor]:
        """What its `features` and `personal_logits` add, for a model that leaves Motet: `shift` is added to the
        features, `matrix` times the features is added to the logits."""
        return {}
