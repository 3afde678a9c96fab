"""FedAvg (McMahan et al. 2017), and all methods that are FedAvg plus parts."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from motet.config.section import Section
from motet.data import Samples
from motet.errors import Diverged
from motet.messages.message import Message, State, tensor
from motet.messages.replies import Rule, Weighting, average
from motet.methods.base.entry import MethodEntry
from motet.methods.base.learned_figure import Learned, LearnedFigure
from motet.methods.base.local_steps import learn_batched, learn_in_phases
from motet.methods.base.method import Facts, Method
from motet.methods.base.part import ORDER, Part
from motet.methods.base.personal_model import PersonalModel, through
from motet.methods.base.serving import Serving
from motet.methods.base.training import Training
from motet.nets import Net
from motet.training.adaptation import best_on_validation
from motet.training.batched_clients import group_size
from motet.training.client import Client
from motet.training.flat_weights import Layout, is_finite
from motet.training.local import NOT_FINITE, Descent

SERVES_ITS_OWN = frozenset(
    ("personal", "personal_weights", "predictor", "heads", "member", "received", "round_training", "end_round")
)
"""What a subclass changes that gives a client another model than the server's."""


class Averaging(Method):
    """w ← Σ (n_i / n_S) w_i over the cohort; parts correct the local steps and the server's rule."""

    plain_steps: ClassVar[bool] = True
    """A client's steps are FedAvg's and its parts' alone, so that several clients' may be taken as one computation. Not
    inherited: a subclass that changes nothing of a step says so again."""

    personalizes = False
    """Not so in a subclass that changes what a client is served (`SERVES_ITS_OWN`) or has a family of models; one that
    knows better says it."""

    averages: ClassVar[bool] = True  # False: the server does not average the clients' w
    recipe: ClassVar[Literal["samples", "uniform"]] = "samples"  # how the paper's server weights clients

    class Options(Section):
        """Options of `fedavg(...)`."""

        weighting: Literal["auto", "samples", "uniform"] = Field(
            "auto", description="server average by n_i or uniform; auto: as the recipe of the parts says"
        )

    def __init_subclass__(cls, **words: Any) -> None:
        super().__init_subclass__(**words)
        cls.plain_steps = bool(vars(cls).get("plain_steps", False))
        if "personalizes" not in vars(cls):
            own = cls.family is not None or bool(SERVES_ITS_OWN & vars(cls).keys())
            cls.personalizes = cls.personalizes or own

    def __init__(self, net: Net, options: Any, parts: Sequence[Part], facts: Facts):
        super().__init__(net, options, parts, facts)
        self.options = options
        parts = [part.settled(net, facts) for part in parts]  # also those that a method names itself
        parts = [each for part in parts for each in (part, *(more.settled(net, facts) for more in part.brings()))]
        self.parts = parts = tuple(sorted(parts, key=lambda part: ORDER.index(part.acts)))
        self.plain = Layout(net)
        for part in parts:
            part.extend(net)
        added = [name for name, _ in net.named_parameters() if name not in self.plain.places]
        self.layout = Layout(net, [pattern for part in parts for pattern in part.private(net)], added)
        self.fresh = self.layout.flatten(net)
        recipes = {self.recipe, *(part.weighting for part in parts)}
        asked = options.weighting if isinstance(options, Averaging.Options) else "auto"  # not all have it
        uniform = asked == "uniform" or (asked == "auto" and "uniform" in recipes)
        self.weighting: Weighting = "uniform" if uniform else "samples"
        # a part's weighting is for the net's own weights; what parts add to the net is weighted by samples
        self.added_weighting: Weighting = "uniform" if asked == "uniform" else "samples"
        self.personalizes = type(self).personalizes or any(part.personalizes for part in parts)
        self.prepares = any(part.preparation() is not None for part in parts)
        self.needs_shared_data = any(part.needs_shared_data for part in parts)
        self.needs_classes = type(self).needs_classes or any(part.needs_classes for part in parts)
        self.needs_validation = type(self).needs_validation or any(part.needs_validation for part in parts)
        self.assumes_sgd = next(filter(None, (type(self).assumes_sgd, *(part.assumes_sgd for part in parts))), "")
        self.rests = any(part.private_rests for part in parts)
        self.from_counts = any(part.makes_from_counts() for part in parts)
        self.shows = tuple(dict.fromkeys((*type(self).shows, *(name for part in parts for name in part.shows))))
        self.tells = frozenset().union(type(self).tells, *(part.tells for part in parts))
        combines = any(type(part).combine is not Part.combine for part in parts)  # needs every w
        model: dict[str, Rule] = {"w": "each" if combines else "mean", "n": "sum"}
        model = model if self.travels and self.averages else {}
        self.uploads = {**model, **type(self).uploads, **{k: v for part in parts for k, v in part.uploads.items()}}

    @property
    def travels(self) -> bool:
        """Return whether any weights travel."""
        return self.layout.shared.stop > 0

    def refuse(self, facts: Facts) -> str | None:
        if self.rests and not len(self.fresh[self.layout.shared_trainable]):
            return (
                "it trains the net's body alone, and every weight of that is frozen (requires_grad=False); accepted: a "
                "net whose body has weights to train, or a method that trains the head"
            )
        return next((why for part in self.parts if (why := part.refuse(facts))), None)

    # ------------------------------------------------------------ server

    def start(self) -> State:
        server: State = {"w": self.fresh[self.layout.shared].clone()}
        for part in self.parts:
            part.start(self.serving(server))
        return server

    def serving(self, server: State, sent: Tensor | None = None) -> Serving:
        """Return what the parts' hooks at the server may read and change."""
        return Serving(server, self.facts, self.net, self.layout, self.weighting, sent)

    def broadcast(self, server: State, client_id: int, scoring: bool = False) -> Message:
        message: Message = {}
        if self.travels:
            message["w"] = server["w"]
        s = self.serving(server)
        for part in self.parts:
            if part.serves_prediction or not scoring:
                part.broadcast(s, client_id, message)
        return message

    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        server, sent = dict(server), tensor(server, "w")
        s = self.serving(server, sent)
        if self.travels:
            server["w"] = self.layout.keep(self.combined(s, replies).clone(), sent)  # a mean of equal numbers may round
        for part in self.parts:
            part.aggregate(s, replies)
        return server

    def combined(self, s: Serving, replies: Mapping[int, Message]) -> Tensor:
        """Return the mean of the clients' w, or what a part returns in its place."""
        for part in self.parts:
            if (w := part.combine(s, replies)) is not None:
                return w
        return self.averaged(replies)

    def averaged(self, replies: Mapping[int, Message]) -> Tensor:
        """Return the mean of the clients' w; weights that parts added to the net have their own weighting."""
        w, added = average(replies, "w", self.weighting), self.layout.added
        if self.added_weighting != self.weighting and added.stop > added.start:
            w[added] = average(replies, "w", self.added_weighting)[added]
        return w

    def weightings(self, field: str) -> Sequence[Weighting]:
        added = self.layout.added
        if field == "w" and self.added_weighting != self.weighting and added.stop > added.start:
            return (self.weighting, self.added_weighting)
        return (self.weighting,)

    def generic(self, server: State) -> Tensor | None:
        """Return the averaged model; None where clients keep some of the net's own weights, which have no average."""
        kept = self.layout.private.start
        if any(self.layout.places[name].where.start >= kept for name in self.plain.places) and not self.rests:
            return None
        whole = torch.cat([tensor(server, "w"), self.fresh[self.layout.private]])
        return self.layout.convert(whole, self.plain)

    def measured(self, server: State) -> dict[str, float]:
        s = self.serving(server)
        return {name: value for part in self.parts for name, value in part.measured(s).items()}

    def diagnostics(self, server: State) -> dict[str, float]:
        s = self.serving(server)
        return {name: value for part in self.parts for name, value in part.diagnostics(s).items()}

    # ------------------------------------------------------------ after the last round

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        return [picture for part in self.parts for picture in part.figures_learned(learned)]

    def client_snapshot(self, client: Client, message: Message) -> Message:
        """Return the parts' snapshots, made with the received model and the client's private weights in the net."""
        w = self.personal_weights(client.from_the_global_model(), message)
        if w is None:
            return {}
        self.layout.bind(self.net.eval(), w)
        return {name: value for part in self.parts for name, value in part.client_snapshot(client, self.net).items()}

    @property
    def takes_snapshots(self) -> bool:
        of_its_own = type(self).client_snapshot is not Averaging.client_snapshot
        return of_its_own or any(type(part).client_snapshot is not Part.client_snapshot for part in self.parts)

    # ------------------------------------------------------------ before the first round

    def prepare(self, client: Client, message: Message) -> Message:
        """Train one epoch with the parts' `preparation` alone; return the reply and throw the trained weights away."""
        parts = tuple(p for p in (part.preparation() for part in self.parts) if p is not None)
        t = self.training(client, message, parts, client.descent("prepare", epochs=1))
        self.learn(t, client.data.train)
        reply: Message = {"n": client.samples}
        for part in self.parts:
            part.prepare(t, reply)
        return reply

    def prepared(self, server: State, replies: Mapping[int, Message]) -> State:
        server = dict(server)
        for part in self.parts:
            part.prepared(self.serving(server), replies)
        return server

    # ------------------------------------------------------------ client

    def train(self, client: Client, message: Message) -> Message:
        t = self.begin_round(client, message)
        self.learn(t, client.data.train)
        return self.end_round(t)

    def most_batched(self) -> int:
        """Return more than 1 where no part acts on single batches and the net is a sequence of linear layers."""
        alone = any(part.acts in ("samples", "loss", "features") or part.in_phases for part in self.parts)
        return 1 if alone or not self.plain_steps else group_size(self.net, self.layout)

    def train_batched(self, clients: Sequence[Client], messages: Sequence[Message]) -> list[Message | Diverged]:
        ts = [self.begin_round(c, m) for c, m in zip(clients, messages, strict=True)]
        learn_batched(self.net, self.layout, sorted(ts, key=lambda t: -t.descent.count(t.client.samples)))
        return [self._ended(t) if is_finite(t.w) else Diverged(NOT_FINITE) for t in ts]

    def _ended(self, t: Training) -> Message:
        t.rest()  # all clients share the net object: parts must find this client's weights in it
        return self.end_round(t)

    def begin_round(self, client: Client, message: Message) -> Training:
        """Return the training of a round, with the momentum of the client's last one where momentum persists."""
        t = self.round_training(client, message)
        if client.local.momentum_across_rounds == "persist" and "velocity" in client.private:
            t.descent.velocity = tensor(client.private, "velocity").clone()
        return t

    def round_training(self, client: Client, message: Message) -> Training:
        """Return the training of a round: it starts from what the server sent, with all parts."""
        return self.training(client, message, self.parts, client.descent())

    def end_round(self, t: Training) -> Message:
        """Store what the client keeps, and return its reply."""
        client, reply = t.client, Message()
        if self.travels:
            reply["w"], reply["n"] = t.w[self.layout.shared].clone(), client.samples
        for part in self.parts:
            part.after(t, reply)
        if self.layout.size > self.layout.private.start:
            client.private["private"] = t.w[self.layout.private].clone()
        client.offer_model(t.w)
        if client.local.momentum_across_rounds == "persist" and t.descent.velocity is not None:
            client.private["velocity"] = t.descent.velocity
        return reply

    def training(
        self, client: Client, message: Message, parts: tuple[Part, ...], descent: Descent, w: Tensor | None = None
    ) -> Training:
        """Return a training of one client that starts from the received and private weights, or from the weights w."""
        received = self.received(client, message)
        w = received.clone() if w is None else w.clone()
        g, plain = torch.zeros_like(w), self.loss_is_plain(parts)
        t = Training(client, self.net, self.layout, parts, w, g, descent, received, self.loss, plain)
        for part in parts:
            part.before(t, message)
        return t

    def personal_training(self, client: Client, message: Message, w: Tensor, purpose: str, *more: Part) -> Training:
        """Return a training of the client's own weights w, with the parts that serve the client and the parts in
        `more`.

        `t.anchor` is still what the server sent. `purpose` names the randomness.
        """
        return self.training(client, message, (*self.for_the_client, *more), client.descent(purpose), w)

    @property
    def for_the_client(self) -> tuple[Part, ...]:
        """Return the parts that also act when a client adapts."""
        return tuple(part for part in self.parts if part.serves_adaptation)

    def learn(self, t: Training, samples: Samples) -> None:
        """Run the local steps."""
        t.bind()
        for part in t.parts:
            samples = part.samples(t, samples)
        learn_in_phases(t, samples, partial(self.gradient, t))
        t.rest()

    def gradient(self, t: Training, x: Tensor, y: Tensor) -> None:
        """Add to t.g what moves the weights on one batch; called in rounds, in adaptation and in `prepare`."""
        t.backward(x, y)

    def loss(self, t: Training, x: Tensor, y: Tensor) -> Tensor:
        """Return the local objective on one batch."""
        if not _change_the_loss(t.parts):
            return self.net.training_loss(self.net(x), y)
        out = through(self.net, self.parts, x)
        loss = None
        for part in t.parts:
            loss = part.criterion(t, out, y) if loss is None else loss
        loss = self.net.training_loss(out.logits, y) if loss is None else loss
        for part in t.parts:
            loss = part.objective(t, out, y, loss)
        return loss

    def loss_is_plain(self, parts: Sequence[Part]) -> bool:
        """Return whether the local objective with these parts is no more than the net's own loss."""
        return type(self).loss is Averaging.loss and not _change_the_loss(parts)

    def received(self, client: Client, message: Message) -> Tensor:
        """Return all weights: the shared ones as the server sent them, the private ones as the client kept them.

        They may be the message's own: a caller that changes them makes a copy first.
        """
        kept = client.private.get("private", self.fresh[self.layout.private])
        assert isinstance(kept, Tensor)
        if not self.travels:
            return kept.clone()
        sent = tensor(message, "w")
        return torch.cat([sent, kept.to(sent)]) if len(kept) else sent

    # ------------------------------------------------------------ predictions

    def personal(self, client: Client, message: Message) -> nn.Module | None:
        w = self.personal_weights(client, message)
        return None if w is None else self.predictor(client, w)

    def heads(self, client: Client, message: Message) -> dict[str, nn.Module]:
        """Return the personal model; where a part changes its logits, also the model without that change."""
        found = super().heads(client, message)
        model = found.get("personal")
        two = any(type(part).personal_logits is not Part.personal_logits for part in self.parts)
        return {**found, "generic": model.generic_head()} if two and isinstance(model, PersonalModel) else found

    def personal_weights(self, client: Client, message: Message) -> Tensor | None:
        """Return all weights of the client's personal model."""
        if client.data.new and not self.travels:
            return None  # nothing travels, so a new client has no model to start from
        kept = client.kept_model(self.fresh)
        return self.received(client, message) if kept is None else kept

    def weights(self, client: Client, message: Message) -> Tensor | None:
        """Return the personal model's weights of the plain net; weights that parts added are left out."""
        w = self.personal_weights(client, message)
        return None if w is None else self.layout.convert(w, self.plain)

    def adapt(self, client: Client, message: Message) -> nn.Module:
        """Train on the new client's data as clients of the run did, for `adapt.epochs`, and return the model.

        Where no weights travel, it trains from the first weights, for as long as the clients of the run did.
        """
        client = client if self.travels else self.as_long_as_in_the_run(client)
        last = client.adapt.select == "last"
        descent = client.descent("adapt", client.adapt.epochs if last else 1, client.adapt.lr)
        t = self.training(client, message, self.for_the_client, descent)
        if last:
            self.learn(t, client.data.train)
            return self.predictor(client, self.adapted_weights(t))
        learn, snapshot = partial(self.learn, t), lambda: self.adapted_weights(t).clone()
        return self.predictor(client, best_on_validation(client, learn, snapshot, partial(self.predictor, client)))

    def as_long_as_in_the_run(self, client: Client) -> Client:
        """Return the new client with the epochs and learning rate that a client of the run had in all its rounds."""
        local, facts = client.local, self.facts
        turns = facts.rounds * facts.cohort / facts.clients
        each = local.steps / len(client.descent().sizes(client.samples)) if local.steps else local.epochs
        epochs = max(client.adapt.epochs, round(turns * each))
        return client.adapting(epochs=epochs, lr=local.lr)

    def adapted_weights(self, t: Training) -> Tensor:
        """Return the weights of a new client's personal model as its training has made them so far."""
        return t.w

    @property
    def own_weights(self) -> slice:
        return self.layout.shared_trainable

    def predictor(self, client: Client, w: Tensor) -> nn.Module:
        """Return the client's personal model with these weights."""
        self.layout.bind(self.net, w)
        return PersonalModel(self.net, self.parts, client).eval()


def _change_the_loss(parts: Sequence[Part]) -> bool:
    return any(part.acts in ("loss", "features") for part in parts)


ENTRY = MethodEntry("fedavg", "average the clients' models", "McMahan et al. 2017", whole=Averaging, base=True)
