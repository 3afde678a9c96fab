"""Methods with one mistake each, of the kind that ruins a paper; and what `check_method` says of it."""

import random
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from motet.data import Samples
from motet.messages.message import Message, State, number, tensor
from motet.methods.averaging import Averaging
from motet.methods.base import Part, Serving, Training, average
from motet.methods.base.method import Rule
from motet.methods.base.part import Acts, Forward
from motet.training.client import Client
from motet.training.local import Descent

# ---------------------------------------------------------------- data that are not for it


class TrainsOnTest(Averaging):
    """Adds the client's test split to what it learns from."""

    def train(self, client: Client, message: Message) -> Message:
        t = self.begin_round(client, message)
        self.learn(t, Samples.union([client.data.train, client.data.test]))
        return self.end_round(t)


class TrainsOnTestAlone(Averaging):
    """Learns from the test split, if there is one."""

    def train(self, client: Client, message: Message) -> Message:
        t = self.begin_round(client, message)
        self.learn(t, client.data.test if len(client.data.test) else client.data.train)
        return self.end_round(t)


def right(model: nn.Module, samples: Samples) -> float:
    x, y = samples.batch(torch.arange(len(samples)))
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())


class ChoosesByTest(Averaging):
    """Serves the local or the global model, whichever is better on the client's test data."""

    def personal(self, client: Client, message: Message) -> nn.Module | None:
        own = super().personal(client, message)
        assert own is not None
        mine = right(own, client.data.test)
        other = super().personal(client.from_the_global_model(), message)
        assert other is not None
        return other if right(other, client.data.test) > mine else super().personal(client, message)


class TrainsOnValidation(Averaging):
    """Adds the validation split to what it learns from."""

    def train(self, client: Client, message: Message) -> Message:
        t = self.begin_round(client, message)
        self.learn(t, Samples.union([client.data.train, client.data.val]))
        return self.end_round(t)


class ChoosesByValidation(Averaging):
    """Keeps the better of two trainings by validation data, and does not say so."""

    def train(self, client: Client, message: Message) -> Message:
        t = self.begin_round(client, message)
        before = right(self.predictor(client, t.w), client.data.val)
        self.learn(t, client.data.train)
        if right(self.predictor(client, t.w), client.data.val) < before:
            t.w.copy_(t.start)
        return self.end_round(t)


class TrainsOnDeclaredValidation(Averaging):
    """Declares that it chooses by validation data, and trains on them."""

    needs_validation = True

    def train(self, client: Client, message: Message) -> Message:
        t = self.begin_round(client, message)
        self.learn(t, Samples.union([client.data.train, client.data.val]))
        return self.end_round(t)


class AdaptsOnTest(Averaging):
    """A newcomer keeps the adapted model only where its test data say so."""

    def adapt(self, client: Client, message: Message) -> nn.Module:
        model = super().adapt(client, message)
        right(model, client.data.test)
        return model


class CountsOverAllSplits(Part):
    """Looks up class counts over test data too."""

    def before(self, t: Training, message: Message) -> None:
        t["counts"] = t.client.data.counts(t.client.classes).to(t.w)


# ---------------------------------------------------------------- what leaves a client


class Tells(Part):
    """Sends something."""

    uploads: ClassVar[Mapping[str, Rule]] = {"tells.it": "each"}

    def it(self, client: Client) -> Tensor | float:
        raise NotImplementedError

    def after(self, t: Training, reply: Message) -> None:
        reply["tells.it"] = self.it(t.client)


def everything(client: Client) -> tuple[Tensor, Tensor]:
    return client.data.train.batch(torch.arange(client.samples))


class TellsMeanImage(Tells):
    """A prototype of the client: the mean of its images."""

    def it(self, client: Client) -> Tensor:
        return everything(client)[0].mean(0)


class TellsClassMeans(Tells):
    """A prototype of each class, in the space of images."""

    def it(self, client: Client) -> Tensor:
        x, y = everything(client)
        return torch.stack([x[y == c].flatten(1).sum(0) / max(1, int((y == c).sum())) for c in range(client.classes)])


class TellsScaledSample(Tells):
    """An anchor: one sample, scaled and shifted."""

    def it(self, client: Client) -> Tensor:
        return 0.37 * everything(client)[0][3] + 0.2


