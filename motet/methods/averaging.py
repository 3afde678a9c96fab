"""FedAvg (McMahan et al. 2017), and everything that is FedAvg plus parts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from motet.client import Client
from motet.data import Samples
from motet.errors import Diverged
from motet.local import NOT_FINITE, Descent
from motet.message import Message, State, number, tensor
from motet.methods.method import Facts, Method
from motet.methods.part import Forward, Part, Training
from motet.nets import Net
from motet.settings import Section
from motet.together import ManyNets, descend_together, group_size
from motet.weights import Layout, is_finite


class Averaging(Method):
    """w ← Σ (n_i / n_S) w_i over the cohort; parts correct the local steps and the server's rule."""

    class Options(Section):
        """Options of `fedavg(...)`."""

        weighting: Literal["auto", "samples", "uniform"] = Field(
            "auto", description="server average by n_i or uniform; auto: as the recipe of the parts says"
        )

    def __init__(self, net: Net, options: Options, parts: Sequence[Part]):
        self.net = net
        self.parts = parts = tuple(each for part in parts for each in (part, *part.brings()))
        self.plain = Layout(net)
        for part in parts:
            part.extend(net)
        added = [name for name, _ in net.named_parameters() if name not in self.plain.places]
        self.layout = Layout(net, [pattern for part in parts for pattern in part.private(net)], added)
        self.fresh = self.layout.flatten(net)
        uniform = options.weighting == "uniform" or (
            options.weighting == "auto" and any(part.weighting == "uniform" for part in parts)
        )
        self.weighting = "uniform" if uniform else "samples"
        # a part's recipe is for the net's own weights; what parts add to it keeps the plain rule
        self.added_weighting = "uniform" if options.weighting == "uniform" else "samples"
        self.prepares = any(part.preparation() is not None for part in parts)
        self.needs_shared_data = any(part.needs_shared_data for part in parts)
        self.from_counts = any(part.from_counts for part in parts)

    # ------------------------------------------------------------ server

    def start(self, facts: Facts) -> State:
        server: State = {"w": self.fresh[self.layout.shared].clone()}
        own = self.layout.shared_trainable
        facts = replace(facts, trainable=own.stop - own.start, by_samples=self.weighting == "samples")
        for part in self.parts:
            part.start(server, facts)
        return server

    def broadcast(self, server: State, client_id: int, scoring: bool = False) -> Message:
        message: Message = {}
        if self.layout.shared.stop:
            message["w"] = server["w"]
        for part in self.parts:
            if part.serves_prediction or not scoring:
                part.broadcast(server, client_id, message)
        return message

    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        server, sent = dict(server), tensor(server, "w")
        if self.layout.shared.stop:
            server["w"] = self.averaged(replies)
        for part in self.parts:
            part.aggregate(server, sent, replies)
        return server

    def averaged(self, replies: Mapping[int, Message]) -> Tensor:
        """The mean of what came back; what parts added to the net has a weighting of its own."""
        w, added = average(replies, "w", self.weighting), self.layout.added
        if self.added_weighting != self.weighting and added.stop > added.start:
            w[added] = average(replies, "w", self.added_weighting)[added]
        return w

    def generic(self, server: State) -> Tensor | None:
        if not self.layout.shared.stop:
            return None
        whole = torch.cat([tensor(server, "w"), self.fresh[self.layout.private]])
        return self.layout.convert(whole, self.plain)

    def diagnostics(self, server: State) -> dict[str, float]:
        return {name: value for part in self.parts for name, value in part.diagnostics(server).items()}

    # ------------------------------------------------------------ before the first round

    def prepare(self, client: Client, message: Message) -> Message:
        """One epoch with nothing but the parts' preparations, on weights that are then thrown away."""
        parts = tuple(p for p in (part.preparation() for part in self.parts) if p is not None)
        t = self._training(client, message, parts, client.descent("prepare", epochs=1))
        self.learn(t, client.data.train)
        reply: Message = {"n": client.samples}
        for part in self.parts:
            part.prepare(t, reply)
        return reply

    def prepared(self, server: State, replies: Mapping[int, Message]) -> State:
        server = dict(server)
        for part in self.parts:
            part.prepared(server, replies)
        return server

    # ------------------------------------------------------------ client

    def train(self, client: Client, message: Message) -> Message:
        t = self.begin_round(client, message)
        self.learn(t, client.data.train)
        return self.end_round(t)

    def together(self) -> int:
        """More than one client where the parts leave loss and samples alone, and the net is a row of linear layers."""
        alone = any(part.shapes_loss() or type(part).samples is not Part.samples for part in self.parts)
        return 1 if alone or type(self).train is not Averaging.train else group_size(self.net, self.layout)

    def train_together(self, clients: Sequence[Client], messages: Sequence[Message]) -> list[Message | Diverged]:
        ts = [self.begin_round(c, m) for c, m in zip(clients, messages, strict=True)]
        self.learn_together(sorted(ts, key=lambda t: -t.descent.count(t.client.samples)))
        finite = [is_finite(t.w) for t in ts]
        return [self.end_round(t) if fine else Diverged(NOT_FINITE) for t, fine in zip(ts, finite, strict=True)]

    def begin_round(self, client: Client, message: Message) -> Training:
        """A round's training, with the momentum of the client's last one where that persists."""
        t = self.begin(client, message)
        if client.local.momentum_across_rounds == "persist" and "velocity" in client.private:
            t.descent.velocity = tensor(client.private, "velocity").clone()
        return t

    def end_round(self, t: Training) -> Message:
        """What the client sends back and what it keeps."""
        client, reply = t.client, Message()
        if self.layout.shared.stop:
            reply["w"], reply["n"] = t.w[self.layout.shared].clone(), client.samples
        for part in self.parts:
            part.after(t, reply)
        if self.layout.size > self.layout.private.start:
            client.private["private"] = t.w[self.layout.private].clone()
        if client.pm_source == "last_participation":
            client.private["model"] = t.w
        if client.local.momentum_across_rounds == "persist" and t.descent.velocity is not None:
            client.private["velocity"] = t.descent.velocity
        return reply

    def begin(self, client: Client, message: Message, adapting: bool = False, epochs: int | None = None) -> Training:
        """A training of one client from what the server sent and what the client kept."""
        descent = client.descent("adapt", epochs, client.adapt.lr) if adapting else client.descent()
        parts = tuple(part for part in self.parts if part.serves_adaptation or not adapting)
        return self._training(client, message, parts, descent)

    def _training(self, client: Client, message: Message, parts: tuple[Part, ...], descent: Descent) -> Training:
        w = self.received(client, message)
        t = Training(
            client=client,
            net=self.net,
            layout=self.layout,
            parts=parts,
            w=w,
            g=torch.zeros_like(w),
            descent=descent,
            start=w.clone(),
            objective=self.loss,
        )
        for part in parts:
            part.before(t, message)
        return t

    def learn(self, t: Training, samples: Samples) -> None:
        """The local steps."""
        self.layout.bind(self.net, t.w, t.g)
        self.net.train()
        moving = self.layout.trainable
        for part in t.parts:
            samples = part.samples(t, samples)

        def gradient(x: Tensor, y: Tensor) -> None:
            t.loss(x, y).backward()  # type: ignore[no-untyped-call]
            for part in t.parts:
                part.correct(t)

        t.descent.run(samples, t.w[moving], t.g[moving], gradient)

    def learn_together(self, ts: Sequence[Training]) -> None:
        """The local steps of several clients, those with most steps first, as one computation."""
        w = torch.stack([t.w for t in ts])
        g = torch.zeros_like(w)
        correcting = any(type(part).correct is not Part.correct for part in self.parts)
        nets = ManyNets(self.net, self.layout, w, g)
        for t, row, g_row in zip(ts, w, g, strict=True):
            t.w, t.g = row, g_row

        def gradient(x: Tensor, y: Tensor, share: Tensor) -> None:
            nets.add_gradient(x, y, share)
            for t in ts[: len(x)] if correcting else ():
                for part in t.parts:
                    part.correct(t)

        descend_together([t.descent for t in ts], [t.client.data.train for t in ts], w, g, gradient)
        for t in ts:
            t.w = t.w.clone()  # what is kept of it shall not keep the others'

    def loss(self, t: Training, x: Tensor, y: Tensor) -> Tensor:
        """The local objective on one batch."""
        if not any(part.shapes_loss() for part in t.parts):
            return cross_entropy(self.net(x), y)
        out = self.forward(x)
        loss = None
        for part in t.parts:
            loss = part.criterion(t, out, y) if loss is None else loss
        loss = cross_entropy(out.logits, y) if loss is None else loss
        for part in t.parts:
            loss = part.objective(t, out, y, loss)
        return loss

    def forward(self, x: Tensor) -> Forward:
        """One batch through body, the parts' features and head."""
        raw = z = self.net.body(x)
        for part in self.parts:
            z = part.features(self.net, z)
        return Forward(x, raw, z, self.net.head(z))

    def received(self, client: Client, message: Message) -> Tensor:
        """Whole weights: the shared part as sent, the private part as the client kept it."""
        kept = client.private.get("private", self.fresh[self.layout.private])
        assert isinstance(kept, Tensor)
        return torch.cat([tensor(message, "w"), kept]) if self.layout.shared.stop else kept.clone()

    # ------------------------------------------------------------ predictions

    def personal(self, client: Client, message: Message) -> nn.Module | None:
        if client.data.new and not self.layout.shared.stop:
            return None  # nobody hands a new client a model
        w = self.received(client, message)
        if client.pm_source == "last_participation" and "model" in client.private:
            w = tensor(client.private, "model")
        elif client.pm_source == "last_participation" and client.never_sampled == "initial" and not client.data.new:
            w = self.fresh.clone()
        return self.predictor(client, w)

    def adapt(self, client: Client, message: Message) -> nn.Module:
        """The method's own local training on the new client's data, for `adapt.epochs`."""
        if client.adapt.select == "last":
            t = self.begin(client, message, adapting=True, epochs=client.adapt.epochs)
            self.learn(t, client.data.train)
            return self.predictor(client, t.w)
        return self._adapt_with_validation(client, message)

    def _adapt_with_validation(self, client: Client, message: Message) -> nn.Module:
        """The best epoch's model, judged on a tenth of the client's training data."""
        order = torch.randperm(client.samples, generator=client.rng("adapt-validation"))
        held = max(1, client.samples // 10)
        t = self.begin(client, message, adapting=True, epochs=1)
        best, best_right = t.w.clone(), self._right(client, t.w, client.data.train.take(order[:held]))
        for _ in range(client.adapt.epochs):
            self.learn(t, client.data.train.take(order[held:]) if held < client.samples else client.data.train)
            right = self._right(client, t.w, client.data.train.take(order[:held]))
            if right >= best_right:
                best, best_right = t.w.clone(), right
        return self.predictor(client, best)

    def _right(self, client: Client, w: Tensor, samples: Samples) -> int:
        predict = self.predictor(client, w)
        with torch.no_grad():
            return sum(int((predict(x).argmax(1) == y).sum()) for x, y in samples.all_batches(1000))

    def predictor(self, client: Client, w: Tensor) -> nn.Module:
        """The client's personal model with these whole weights."""
        self.layout.bind(self.net, w)
        return PersonalModel(self, [part.note(client) for part in self.parts]).eval()


class PersonalModel(nn.Module):
    """Body, the parts' features, head, the parts' personal logits."""

    def __init__(self, method: Averaging, notes: Sequence[Tensor | None]):
        super().__init__()
        self.net = method.net
        self._method, self.notes = [method], notes  # in a list: the method is no submodule

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a prepared batch."""
        method = self._method[0]
        out = method.forward(x)
        for part, note in zip(method.parts, self.notes, strict=True):
            out = replace(out, logits=part.personal_logits(method.net, out, note))
        return out.logits


def average(replies: Mapping[int, Message], name: str, weighting: str = "samples") -> Tensor:
    """The mean of one field over the replies, by samples or uniform, summed in the order of client ids."""
    shares = [number(r, "n") if weighting == "samples" else 1.0 for r in replies.values()]
    total = torch.zeros_like(tensor(next(iter(replies.values())), name))
    for reply, share in zip(replies.values(), shares, strict=True):
        total.add_(tensor(reply, name), alpha=share / sum(shares))
    return total
