"""The contract: what every method is, whatever engine runs it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn

from motet.client import Client
from motet.errors import Diverged
from motet.message import Message, State
from motet.nets import Net
from motet.settings import Section
from motet.weights import matches

if TYPE_CHECKING:
    from motet.methods.part import Part

Predictor = nn.Module  # takes a prepared batch, gives logits; valid until its method binds other weights


@dataclass(frozen=True)
class Facts:
    """What a server may know of its federation before the first round."""

    ids: tuple[int, ...]
    cohort: int
    rounds: int
    classes: int
    trainable: int = 0  # length of the travelling trainable weights, told by the method to its parts
    by_samples: bool = True  # whether the server averages by n_i, told likewise

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


class Method(ABC):
    """An algorithm: what travels, what stays, what a client does, how replies become the next server state.

    A method keeps nothing between calls: the server's memory is the server state, a client's is
    `client.private`; both are plain named tensors and scalars. Replace their tensors, never change them in place.
    """

    Options: type[Section]  # what the method's name takes in brackets
    net: Net
    pooled = False  # trains one client that holds everybody's data: a yardstick, not federated learning
    prepares = False  # whether `prepare` and `prepared` have anything to do
    needs_shared_data = False  # declares that clients see the small balanced set that the federation shares
    personal_from_global = False  # never serves a client's last trained model, even where scoring.pm_source says so
    keeps_nothing = False  # clients keep nothing between rounds: no training changes a personal model but the server's
    from_counts = False  # makes a personal model from a client's class counts alone
    family: Family | None = None  # where a client has several personal models (SuPerFed's line of them)

    def __init__(self, net: Net, options: Any, parts: "Sequence[Part]" = ()):
        """On a net, which the method may extend; only FedAvg-shaped methods are given parts."""
        self.net = net

    @abstractmethod
    def start(self, facts: Facts) -> State:
        """The server state before the first round."""

    @abstractmethod
    def broadcast(self, server: State, client_id: int, scoring: bool = False) -> Message:
        """What the server sends to one client; may differ from client to client.

        With `scoring` the client will not train, but only make its personal model: what training alone needs may be
        left out, and the personal model must come out the same.
        """

    @abstractmethod
    def train(self, client: Client, message: Message) -> Message:
        """One client's work in a round, where the client is; returns its reply."""

    @abstractmethod
    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        """The next server state from the replies, which come in the order of client ids."""

    @abstractmethod
    def generic(self, server: State) -> Tensor | None:
        """The G-FL model: flat weights of the plain net, or None where the method has none."""

    @abstractmethod
    def personal(self, client: Client, message: Message) -> Predictor | None:
        """The P-FL model, made at the client; None where a client has none."""

    @abstractmethod
    def adapt(self, client: Client, message: Message) -> Predictor:
        """The model of a client never seen in training, after learning from its data."""

    def together(self) -> int:
        """How many clients `train_together` may take at once; 1: there is nothing to gain."""
        return 1

    def train_together(self, clients: Sequence[Client], messages: Sequence[Message]) -> list[Message | Diverged]:
        """`train` of several clients as one computation: the same replies up to rounding."""
        raise NotImplementedError

    def prepare(self, client: Client, message: Message) -> Message:
        """What every training client tells before the first round."""
        return {}

    def prepared(self, server: State, replies: Mapping[int, Message]) -> State:
        """The server state after `prepare`."""
        return server

    def member(self, client: Client, message: Message, name: str) -> Predictor:
        """One of the `family` of personal models; which of them is reported is its rule's choice."""
        raise NotImplementedError(name)

    def weights(self, client: Client, message: Message) -> Tensor | None:
        """The personal model as flat weights of the plain net, to be averaged; None where it is no such net."""
        return None

    def in_head(self, parameter: str) -> bool:
        """Whether a parameter of a predictor belongs to the head, which `+lp` trains alone."""
        return matches(parameter.removeprefix("net."), self.net.head_names())

    def diagnostics(self, server: State) -> dict[str, float]:
        """Numbers worth a line in the record of each round."""
        return {}