class TellsCounts(Tells):
    """Class counts."""

    def it(self, client: Client) -> Tensor:
        return client.counts


class TellsScaledCounts(Tells):
    """Class counts, smoothed and scaled."""

    def it(self, client: Client) -> Tensor:
        return 3.0 * (client.counts + 1) / (client.samples + client.classes)


class TellsOneHotMean(Tells):
    """The mean of one-hot labels, among other numbers."""

    def it(self, client: Client) -> Tensor:
        mean = one_hot(everything(client)[1], client.classes).float().mean(0)
        return torch.cat([torch.full((5,), float(client.samples)), mean])


class TellsLabelSum(Tells):
    """A number: half the sum of the labels."""

    def it(self, client: Client) -> float:
        return 0.5 * float(everything(client)[1].sum())


class TellsPrivateState(Part):
    """Sends what it keeps for itself."""

    uploads: ClassVar[Mapping[str, Rule]] = {"tells.kept": "each"}

    def after(self, t: Training, reply: Message) -> None:
        kept = t.client.private.get("tells.secret", torch.randn(64, generator=t.client.rng("secret")))
        assert isinstance(kept, Tensor)
        reply["tells.kept"] = kept
        t.client.private["tells.secret"] = kept + torch.randn(64, generator=t.client.rng("secret"))


class TellsScaledPrivateState(Part):
    """Sends twice what it keeps for itself."""

    uploads: ClassVar[Mapping[str, Rule]] = {"tells.kept": "each"}

    def after(self, t: Training, reply: Message) -> None:
        kept = t.client.private.get("tells.secret", torch.randn(64, generator=t.client.rng("secret")))
        assert isinstance(kept, Tensor)
        reply["tells.kept"] = 2 * kept
        t.client.private["tells.secret"] = kept + torch.randn(64, generator=t.client.rng("secret"))


class UploadsMore(Part):
    """A field that nobody was told of."""

    def after(self, t: Training, reply: Message) -> None:
        reply["more.steps"] = t.descent.steps


# ---------------------------------------------------------------- learning


class NeverLearns(Averaging):
    """The gradient is computed, and nothing is done with it."""

    def gradient(self, t: Training, x: Tensor, y: Tensor) -> None:
        with torch.no_grad():
            t.loss(x, y)


class ForgetsTheMean(Averaging):
    """The server computes the mean, and keeps what it had."""

    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        super().aggregate(server, replies)
        return server


class ZeroesAfterBackward(Averaging):
    """As one clears gradients in torch, a line too late."""

    def gradient(self, t: Training, x: Tensor, y: Tensor) -> None:
        t.backward(x, y)
        t.g.zero_()


class ZeroesBeforeBackward(Averaging):
    """As one clears gradients in torch: the momentum is gone."""

    def gradient(self, t: Training, x: Tensor, y: Tensor) -> None:
        t.g.zero_()
        t.backward(x, y)


class ScalesG(Part):
    """Weighs the client's gradient, and the momentum with it."""

    def correct(self, t: Training) -> None:
        t.g.mul_(0.5)


class ReadsG(Part):
    """Normalizes by what is not the gradient alone."""

    def correct(self, t: Training) -> None:
        t.g_shared.add_(t.shared - t.anchor, alpha=float(t.g.norm()))


class LearnsInEvalMode(Averaging):
    """Puts the net in eval mode to look at something, and leaves it there."""

    def loss(self, t: Training, x: Tensor, y: Tensor) -> Tensor:
        self.net.eval()
        return cross_entropy(self.net(x), y)


class LeavesEvalMode(Part):
    """The same in a part: from the second batch on, BatchNorm and dropout rest."""

    acts: ClassVar[Acts] = "loss"

    def objective(self, t: Training, out: Forward, y: Tensor, loss: Tensor) -> Tensor:
        t.net.eval()
        with torch.no_grad():
            t.net(out.x)
        return loss


class LooksInTrainMode(Part):
    """A prototype in the space of features, under dropout and with BatchNorm's statistics on the move."""

    uploads: ClassVar[Mapping[str, Rule]] = {"looks.z": "each"}

    def after(self, t: Training, reply: Message) -> None:
        t.net.train()
        with torch.no_grad():
            reply["looks.z"] = t.net.body(everything(t.client)[0]).mean(0)

    def aggregate(self, s: Serving, replies: Mapping[int, Message]) -> None:
        s.state["looks.z"] = s.mean(replies, "looks.z")


