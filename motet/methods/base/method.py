"""The base class of methods: what a method sends, what a client does, and how replies become the next server state."""

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


Predictor = nn.Module  # maps a prepared batch to logits; valid until its method puts other weights into the net


@dataclass(frozen=True)
class Facts:
    """What the server knows about its federation before the first round."""

    ids: tuple[int, ...]
    cohort: int
    rounds: int
    classes: int
    seed: int = 0
    validating: int = 0  # how many of these clients keep validation data
    samples: tuple[int, ...] = ()  # n_i of each client, which replies reveal anyway
    target: str = ""  # the name of the number that is predicted; empty for classes
    protocol: str = "motet"  # whose way of training and measuring it is

    @property
    def clients(self) -> int:
        """Return how many clients may take part in rounds."""
        return len(self.ids)


@dataclass(frozen=True)
class Family:
    """Several personal models of one client; the rule of scoring.family chooses the one that is reported."""

    members: tuple[str, ...]
    fixed: str  # the member that the rule `fixed` reports
    rule: Literal["common_best", "common_validation", "validation", "oracle", "fixed"] = "fixed"

    @property
    def validates(self) -> bool:
        """Whether the member is chosen by validation data."""
        return self.rule in ("common_validation", "validation")


@dataclass(frozen=True)
class MemoryNeed:
    """Memory that grows with an option or with the federation, stated before anything of that size is built."""

    bytes: int
    accepted: str = ""  # what is accepted instead, where no option decides the size
    option: str = ""  # the option that decides the size; `value` is what it is set to
    value: int = 1
    model: int = 0  # by how many bytes the part of the model grows that travels


COPIES = 3  # copies of a model in training: weights, gradient or momentum, and what is received or sent


