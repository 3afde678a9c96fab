"""What a client does for each kind of task: the one place where method, data and scoring meet.

Every engine passes tasks to a `Workplace`, which makes the models of clients; `motet/metrics/client_scores.py` scores
them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from torch import Tensor, nn

from motet.config.experiment import Experiment
from motet.data import ClientData, FederationFacts, Holdings
from motet.errors import Diverged
from motet.messages.attacks import attack_of
from motet.messages.message import Message, State, number, tensor
from motet.messages.task import EVERY_TASK, Outcome, Task, TaskKind
from motet.messages.transform import Transform, added_up, pack_reply
from motet.messages.transforms import build_transforms
from motet.methods.base import Method
from motet.metrics.client_scores import Common, Scorer
from motet.metrics.names import AFTER, BEFORE, GENERIC, PERSONAL, member, variant
from motet.metrics.pairs import compared
from motet.metrics.registry import run_metrics_of
from motet.metrics.run_metric import ClientScope
from motet.nets import Net
from motet.training.client import Client, RunContext
from motet.training.flat_weights import Layout, is_finite, let_go
from motet.training.personal_model_policy import PersonalModelPolicy

WHICH, MEMBER = "metric.which", "metric.member"  # in a `run_metric` task: index of the metric, of the family member
SCORED: tuple[TaskKind, ...] = (
    "score",
    "sync_score",
    "adapt",
    "run_metric",
)  # tasks in which the scorer needs all data
POOLED = -1  # the id of the one client that holds everybody's data, for the centralized baseline


@dataclass
class Workplace:
    """The data of clients and a method: performs tasks as the experiment says."""

    experiment: Experiment
    method: Method
    generic_net: Net  # a plain net of its own, for the generic model
    holdings: Holdings
    facts: FederationFacts
    allowed: frozenset[TaskKind] = EVERY_TASK  # kinds of tasks that are performed; a real site passes SITE_TASKS
    secret: bytes = b""  # a real site's own random bytes, from which its keys and its noise come

    def perform(self, task: Task, private: State) -> Outcome:
        """Do one task with the client's private state; a client that diverges fails and its state does not change."""
        if task.kind not in self.allowed:
            return task.failed(f"{task.kind} tasks are not served here; accepted: {', '.join(sorted(self.allowed))}")
        client = self.client(task, self._to_device(private))
        self.method.net.train(task.kind in ("prepare", "train"))  # whatever mode the last task left
        try:
            reply: Message | Diverged = self._kinds[task.kind](client, self._to_device(task.build_message()))
        except Diverged as failure:
            reply = failure
        return self._outcome(task, client, reply)

    def perform_group(self, tasks: Sequence[Task], privates: Sequence[State]) -> list[Outcome]:
        """Do the tasks of several clients, trainings as one batched computation; one task alone as in `perform`."""
        if len(tasks) == 1 or not all(task.kind in self.allowed for task in tasks):
            return [self.perform(task, private) for task, private in zip(tasks, privates, strict=True)]
        clients = [self.client(task, self._to_device(private)) for task, private in zip(tasks, privates, strict=True)]
        messages = [self._to_device(task.build_message()) for task in tasks]
        self.method.net.train()
        replies = self.method.train_batched(clients, messages)
        sent = [self._sent(*of) for of in zip(clients, messages, replies, strict=True)]
        return [self._outcome(*of) for of in zip(tasks, clients, sent, strict=True)]

    def let_go(self) -> None:
        """Keep no model's memory until the next task, which binds its nets to the weights that it brings."""
        _ = self.generic_layout  # reads the net
        let_go(self.method.net)
        let_go(self.generic_net)

    @property
    def most_batched(self) -> int:
        """The largest number of clients that may be trained as one batched computation."""
        local = self.experiment.local
        return self.method.most_batched() if local.batched_clients and not local.clip else 1

    def samples_of(self, client_id: int) -> int:
        """Return how many training samples a client has, to estimate the time of its tasks; 0 for the pooled client."""
        return 0 if client_id == POOLED else self.facts.by_id[client_id].train

    def _outcome(self, task: Task, client: Client, reply: Message | Diverged) -> Outcome:
        if isinstance(reply, Diverged):
            return task.failed(str(reply))
        reply = {name: v.detach().cpu() if isinstance(v, Tensor) else v for name, v in reply.items()}
        if task.kind != "train":
            return task.answered(reply)
        loss = client.train_loss.mean() if self.experiment.scoring.train_loss else None
        return task.answered(reply, client.private, loss)

    def client(self, task: Task, private: State) -> Client:
        """Return the client of a task as its method sees it."""
        data = self.holdings.pooled() if task.client_id == POOLED else self.holdings.clients[task.client_id]
        client = self.client_of(data, task.round, private)
        return client if task.kind in SCORED else self.shown(client)

    def shown(self, client: Client) -> Client:
        """Return the client without the data that its method must not see.

        Test data are for the scorer alone. Validation data are shown to methods that declare that they need them, and
        to new clients that choose their epoch on the validation data of their domain.
        """
        chooses = client.data.new and client.data.shares_val and client.adapt.select == "best_on_validation"
        return replace(client, data=client.data.shown(self.method.needs_validation or chooses))

    def client_of(self, data: ClientData, round: int, private: State) -> Client:
        """Return a client with these data, as the experiment configures it."""
        source = "last_participation" if self.policy.keeps_last_model else self.policy.asked[0]
        return Client(data, round, self.context, private, source)

    @cached_property
    def policy(self) -> PersonalModelPolicy:
        """The rule that decides which models of clients are scored."""
        return PersonalModelPolicy.of(self.experiment.scoring, self.method)

    @cached_property
    def context(self) -> RunContext:
        """The settings that every client of the run shares."""
        return RunContext(
            self.facts.classes,
            self.experiment.seed,
            self.experiment.local,
            self.experiment.adapt,
            self.policy,
            self.holdings.shared_data() if self.method.needs_shared_data else None,
            self.method.net.normalizes_batches,
            self.method.facts.cohort,
            added_up(self.method.uploads, self.method.weightings),
            self.secret,
        )

    @cached_property
    def transforms(self) -> tuple[Transform, ...]:
        """The transforms of a training's reply, applied before it leaves the client."""
        return build_transforms(self.experiment.transforms)

    @cached_property
    def attack(self) -> tuple[Transform, ...]:
        """The transforms by which malicious clients falsify their replies, applied before all others."""
        data = self.experiment.data
        return attack_of(data.attack, self.method.facts.cohort) if data.malicious else ()

    # ------------------------------------------------------------ kinds of tasks

    @property
    def _kinds(self) -> dict[TaskKind, Callable[[Client, Message], Message]]:
        return {
            "introduce": lambda client, _: self.introduction(client),
            "prepare": self.method.prepare,
            "train": self._train,
            "score": self._score,
            "sync_score": self._sync_score,
            "adapt": self._adapt,
            "export": self._export,
            "client_snapshot": self.method.client_snapshot,
            "run_metric": self._measure,
        }

    def introduction(self, client: Client) -> Message:
        """Return what the transforms must know of a client before its first training, such as its public key."""
        return {name: value for transform in self.transforms for name, value in transform.introduce(client).items()}

    def _train(self, client: Client, message: Message) -> Message:
        reply = self._sent(client, message, self.method.train(client, message))
        if isinstance(reply, Diverged):
            raise reply
        return reply

    def _sent(self, client: Client, message: Message, reply: Message | Diverged) -> Message | Diverged:
        """Return a training's reply as it leaves the client: attacked and transformed, or `Diverged` if not finite."""
        reply = reply if isinstance(reply, Diverged) else _finite(reply)
        if isinstance(reply, Diverged):
            return reply
        transforms = (*self.attack, *self.transforms) if client.data.malicious else self.transforms
        try:
            return pack_reply(transforms, client, message, reply)
        except Diverged as failure:
            return failure

    def _export(self, client: Client, message: Message) -> Message:
        """Return the weights of the client's personal model, for the mean over clients (`scoring.derived_generic`)."""
        weights = self.method.weights(client, message)
        reply = _finite({} if weights is None else {"w": weights, "n": client.samples})
        if isinstance(reply, Diverged):
            raise reply
        return reply

    def _score(self, client: Client, message: Message) -> Message:
        """Return scores of the generic and the personal models; class counts do not leave the client."""
        return self._scores(client, message)

    def _sync_score(self, client: Client, message: Message) -> Message:
        """Return the same scores, with one more local training for `final_sync` models."""
        return self._scores(client, message, sync=True)

    def _scores(self, client: Client, message: Message, sync: bool = False) -> Message:
        reply = self.scorer.sizes(client) | self.scorer.majority(client) | self._score_generic(client, message)
        for name, source in self.policy.scored.items():
            at_the_end = source == "final_sync"
            if at_the_end and name != PERSONAL and not sync:
                continue  # the extra training is done only after the last round
            reply |= self._score_personal(name, client.reading(source), message, sync=sync and at_the_end)
        return compared(reply)

    def _adapt(self, client: Client, message: Message) -> Message:
        """Return a new client's scores before and after adaptation."""
        reply, common = self.scorer.sizes(client), _asked(message)
        reply |= self._score_model(BEFORE, partial(self.method.personal, self.shown(client), message), client, common)
        for i, selection in enumerate(client.adapt.selections):
            name = variant(AFTER, selection) if i else AFTER
            self.method.net.train()
            adapt = partial(self.method.adapt, self.shown(client.selecting(selection)), message)
            reply |= self._score_model(name, adapt, client, common)
        return compared(reply)

    def _trained(self, client: Client, message: Message) -> nn.Module | None:
        """Return the client's model after one more local training; nothing of it is stored."""
        return self.method.personal(self.shown(self.trained_once_more(client, message)), message)

    def _own_weights(self, client: Client, message: Message, trained: bool) -> Tensor | None:
        """Return the client's own weights of the plain net, as it has them or after one more local training."""
        client = self.trained_once_more(client, message) if trained else self.read(client, message)
        return self.method.local_weights(self.shown(client), message)

    def _after_epochs(self, client: Client, message: Message, epochs: int) -> Mapping[str, float]:
        self.method.net.train()
        return self.method.after_epochs(self.shown(client.reading(client.source)), message, epochs)

    def _bound(self, w: Tensor) -> Net:
        """Return the plain net with these weights."""
        self.generic_layout.bind(self.generic_net.eval(), w)
        return self.generic_net

    def _adapted(self, client: Client, message: Message, epochs: int, lr: float) -> nn.Module:
        """Return a new client's model after so many epochs of adaptation."""
        self.method.net.train()
        apart = client.reading(client.source)  # what it stores must not reach the next number of epochs
        return self.method.adapt(self.shown(apart.adapting(epochs=epochs, lr=lr, select="last")), message)

    def _measure(self, client: Client, message: Message) -> Message:
        """Return a client's reply to a run metric, which may hold more than scores and is for simulations only."""
        scoring = self.experiment.scoring
        metrics = run_metrics_of((*scoring.metrics, *self.method.shows), scoring.threshold)
        clients = self.holdings.clients
        there = clients.items() if isinstance(clients, Mapping) else enumerate(clients)
        heads, generic = partial(self._heads, client, message), partial(self._generic_model, message)
        here = ClientScope(
            client,
            message,
            generic,
            heads,
            dict(there),
            self.holdings.common_test,
            trained=partial(self._trained, client, message),
            own_weights=partial(self._own_weights, client, message),
            bound=self._bound,
            after_epochs=partial(self._after_epochs, client, message),
            adapted=partial(self._adapted, client, message),
        )
        return metrics[int(number(message, WHICH))].at_client(here)

    # ------------------------------------------------------------ making the models that are scored

    @cached_property
    def scorer(self) -> Scorer:
        """The scorer of models on the data of clients; a real site tells nobody the score of each row."""
        scoring = self.experiment.scoring
        if scoring.pooling == "exact" and not self.allowed >= EVERY_TASK:
            scoring = scoring.model_copy(update={"pooling": "none"})
        return Scorer(self.holdings, scoring)

    @cached_property
    def generic_layout(self) -> Layout:
        """The layout of the generic net's flat weights."""
        return Layout(self.generic_net)

    def read(self, client: Client, message: Message) -> Client:
        """Return the client with the personal model that is reported first, served and exported."""
        client = client.reading(self.policy.headline)
        return self.trained_once_more(client, message) if client.source == "final_sync" else client

    def trained_once_more(self, client: Client, message: Message) -> Client:
        """Return the client after one more local training from the message; its stored state does not change."""
        client = client.reading("last_participation")
        trained = self.shown(client)
        self.method.net.train()
        self.method.train(trained, message)
        self.method.net.eval()
        return replace(client, private=trained.private)

    def _heads(self, client: Client, message: Message) -> Mapping[str, nn.Module]:
        """Return the personal model of the headline under `PERSONAL`, and its other heads by name."""
        if client.data.new:  # as it is served before it adapts
            return self.method.heads(self.shown(client), message)
        client = self.shown(self.read(client, message))
        if self.method.family:
            name = self.method.family.members[int(number(message, MEMBER))]
            return {PERSONAL: self.method.member(client, message, name)}
        return self.method.heads(client, message)

    def _generic_model(self, message: Message) -> Net | None:
        """Return the generic net with the weights in the message, or None if it has none."""
        where = "w" if message.get("score.generic_is_w") else "score.generic"
        if where not in message:
            return None
        self.generic_layout.bind(self.generic_net.eval(), tensor(message, where))
        return self.generic_net

    def _score_generic(self, client: Client, message: Message) -> Message:
        model = self._generic_model(message)
        if model is None:
            return {}
        own = self.scorer.on_own_data(GENERIC, model, client)
        return own | self.scorer.generic_as_told(client, message)

    def _score_personal(self, name: str, client: Client, message: Message, sync: bool) -> Message:
        """Return the scores of the personal model, or of each member of the method's family."""
        members = self.method.family.members if self.method.family and name == PERSONAL else ()
        common = _asked(message)
        if members and common == "all":
            common = "held"  # a pass over all data for each member would cost more than the training
        names = [member(one) for one in members] or [name]
        if sync:
            try:
                client = self.trained_once_more(client, message)
            except Diverged:
                return {k: v for one in names for k, v in self.scorer.nothing_right(one, client, common).items()}
        shown = self.shown(client)
        if not members:
            reply = self._score_model(name, partial(self.method.personal, shown, message), client, common)
            return reply | (self._score_heads(shown, message, client, common) if name == PERSONAL else {})
        reply = {}
        for one in members:
            reply |= self._score_model(member(one), partial(self.method.member, shown, message, one), client, common)
        return reply

    def _score_heads(self, shown: Client, message: Message, client: Client, common: Common) -> Message:
        """Return the scores of other heads of the personal model, where the experiment asks for them."""
        reply: Message = {}
        if self.experiment.scoring.heads:
            try:
                heads = self.method.heads(shown, message)
            except Diverged:
                return reply
            for head in sorted(heads.keys() - {PERSONAL}):
                reply |= self.scorer.score(variant(PERSONAL, f"{head}_head"), heads[head], client, common)
        return reply

    def _score_model(self, name: str, make: Callable[[], nn.Module | None], client: Client, common: Common) -> Message:
        """Return the scores of the model that `make` returns; a model that diverges has nothing right."""
        try:
            model = make()
        except Diverged:
            return self.scorer.nothing_right(name, client, common)
        return {} if model is None else self.scorer.score(name, model, client, common)

    def _to_device(self, state: State) -> State:
        """Return a message or private state with its float tensors on the device of the experiment."""
        device = self.experiment.device
        floating = {n: v for n, v in state.items() if isinstance(v, Tensor) and v.is_floating_point()}
        return state | {name: value.to(device) for name, value in floating.items()}


def _asked(message: Message) -> Common:
    """Return how much of the common test set a message asks a client to score."""
    if not message.get("score.common", True):
        return "no"
    return "all" if message.get("score.whole", False) else "held"


def _finite(reply: Message) -> Message | Diverged:
    """Return the reply, or `Diverged` if one of its tensors holds NaN or infinity."""
    for name, value in reply.items():
        if isinstance(value, Tensor) and value.is_floating_point() and not is_finite(value):
            return Diverged(f"the reply's {name!r} holds NaN or infinity")
    return reply