class SameBatches(Averaging):
    """A generator of its own, with the same seed in every round."""

    def round_training(self, client: Client, message: Message) -> Training:
        descent = Descent(client.local, client.lr, torch.Generator().manual_seed(7), told=client.train_loss)
        client.descent()
        return self.training(client, message, self.parts, descent)


# ---------------------------------------------------------------- predicting


class InTrainMode(nn.Module):
    """Its net is no submodule, so that no `eval()` reaches it."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.nets = [net]
        self.one = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.nets[0].train()(x)  # type: ignore[no-any-return]


class PredictsWithDropout(Averaging):
    """Dropout is at work when it predicts."""

    def predictor(self, client: Client, w: Tensor) -> nn.Module:
        return InTrainMode(super().predictor(client, w))


class PredictsByBatch(Averaging):
    """BatchNorm normalizes by the test batch."""

    def predictor(self, client: Client, w: Tensor) -> nn.Module:
        model = super().predictor(client, w)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.eval = module.train = lambda *_, m=module: m  # type: ignore[assignment]
                module.training = True
                module.momentum = 0.0
        return model


class AnotherModelEachTime(Averaging):
    """Counts how often it was asked, and serves a model by that."""

    def personal(self, client: Client, message: Message) -> nn.Module | None:
        w = self.personal_weights(client, message)
        assert w is not None
        self.net.asked = getattr(self.net, "asked", 0) + 1  # type: ignore[assignment]
        return self.predictor(client, w * (1 + 0.01 * float(self.net.asked)))  # type: ignore[arg-type]


class ScoresAnotherModel(Averaging):
    """Who is scored receives other weights than who trains."""

    personal_from_global = True

    def broadcast(self, server: State, client_id: int, scoring: bool = False) -> Message:
        message = super().broadcast(server, client_id, scoring)
        return {**message, "w": self.fresh[self.layout.shared]} if scoring else message

    def personal(self, client: Client, message: Message) -> nn.Module:
        return self.predictor(client, self.received(client, message))


# ---------------------------------------------------------------- in place


class ChangesServerInBroadcast(Part):
    """Decays the model where it is sent."""

    def broadcast(self, s: Serving, client_id: int, message: Message) -> None:
        tensor(s.state, "w").mul_(0.999)


class ChangesServerInAggregate(Averaging):
    """Adds the clients' changes to the server's own tensor."""

    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        w = tensor(server, "w")
        w.add_(average(replies, "w") - w)
        return {**server, "w": w}


class ChangesMessage(Part):
    """Writes into the tensor that the server sent."""

    def before(self, t: Training, message: Message) -> None:
        tensor(message, "w").add_(0.001)


class ChangesReplies(Part):
    """Adds up the models in the first one's place."""

    acts: ClassVar[Acts] = "server"
    uploads: ClassVar[Mapping[str, Rule]] = {"w": "each"}

    def aggregate(self, s: Serving, replies: Mapping[int, Message]) -> None:
        first, *others = (tensor(reply, "w") for reply in replies.values())
        for other in others:
            first.add_(other)


# ---------------------------------------------------------------- randomness and memory


class TorchRandom(Part):
    """Noise from torch's global generator."""

    def after(self, t: Training, reply: Message) -> None:
        reply["w"] = tensor(reply, "w") + 1e-4 * torch.randn_like(tensor(reply, "w"))


class NumpyRandom(Part):
    """Noise from NumPy's."""

    def before(self, t: Training, message: Message) -> None:
        t.w.mul_(1 + 1e-3 * float(np.random.rand()))


class PythonRandom(Part):
    """A coin from Python's, at the server."""

    acts: ClassVar[Acts] = "server"

    def aggregate(self, s: Serving, replies: Mapping[int, Message]) -> None:
        s.state["w"] = tensor(s.state, "w") * (1 + 1e-3 * random.random())


class Unseeded(Part):
    """A generator of its own, and nobody knows its seed."""

    def before(self, t: Training, message: Message) -> None:
        t.w.mul_(1 + 1e-3 * float(np.random.default_rng().random()))


