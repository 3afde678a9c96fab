"""The base class of parts: a method is FedAvg plus parts, and a part acts only in the hooks of this class."""

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
"""What a part changes. The parts of a sum act in the order in which these words stand here."""

ORDER: tuple[Acts, ...] = get_args(Acts)
NEEDS_BATCHES: dict[str, tuple[str, ...]] = {
    "samples": ("samples",),
    "loss": ("criterion", "objective", "features"),
    "features": ("criterion", "objective", "features"),
}
"""Which hooks only parts of these kinds may define: with such a part each client is trained alone, batch by batch."""

MAKES_A_CLIENT_DIFFER = ("private", "features", "note", "personal_logits")
"""The hooks with which a part gives a client a model that differs from the server's."""


@dataclass(frozen=True)
class Forward:
    """What the net made of one batch: its input x, the body's features, the head's input z, the generic logits."""

    x: Tensor
    raw: Tensor
    z: Tensor
    logits: Tensor


@dataclass(frozen=True)
class Phase:
    """One phase of local training: which trainable weights move, for how many epochs (None: as the settings say)."""

    moving: slice
    epochs: int | None = None


class Part(Section):
    """The base class of parts. Override the hooks that the paper needs; each default does nothing.

    The fields of a part are the options that its name takes in brackets. A part keeps nothing on itself: at the server
    it keeps tensors in `s.state`, at a client in `t.client.private`, and during one local training in `t["name"]`.
    """

    # ------------------------------------------------------------ declarations

    acts: ClassVar[Acts] = "correction"
    role: ClassVar[str | None] = None  # a sum may have only one part of a role
    without: ClassVar[Mapping[str, str]] = {}  # names of parts that cannot stand in a sum with it, and why
    tells: ClassVar[frozenset[str]] = frozenset()  # what clients reveal beside weights and numbers of samples
    uploads: ClassVar[Mapping[str, Rule]] = {}  # the fields that it adds to a reply
    weighting: ClassVar[Literal["samples", "uniform"]] = "samples"  # how the server averages with this part
    in_phases: ClassVar[bool] = False  # divides local training into phases: see `phases`
    private_rests: ClassVar[bool] = (
        False  # what it keeps from travelling is never trained, so it is the same at all clients
    )
    shares: ClassVar[bool] = True  # False: with this part no weight travels
    needs_sharing: ClassVar[bool] = True  # cannot be used where no weight travels
    needs_validation: ClassVar[bool] = (
        False  # may use the client's validation data to choose by; other parts do not see them
    )
    needs_shared_data: ClassVar[bool] = (
        False  # clients get the small balanced set of samples that the federation shares
    )
    needs_classes: ClassVar[bool] = False  # its rule is about classes: it cannot predict a number
    assumes_sgd: ClassVar[str] = ""  # why its rule holds for steps of SGD alone, as the start of a sentence
    serves_adaptation: ClassVar[bool] = True  # False: it does not act when a new client adapts
    serves_prediction: ClassVar[bool] = True  # False: what it broadcasts is needed in training only
    shows: ClassVar[tuple[str, ...]] = ()  # metrics whose figures the report shows beside what the part learned
    personalizes: ClassVar[bool] = False
    """Whether clients get models of their own with this part; if not, all are served the server's model. Where a part
    does not set it, it is true if the part defines one of the hooks in MAKES_A_CLIENT_DIFFER."""

    def __init_subclass__(cls, **words: Any) -> None:
        """Raise TypeError for a part whose hooks do not fit what it declares, and set `personalizes` if it does not.

        A part that acts on batches must say so in `acts`, because the clients of other parts may be trained as one
        computation that skips these hooks.
        """
        super().__init_subclass__(**words)
        if "personalizes" not in vars(cls):
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

    # ------------------------------------------------------------ once, before the first round

    def settled(self, net: Net, facts: Facts) -> "Part":
        """Return the part with a value in place of each "auto" that the net or the federation decides.

        Called when the method is built, before `brings`. What only training can tell stays "auto": see `measured`.
        """
        return self

    def measured(self, s: Serving) -> dict[str, float]:
        """Return the values that options left at "auto" were given by measurement, by the name of the option."""
        return {}

    def brings(self) -> "tuple[Part, ...]":
        """Return other parts that come with this one and act right after it, such as FED-ROD's balanced loss."""
        return ()

    def refuse(self, facts: Facts) -> str | None:
        """Return one sentence where the experiment lacks what the part needs, or None; called before anything runs."""
        return None

    def memory(self, net: Net, facts: Facts, model: int) -> MemoryNeed | None:
        """Return the memory that the part needs on this net, whose weights take `model` bytes; None: hardly any."""
        return None

    def private(self, net: Net) -> tuple[str, ...]:
        """Return name patterns of the parameters that never leave the client; called when the method is built."""
        return ()

    def extend(self, net: Net) -> None:
        """Add modules or parameters to the net; called when the method is built.

        Added weights that travel are averaged by numbers of samples.
        """

    def makes_from_counts(self) -> bool:
        """Return whether the part makes a new client's model from its class counts alone."""
        return False

    def start(self, s: Serving) -> None:
        """Add to the server state before the first round. Not called when a run is resumed."""

    def preparation(self) -> "Part | None":
        """Return the part that acts in one plain epoch at every client before the first round; None means no such
        epoch."""
        return None

    def prepare(self, t: Training, reply: Message) -> None:
        """Add to the client's reply when the epoch of `preparation` ended. Weights trained in it are thrown away."""

    def prepared(self, s: Serving, replies: Mapping[int, Message]) -> None:
        """Add to the server state what the replies of `prepare` give; called once, before the first round."""

    # ------------------------------------------------------------ each round, at the server

    def broadcast(self, s: Serving, client_id: int, message: Message) -> None:
        """Add fields to the message for one client; called before the client trains or makes its personal model."""

    def combine(self, s: Serving, replies: Mapping[int, Message]) -> Tensor | None:
        """Return what replaces the mean of the clients' w, or None to keep the mean; called before `aggregate`.

        A part with this hook has the role "aggregation".
        """
        return None

    def aggregate(self, s: Serving, replies: Mapping[int, Message]) -> None:
        """Change the server state when a round's replies are averaged; `s.moved` has the weights before and after."""

    def diagnostics(self, s: Serving) -> dict[str, float]:
        """Return numbers for the round's row in the record; called after each round."""
        return {}

    # ------------------------------------------------------------ after the last round

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        """Return figures of what the part learned, for the report; called at the server after the last round."""
        return []

    def client_snapshot(self, client: Client, net: Net) -> Message:
        """Return what one client gives for `figures_learned`; called after the last round, and only in simulations.

        The net has the model that the client just received, with the weights that the client keeps.
        """
        return {}

    # ------------------------------------------------------------ each round, at a client

    def before(self, t: Training, message: Message) -> None:
        """Prepare for local training; called when the client has the model it received, before its first step.

        It may read the message, store tensors in `t`, and change the weights `t.w`.
        """

    def samples(self, t: Training, samples: Samples) -> Samples:
        """Return the samples that the client trains on, instead of its own or in addition to them."""
        return samples

    def phases(self, t: Training) -> Sequence[Phase]:
        """Return the phases of local training, for parts with `in_phases`; called also when a client adapts."""
        return [Phase(t.layout.trainable)]

    def features(self, net: Net, z: Tensor) -> Tensor:
        """Return changed features between body and head; called for each batch in training and personal prediction."""
        return z

    def criterion(self, t: Training, out: Forward, y: Tensor) -> Tensor | None:
        """Return a loss of the generic logits to replace cross-entropy, or None to keep it; called for each batch."""
        return None

    def objective(self, t: Training, out: Forward, y: Tensor, loss: Tensor) -> Tensor:
        """Return the local loss with what the part adds to it; called for each batch after `criterion`."""
        return loss

    def correct(self, t: Training) -> None:
        """Add to the flat gradient before each step: `t.g_shared.add_(...)`."""

    def after(self, t: Training, reply: Message) -> None:
        """Add fields to the reply and store private state in `t.client.private`; called when local training ended."""

    # ------------------------------------------------------------ personal prediction

    def note(self, client: Client, net: Net) -> object | None:
        """Return what personal prediction needs to know of the client; called once, with its weights in the net."""
        return None

    def personal_logits(self, net: Net, out: Forward, note: Any) -> Tensor:
        """Return the logits of the personal model; called for each batch of a prediction, with what `note` returned."""
        return out.logits

    def constants(self, net: Net, note: Any) -> Mapping[str, Tensor]:
        """Return what `features` and `personal_logits` add, as constants of an exported model.

        `shift` is added to the features, and `matrix` times the features is added to the logits.
        """
        return {}
