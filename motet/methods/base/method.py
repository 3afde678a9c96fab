"""What every method is: what travels, what stays, what a client does, how replies become the next server state."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from torch import Tensor, nn

from motet.config.section import Section
from motet.errors import Diverged
from motet.messages.message import Message, State
from motet.messages.replies import Rule, Weighting
from motet.methods.base.learned_figure import Learned, LearnedFigure
from motet.nets import Net
from motet.training.client import Client
from motet.training.flat_weights import matches

if TYPE_CHECKING:
    from motet.methods.base.part import Part


Predictor = nn.Module  # takes a prepared batch, gives logits; valid until its method binds other weights


@dataclass(frozen=True)
class Facts:
    """What a server may know of its federation before the first round."""

    ids: tuple[int, ...]
    cohort: int
    rounds: int
    classes: int
    seed: int = 0
    validating: int = 0  # how many of them keep validation data
    samples: tuple[int, ...] = ()  # n_i of each of them, which their replies tell anyway

    @property
    def clients(self) -> int:
        """How many clients may take part in rounds."""
        return len(self.ids)


@dataclass(frozen=True)
class Family:
    """Several personal models of one client, of which one is reported: by a rule of scoring.family."""

    members: tuple[str, ...]
    fixed: str  # the member that the rule `fixed` reports
    rule: Literal["common_best", "validation", "oracle", "fixed"] = "fixed"


@dataclass(frozen=True)
class MemoryNeed:
    """Memory that grows with an option or with the federation, said before anything of that size is built."""

    bytes: int
    accepted: str = ""  # what would do, where no option decides it
    option: str = ""  # the option that decides it, and its value
    value: int = 1
    model: int = 0  # by how many bytes the model grows that travels


COPIES = 3  # of a model at work: weights, gradients or momentum, and what is received or sent


class Method(ABC):
    """An algorithm. It keeps nothing between calls but what it was built from.

    The server's memory is the server state, a client's is `client.private`; both are plain named tensors and scalars.
    Replace their tensors, never change them in place. The loop keeps the number of the round in `server["round"]`.
    What is the same for all clients should be the same object in all messages, so that an engine can send it once.
    """

    # ------------------------------------------------------------ declarations

    Options: type[Section]  # what the method's name takes in brackets
    carries: ClassVar[tuple[str, ...]] = ()  # names of the parts that it takes in a sum; ("*",): any
    tells: frozenset[str] = frozenset()  # what leaves a client beside weights and its number of samples
    uploads: Mapping[str, Rule] = {}  # every field that a reply may have
    pooled = False  # trains one client that holds everybody's data: a yardstick, not federated learning
    prepares = False  # whether `prepare` and `prepared` have anything to do
    needs_validation = False  # sees clients' validation data, to choose by; else it is shown none
    needs_shared_data = False  # clients see the small balanced set that the federation shares
    personalizes: bool = True  # clients have models of their own; False: everybody is served the server's model
    personal_from_global = (
        False  # never serves a client's last trained model, even where scoring.personal_model says so
    )
    keeps_nothing = False  # clients keep nothing between rounds: no training changes a personal model but the server's
    from_counts = False  # makes a new client's model from its class counts alone
    shows: tuple[str, ...] = ()  # measures of a run whose pictures belong to what it learned
    family: Family | None = None  # where a client has several personal models (SuPerFed's line of them)

    def __init__(self, net: Net, options: Any, parts: "Sequence[Part]", facts: Facts):
        """On a net, which the method may extend, for a federation of which the server knows the facts."""
        self.net, self.facts = net, facts

    def refuse(self, facts: Facts) -> str | None:
        """One sentence where the experiment lacks what the method needs, said before anything runs."""
        return None

    @classmethod
    def memory(cls, options: Any, net: Net, facts: Facts, model: int) -> MemoryNeed | None:
        """Return what memory the method needs beyond FedAvg's on this net, whose weights take `model` bytes.

        The net has shapes and no weights. None: no more than FedAvg.
        """
        return None

    # ------------------------------------------------------------ the server

    @abstractmethod
    def start(self) -> State:
        """The server state before the first round. Not called when a run is resumed."""

    @abstractmethod
    def broadcast(self, server: State, client_id: int, scoring: bool = False) -> Message:
        """What the server sends to one client; may differ from client to client.

        With `scoring` the client will not train, but only make its personal model: what training alone needs may be
        left out, and the personal model must come out the same.
        """

    @abstractmethod
    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        """The next server state from the replies, which come in the order of client ids."""

    @abstractmethod
    def generic(self, server: State) -> Tensor | None:
        """The G-FL model: flat weights of the plain net, or None where the method has none."""

    def weightings(self, field: str) -> Sequence[Weighting]:
        """Return how `aggregate` weighs clients in the mean of a field whose rule is `mean`.

        Such fields are added up as replies arrive, so that the server must know it before.
        """
        return ("samples",)

    def diagnostics(self, server: State) -> dict[str, float]:
        """Numbers worth a line in the record of each round."""
        return {}

    # ------------------------------------------------------------ after the last round

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        """What the method learned, to be drawn in a report; made at the server."""
        return []

    def client_snapshot(self, client: Client, message: Message) -> Message:
        """What a client hands over for `figures_learned` where that is allowed: in a simulation, never at a real site.

        Small, and made anew: nothing of it is kept.
        """
        return {}

    @property
    def takes_snapshots(self) -> bool:
        """Whether `client_snapshot` has anything to say."""
        return type(self).client_snapshot is not Method.client_snapshot

    # ------------------------------------------------------------ before the first round

    def prepare(self, client: Client, message: Message) -> Message:
        """What every training client tells before the first round."""
        return {}

    def prepared(self, server: State, replies: Mapping[int, Message]) -> State:
        """The server state after `prepare`."""
        return server

    # ------------------------------------------------------------ a client

    @abstractmethod
    def train(self, client: Client, message: Message) -> Message:
        """One client's work in a round, where the client is; returns its reply."""

    def most_batched(self) -> int:
        """How many clients `train_batched` may take at once; 1: there is nothing to gain."""
        return 1

    def train_batched(self, clients: Sequence[Client], messages: Sequence[Message]) -> list[Message | Diverged]:
        """`train` of several clients as one computation: the same replies up to rounding."""
        return [self.train(client, message) for client, message in zip(clients, messages, strict=True)]

    # ------------------------------------------------------------ personal models, made at the client

    @abstractmethod
    def personal(self, client: Client, message: Message) -> Predictor | None:
        """The P-FL model; None where a client has none."""

    def member(self, client: Client, message: Message, name: str) -> Predictor:
        """One of the `family` of personal models; which of them is reported is its rule's choice."""
        raise NotImplementedError(f"{type(self).__name__} has a family but no `member`")

    @abstractmethod
    def adapt(self, client: Client, message: Message) -> Predictor:
        """The model of a client never seen in training, after learning from its data."""

    def heads(self, client: Client, message: Message) -> dict[str, Predictor]:
        """The P-FL model as `personal`, and beside it other heads of the same model, where it has some."""
        model = self.personal(client, message)
        return {} if model is None else {"personal": model}

    def weights(self, client: Client, message: Message) -> Tensor | None:
        """The personal model as flat weights of the plain net, where it is one: for a mean of personal models."""
        return None

    @property
    def own_weights(self) -> slice:
        """Where the field `w` of a message or reply has the net's own trainable weights."""
        return slice(None)

    def in_head(self, parameter: str) -> bool:
        """Whether a parameter of a predictor belongs to the head, which `+lp` trains alone."""
        return matches(parameter.removeprefix("net."), self.net.head_names())