class KeepsAtServer(Averaging):
    """The server's momentum is kept in the method."""

    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        after = super().aggregate(server, replies)
        step = tensor(after, "w") - tensor(server, "w")
        self.velocity = 0.5 * getattr(self, "velocity", torch.zeros_like(step)) + step
        return {**after, "w": tensor(server, "w") + self.velocity}


class KeepsAtClient(Averaging):
    """How often a client trained is kept in the method."""

    def begin_round(self, client: Client, message: Message) -> Training:
        self.trained = getattr(self, "trained", {})
        self.trained[client.id] = self.trained.get(client.id, 0) + 1
        t = super().begin_round(client, message)
        t.w.mul_(1 - 0.001 * self.trained[client.id])
        return t


class KeepsInClass(Part):
    """What one client knows, told in the next one's name."""

    uploads: ClassVar[Mapping[str, Rule]] = {"keeps.last": "each"}
    last: ClassVar[list[float]] = [0.0]

    def after(self, t: Training, reply: Message) -> None:
        reply["keeps.last"], self.last[0] = self.last[0], float(t.w.norm())


PRIVATE: dict[int, Tensor] = {}


class GenericFromPrivate(Averaging):
    """Looks at what clients keep, by way of the module."""

    personalizes = True  # so that clients keep what they train

    def train(self, client: Client, message: Message) -> Message:
        reply = super().train(client, message)
        PRIVATE[client.id] = tensor(client.private, "model")
        return reply

    def generic(self, server: State) -> Tensor | None:
        return torch.stack([*PRIVATE.values()]).mean(0) if PRIVATE else super().generic(server)


class ForgetsOnResume(Averaging):
    """What `start` knew is kept in the object."""

    def start(self) -> State:
        self.shift = 0.001
        return super().start()

    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        after = super().aggregate(server, replies)
        return {**after, "w": tensor(after, "w") + getattr(self, "shift", 0.0)}


# ---------------------------------------------------------------- replies


class WrongRule(Part):
    """Declares a mean, and takes the largest."""

    acts: ClassVar[Acts] = "correction"
    uploads: ClassVar[Mapping[str, Rule]] = {"wrong.loss": "mean"}

    def after(self, t: Training, reply: Message) -> None:
        reply["wrong.loss"] = float((t.shared - t.anchor).norm())

    def aggregate(self, s: Serving, replies: Mapping[int, Message]) -> None:
        s.state["wrong.largest"] = max(number(reply, "wrong.loss") for reply in replies.values())


class NaNReply(Part):
    """A division by nothing, in one client's reply."""

    def after(self, t: Training, reply: Message) -> None:
        w = tensor(reply, "w").clone()
        w[0] = 0.0 / torch.zeros(())
        reply["w"] = w


class WrongLength(Part):
    """Sends a part of the weights as if it were all."""

    def after(self, t: Training, reply: Message) -> None:
        reply["w"] = tensor(reply, "w")[:-1]


class WrongType(Part):
    """Sends weights in double precision."""

    def after(self, t: Training, reply: Message) -> None:
        reply["w"] = tensor(reply, "w").double()


class FirstReplyCounts(Averaging):
    """Takes the first reply for the mean of all."""

    uploads: Mapping[str, Rule] = {"w": "each"}

    def combined(self, s: Serving, replies: Mapping[int, Message]) -> Tensor:
        return 0.9 * tensor(next(iter(replies.values())), "w") + 0.1 * self.averaged(replies)


class LearnsElsewhere(Averaging):
    """Says that its steps are FedAvg's, and does something else before them."""

    plain_steps = True

    def learn(self, t: Training, samples: Samples) -> None:
        t.w.mul_(0.5)
        super().learn(t, samples)


# ---------------------------------------------------------------- not seen: said in docs/own-method.md


class TellsBehindNoise(Tells):
    """The mean image under a little noise."""

    def it(self, client: Client) -> Tensor:
        mean = everything(client)[0].mean(0)
        return mean + 0.1 * torch.randn(mean.shape, generator=client.rng("noise"))


class WrongEquation(Part):
    """FedProx with the wrong sign: away from what the server sent, a little."""

    def correct(self, t: Training) -> None:
        t.g_shared.add_(t.shared - t.anchor, alpha=-0.01)


