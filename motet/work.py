"""What a client does for each kind of task: the one place where method, data and scoring meet.

Every engine carries tasks to a `Workplace` and its outcomes back; none of them knows what the work means.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from motet.client import AdaptSettings, Client
from motet.contract import Method
from motet.data import ClientData, FederationFacts, Holdings, Samples
from motet.engines.engine import Kind, Outcome, Task, each_alone
from motet.errors import Diverged
from motet.local import LocalSettings
from motet.message import Message, State, tensor
from motet.nets import Net
from motet.post import Post, packed
from motet.scoring import ScoringSettings, accuracy, class_weighted, right_per_class
from motet.weights import Layout, is_finite

LEAST_GROUPS = 4  # so that several cores have work
POOLED = -1  # the id of the one client that holds everybody's data, for the centralized yardstick


@dataclass
class Workplace:
    """Clients' data and a method, ready to work."""

    method: Method
    generic_net: Net  # a plain net of its own, for the generic model
    holdings: Holdings
    facts: FederationFacts
    seed: int
    local: LocalSettings
    adapt: AdaptSettings
    scoring: ScoringSettings
    device: str = "cpu"
    posts: tuple[Post, ...] = ()

    def perform(self, task: Task, private: State) -> Outcome:
        """Do the task for one client with its private state; a diverged client changes nothing."""
        client = self.client(task, dict(private))
        try:
            reply: Message | Diverged = self._kinds[task.kind](client, self._here(task.write()))
        except Diverged as failure:
            reply = failure
        return self._outcome(task, client, reply)

    def perform_together(self, tasks: Sequence[Task], privates: Sequence[State]) -> list[Outcome]:
        """The same for clients that `groups` put together; one alone is trained as in `perform`."""
        if len(tasks) == 1:
            return [self.perform(tasks[0], privates[0])]
        clients = [self.client(task, dict(private)) for task, private in zip(tasks, privates, strict=True)]
        messages = [self._here(task.write()) for task in tasks]
        replies = self.method.train_together(clients, messages)
        sent = [self._sent(*of) for of in zip(clients, messages, replies, strict=True)]
        return [self._outcome(*of) for of in zip(tasks, clients, sent, strict=True)]

    @property
    def together(self) -> int:
        """How many clients may be trained as one computation."""
        return self.method.together() if self.local.together and not self.local.clip else 1

    def groups(self, tasks: Sequence[Task]) -> list[list[int]]:
        """Which tasks are done as one, those with most samples first; the same for the same tasks on any machine."""
        train = bool(tasks) and tasks[0].kind == "train"
        size = min(self.together, -(-len(tasks) // LEAST_GROUPS)) if train else 1
        if size == 1:
            return each_alone(tasks)
        order = sorted(range(len(tasks)), key=lambda i: -self._samples(tasks[i].client_id))
        return [order[at : at + size] for at in range(0, len(order), size)]

    def _samples(self, client_id: int) -> int:
        return 0 if client_id == POOLED else self.facts.by_id[client_id].train

    def _outcome(self, task: Task, client: Client, reply: Message | Diverged) -> Outcome:
        if isinstance(reply, Diverged):
            return task.failed(str(reply))
        reply = {name: v.detach().cpu() if isinstance(v, Tensor) else v for name, v in reply.items()}
        return task.answered(reply, client.private if task.kind == "train" else None)

    def client(self, task: Task, private: State) -> Client:
        """The client of a task as its method sees it."""
        data = self.holdings.pooled() if task.client_id == POOLED else self.holdings.clients[task.client_id]
        return self.client_of(data, task.round, private)

    def client_of(self, data: ClientData, round: int, private: State) -> Client:
        """A client that holds this data."""
        return Client(
            data,
            self.facts.classes,
            round,
            self.seed,
            self.local,
            self.adapt,
            private,
            self.scoring.pm_source,
            self.scoring.never_sampled,
            self.holdings.shared_data() if self.method.needs_shared_data else None,
            self.method.net.normalizes_batches,
        )

    # ------------------------------------------------------------ kinds of tasks

    @property
    def _kinds(self) -> dict[Kind, Callable[[Client, Message], Message]]:
        return {
            "prepare": self.method.prepare,
            "train": self._train,
            "score": self._score,
            "sync_score": self._sync_score,
            "adapt": self._adapt,
        }

    def _train(self, client: Client, message: Message) -> Message:
        reply = self._sent(client, message, self.method.train(client, message))
        if isinstance(reply, Diverged):
            raise reply
        return reply

    def _sent(self, client: Client, message: Message, reply: Message | Diverged) -> Message | Diverged:
        """A training's reply as it leaves the client."""
        reply = reply if isinstance(reply, Diverged) else _finite(reply)
        return reply if isinstance(reply, Diverged) else packed(self.posts, client, message, reply)

    def _score(self, client: Client, message: Message) -> Message:
        """Accuracies of the generic and the personal model; class counts stay here, only scores leave."""
        reply = self._score_generic(client, message)
        return reply | self._score_personal(client, message)

    def _sync_score(self, client: Client, message: Message) -> Message:
        """The same after one more local training from the final global model (`final_sync`)."""
        reply = self._score_generic(client, message)
        client.pm_source = "last_participation"
        try:
            self.method.train(client, message)
        except Diverged:
            names = [f"member.{name}" for name in self._members] or ["personal"]
            return reply | {k: v for name in names for k, v in self._nothing_right(name, client, common=True).items()}
        return reply | self._score_personal(client, message)

    def _adapt(self, client: Client, message: Message) -> Message:
        """A new client's scores before and after adaptation."""
        reply = self._score_model("before", partial(self.method.personal, client, message), client)
        return reply | self._score_model("after", partial(self.method.adapt, client, message), client)

    # ------------------------------------------------------------ scoring

    @property
    def _members(self) -> tuple[str, ...]:
        return self.method.family.members if self.method.family else ()

    def _score_generic(self, client: Client, message: Message) -> Message:
        reply: Message = {"n": client.samples, "n.split": len(client.data.test), "n.validation": len(client.data.val)}
        where = "w" if message.get("score.generic_is_w") else "score.generic"
        if where not in message:
            return reply
        Layout(self.generic_net).bind(self.generic_net, tensor(message, where))
        reply |= self._score_splits("generic", self.generic_net, client)
        if "score.generic.right" in message:
            right, counts = tensor(message, "score.generic.right"), tensor(message, "score.common.counts")
            self._put(reply, "generic.weighted", self._weighted(right, counts, client))
        return reply

    def _score_personal(self, client: Client, message: Message) -> Message:
        """The personal model, or each member of the method's family of them."""
        common = bool(message.get("score.common", True))
        if self.method.family is None:
            return self._score_model("personal", partial(self.method.personal, client, message), client, common)
        reply: Message = {}
        for name in self._members:
            member = partial(self.method.member, client, message, name)
            reply |= self._score_model(f"member.{name}", member, client, common)
        return reply

    def _score_model(
        self, name: str, make: Callable[[], nn.Module | None], client: Client, common: bool = True
    ) -> Message:
        """A model's scores, where the client first has to make it."""
        try:
            model = make()
        except Diverged:
            return self._nothing_right(name, client, common)
        if model is None:
            return {}
        reply = self._score_splits(name, model, client)
        test = self.holdings.common_test(client.data) if common else None
        if test is None:
            return reply
        counts = test.counts(client.classes)
        held = test.classes_only(client.counts > 0)  # other classes weigh nothing for this client
        right = right_per_class(model, held, client.classes)
        self._put(reply, f"{name}.weighted", self._weighted(right, counts, client))
        return reply

    def _nothing_right(self, name: str, client: Client, common: bool) -> Message:
        """The scores of a model that left the finite numbers: leaving such clients out would flatter the others."""
        tests = {"weighted": common, "split": bool(len(client.data.test)), "validation": bool(len(client.data.val))}
        reply: Message = {f"{name}.{test}": 0.0 for test, there in tests.items() if there}
        return reply | {f"{name}.diverged": True}

    def _score_splits(self, name: str, model: nn.Module, client: Client) -> Message:
        reply: Message = {}
        splits: dict[str, Samples] = {"split": client.data.test, "validation": client.data.val}
        for split, samples in splits.items():
            right = right_per_class(model, samples, client.classes)
            self._put(reply, f"{name}.{split}", accuracy(right, samples.counts(client.classes)))
        return reply

    def _weighted(self, right: Tensor, counts: Tensor, client: Client) -> float | None:
        return class_weighted(right, counts, client.counts, self.scoring.class_weights == "count_corrected")

    @staticmethod
    def _put(reply: Message, name: str, value: float | None) -> None:
        if value is not None:
            reply[name] = value

    def _here(self, message: Message) -> Message:
        """On the device where the work is done."""
        floating = {n: v for n, v in message.items() if isinstance(v, Tensor) and v.is_floating_point()}
        return message | {name: value.to(self.device) for name, value in floating.items()}


def _finite(reply: Message) -> Message | Diverged:
    for name, value in reply.items():
        if isinstance(value, Tensor) and value.is_floating_point() and not is_finite(value):
            return Diverged(f"the reply's {name!r} holds NaN or infinity")
    return reply