class Method(ABC):
    """The base class of methods. A method keeps nothing between calls but what it was built from.

    What the server remembers is the server state, what a client remembers is `client.private`; both are plain named
    tensors and scalars. Replace their tensors, never change them in place. The loop keeps the number of the round in
    `server["round"]`. What is the same for all clients should be the same object in all messages, so that an engine can
    send it once.
    """

    # ------------------------------------------------------------ declarations

    Options: type[Section]  # the options that the method's name takes in brackets
    carries: ClassVar[tuple[str, ...]] = ()  # names of the parts that it can be summed with; ("*",): all
    tells: frozenset[str] = frozenset()  # what clients reveal beside weights and numbers of samples
    uploads: Mapping[str, Rule] = {}  # every field that a reply may have
    pooled = False  # trains one client that holds all clients' data: a reference, not federated learning
    prepares = False  # whether `prepare` and `prepared` are called
    needs_validation = False  # may use clients' validation data to choose by; other methods do not see them
    needs_shared_data = False  # clients get the small balanced set of samples that the federation shares
    needs_classes = False  # its rule is about classes: it cannot predict a number
    assumes_sgd: str = ""  # why its rule holds for steps of SGD alone, as the start of a sentence; empty: it does not
    personalizes: bool = True  # clients have models of their own; False: all are served the server's model
    personal_from_global = (
        False  # never serves a client's last trained model, even where scoring.personal_model says so
    )
    keeps_nothing = False  # clients keep nothing between rounds: only the server's model changes their personal models
    from_counts = False  # can make a new client's model from its class counts alone
    shows: tuple[str, ...] = ()  # metrics whose figures the report shows beside what the method learned
    left_to_auto: Mapping[str, float | str] = {}  # options that were "auto", with their values once it is built
    family: Family | None = None  # set where a client has several personal models, such as SuPerFed

    @property
    def settled_after(self) -> int:
        """Return the last round in which the method is not yet itself, such as the warm start of FedBasis.

        Where rounds end by validation, the models of such a round are not kept.
        """
        return 0

    def __init__(self, net: Net, options: Any, parts: "Sequence[Part]", facts: Facts):
        """Build the method on a net, which it may extend, for a federation with these facts."""
        self.net, self.facts = net, facts

    def refuse(self, facts: Facts) -> str | None:
        """Return one sentence if the experiment lacks what the method needs, else None; called before anything runs."""
        return None

    @classmethod
    def memory(cls, options: Any, net: Net, facts: Facts, model: int) -> MemoryNeed | None:
        """Return the memory that the method needs beyond FedAvg's; None means no more than FedAvg.

        The net has shapes but no weights, which would take `model` bytes.
        """
        return None

    # ------------------------------------------------------------ the server

    @classmethod
    def settled(cls, options: Any, net: Net, facts: Facts) -> Any:
        """Return the options with a value in place of each "auto" that the net or the federation decides.

        Called when the method is built. What only training can tell stays "auto": see `measured`.
        """
        return options

    def measured(self, server: State) -> dict[str, float]:
        """Return the values that options left at "auto" were given by measurement, by the name of the option."""
        return {}

    def automatic(self, server: State) -> dict[str, float | str]:
        """Return the values of all options that were left at "auto", such as {"dbe.kappa": 0.9}, for the record."""
        measured = self.measured(server)
        found = {name: measured.get(name.rpartition(".")[2], value) for name, value in self.left_to_auto.items()}
        return {name: value for name, value in found.items() if value != "auto"}

    @abstractmethod
    def start(self) -> State:
        """Return the server state before the first round. Not called when a run is resumed."""

    @abstractmethod
    def broadcast(self, server: State, client_id: int, scoring: bool = False) -> Message:
        """Return the message for one client; called before the client trains or makes its personal model.

        Messages may differ from client to client. With `scoring` the client will not train, but only make its personal
        model: what training alone needs may be left out, and the personal model must be the same.
        """

    @abstractmethod
    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        """Return the next server state, made from the replies of a round, which come in the order of client ids."""

    @abstractmethod
    def generic(self, server: State) -> Tensor | None:
        """Return the generic (G-FL) model as flat weights of the plain net, or None where the method has none."""

    def weightings(self, field: str) -> Sequence[Weighting]:
        """Return how `aggregate` weights clients in the mean of a field whose rule is `mean`.

        Such fields are added up as replies arrive, so the server must know the weights before.
        """
        return ("samples",)

    def diagnostics(self, server: State) -> dict[str, float]:
        """Return numbers for the round's row in the record; called after each round."""
        return {}

    # ------------------------------------------------------------ after the last round

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        """Return figures of what the method learned, for the report; called at the server after the last round."""
        return []

    def client_snapshot(self, client: Client, message: Message) -> Message:
        """Return what one client gives for `figures_learned`; called in simulations only, never at a real site.

        The message must be small and of new tensors: nothing of it is kept at the client.
        """
        return {}

    @property
    def takes_snapshots(self) -> bool:
        """Return whether the method defines `client_snapshot`."""
        return type(self).client_snapshot is not Method.client_snapshot

    # ------------------------------------------------------------ before the first round

    def prepare(self, client: Client, message: Message) -> Message:
        """Return a client's reply before the first round; called at every training client if `prepares` is set."""
        return {}

    def prepared(self, server: State, replies: Mapping[int, Message]) -> State:
        """Return the server state after the replies of `prepare`."""
        return server

    # ------------------------------------------------------------ a client

    @abstractmethod
    def train(self, client: Client, message: Message) -> Message:
        """Train one client in a round, at the client, and return its reply; it may change `client.private`."""

    def most_batched(self) -> int:
        """Return how many clients `train_batched` may take at once; 1 means that batching gains nothing."""
        return 1

    def train_batched(self, clients: Sequence[Client], messages: Sequence[Message]) -> list[Message | Diverged]:
        """Train several clients as one computation, and return the replies of `train` up to rounding."""
        return [self.train(client, message) for client, message in zip(clients, messages, strict=True)]

    # ------------------------------------------------------------ personal models, made at the client

    @abstractmethod
    def personal(self, client: Client, message: Message) -> Predictor | None:
        """Return the personal (P-FL) model of a client, made at the client; None where the client has none."""

    def member(self, client: Client, message: Message, name: str) -> Predictor:
        """Return one model of the client's `family` of personal models by its name."""
        raise NotImplementedError(f"{type(self).__name__} has a family but no `member`")

    @abstractmethod
    def adapt(self, client: Client, message: Message) -> Predictor:
        """Return the model of a client that took no part in training, after it learned from the client's data."""

    def heads(self, client: Client, message: Message) -> dict[str, Predictor]:
        """Return the personal model as `personal`, and beside it other heads of the same model if it has any."""
        model = self.personal(client, message)
        return {} if model is None else {"personal": model}

    def weights(self, client: Client, message: Message) -> Tensor | None:
        """Return the personal model as flat weights of the plain net for a mean of personal models, or None if it has
        none."""
        return None

    def local_weights(self, client: Client, message: Message) -> Tensor | None:
        """Return the client's own end of a mixture as flat weights of the plain net, or else its personal model.

        It is for figures in the space of weights, such as the line from the generic model to it.
        """
        return self.weights(client, message)

    def after_epochs(self, client: Client, message: Message, epochs: int) -> dict[str, float]:
        """Return numbers about a local training after so many of its epochs, for the metric `within_round`."""
        return {}

    @property
    def own_weights(self) -> slice:
        """Return where the field `w` of a message or reply has the net's own trainable weights."""
        return slice(None)

    def in_head(self, parameter: str) -> bool:
        """Return whether a parameter of a predictor belongs to the head, which is all that `+lp` trains."""
        return matches(parameter.removeprefix("net."), self.net.head_names())