TEST = "reads a client's test data in a task of kind '{}'.*never shown test data"
VALIDATION = "reads a client's validation data in a task of kind 'train'.*`needs_validation = True`"
UNSEEN = (TellsBehindNoise, WrongEquation)
PLANTED: list[tuple[Any, str]] = [
    (TrainsOnTest, TEST.format("train")),
    (TrainsOnTestAlone, TEST.format("train")),
    (ChoosesByTest, TEST.format("score")),
    (AdaptsOnTest, TEST.format("adapt")),
    (CountsOverAllSplits, TEST.format("train")),
    (TrainsOnValidation, VALIDATION),
    (ChoosesByValidation, VALIDATION),
    (TrainsOnDeclaredValidation, "learns from its validation data.*is for choosing by them"),
    (TellsMeanImage, "gives away the mean prepared sample.*`tells` declares nothing"),
    (TellsClassMeans, "gives away (the mean prepared sample of a class|a prepared sample)"),
    (TellsScaledSample, "gives away a prepared sample times a number"),
    (TellsCounts, "gives away its class counts as torch.int64"),
    (TellsScaledCounts, "gives away its class counts times a number"),
    (TellsOneHotMean, "gives away its class counts as shares"),
    (TellsLabelSum, "gives away the sum of its labels"),
    (TellsPrivateState, "gives away its private 'tells.secret'"),
    (TellsScaledPrivateState, "gives away its private 'tells.secret times a number'"),
    (UploadsMore, "a reply has the field 'more.steps'; `uploads` declares 'n', 'w'"),
    (NeverLearns, "it does not learn: the generic model's loss"),
    (ForgetsTheMean, "it does not learn: the generic model's loss.*is the server's mean not kept"),
    (ZeroesAfterBackward, "it does not learn.*is `t.g` zeroed after `t.backward`"),
    (ZeroesBeforeBackward, "local.clip = 1e[+]20, which clips nothing.*t.g holds the momentum"),
    (ScalesG, "t.g holds the momentum as well as the gradient: add to it, never zero, scale or read it"),
    (ReadsG, "t.g holds the momentum as well as the gradient: add to it, never zero, scale or read it"),
    (LearnsInEvalMode, "0 were taken with the net in train mode"),
    (LeavesEvalMode, "1 were taken with the net in train mode"),
    (LooksInTrainMode, "global or unseeded randomness.*inside `t.at.w.`, where dropout rests"),
    (SameBatches, "takes the same batches in the same order in round"),
    (PredictsWithDropout, "answers otherwise when asked again: dropout"),
    (PredictsByBatch, "depends on the other samples of its batch: BatchNorm is in train mode"),
    (AnotherModelEachTime, "another model when it is asked a second time|fresh method"),
    (ScoresAnotherModel, "makes another personal model of what it is sent to be scored"),
    (ChangesServerInBroadcast, "`broadcast` changes 'w' of the server state in place"),
    (ChangesServerInAggregate, "`aggregate` changes 'w' of the server state in place"),
    (ChangesMessage, "`train` changes 'w' of the message in place"),
    (ChangesReplies, "`aggregate` changes 'w' of the reply of client . in place"),
    (TorchRandom, "global or unseeded randomness .that of torch was drawn from"),
    (NumpyRandom, "global or unseeded randomness .that of numpy was drawn from"),
    (PythonRandom, "global or unseeded randomness .that of random was drawn from"),
    (Unseeded, "global or unseeded randomness .or from the clock"),
    (KeepsAtServer, "when `aggregate` is asked again with the same state and replies"),
    (KeepsAtClient, "is another one when each task is done by a fresh method.*keeps nothing in itself"),
    (KeepsInClass, "`KeepsInClass.last` changed during a run"),
    (GenericFromPrivate, "`PRIVATE` of module planted_mistakes changed during a run"),
    (ForgetsOnResume, "is another one after a stop and a resume.*`start` is not called"),
    (WrongRule, "declares 'wrong.loss' as 'mean', but the server state is another one"),
    (NaNReply, "is set aside: the reply's 'w' holds NaN or infinity"),
    (WrongLength, "reply field 'w' has shape"),
    (WrongType, "reply field 'w' has type torch.float64; accepted: torch.float32"),
    (FirstReplyCounts, "another one when the replies come in another order"),
    (LearnsElsewhere, "trained as one computation with other clients.*`plain_steps = True` promises"),
]
