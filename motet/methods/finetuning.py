"""`+ft` and `+lp`: personalize the model that a method serves by fine-tuning it on the client's data."""

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from motet.config.section import Section, tried
from motet.data import Samples
from motet.messages.message import Message
from motet.methods.base import Method, MethodEntry, Wrapped
from motet.methods.base.personal_model import PersonalModel
from motet.training.adaptation import best_on_validation
from motet.training.client import Client
from motet.training.flat_weights import Layout, frozen


class FineTuned(Wrapped):
    """A wrapper that fine-tunes the personal model of any method, from what the server last sent."""

    head_only: ClassVar[bool] = False

    class Options(Section):
        """Options of `ft(...)` and `lp(...)`."""

        epochs: int = Field(5, ge=1, description="passes over the client's training data")
        lr: Annotated[float, Field(gt=0)] | Literal["adapt"] = Field(
            "adapt",
            description="learning rate; adapt: the experiment's adapt.lr",
            json_schema_extra=tried(0.001, 0.01, 0.1),
        )

    options: Options

    def __init__(self, inner: Method, options: Options):
        super().__init__(inner, options)
        self._layout: tuple[nn.Module, Layout] | None = None  # of the net that was tuned last

    def personal(self, client: Client, message: Message) -> nn.Module | None:
        model = self.inner.personal(client.from_the_global_model(), message)
        if model is None or client.data.new:  # a new client is tuned by `adapt`
            return model
        return self.tune(model, client, self.options.epochs, self.rate(client))

    def adapt(self, client: Client, message: Message) -> nn.Module:
        model = self.inner.personal(client.from_the_global_model(), message)
        if model is None:
            return self.inner.adapt(client, message)
        best = client.adapt.select == "best_on_validation"
        return self.tune(model, client, client.adapt.epochs, self.rate(client), best)

    def rate(self, client: Client) -> float:
        """Return the learning rate: the option, or that of adaptation."""
        return client.adapt.lr if self.options.lr == "adapt" else self.options.lr

    def layout_of(self, net: nn.Module) -> Layout:
        """Return the layout of a net with its head apart; most methods serve every client by the same net."""
        if self._layout is None or self._layout[0] is not net:
            head = [name for name, _ in net.named_parameters() if self.inner.in_head(name)]
            self._layout = net, Layout(net, private=head)
        return self._layout[1]

    def tune(self, model: nn.Module, client: Client, epochs: int, lr: float, best: bool = False) -> nn.Module:
        """Run plain SGD on cross-entropy over all weights or the head's alone; return the last epoch's model or the
        best."""
        net = model.net if isinstance(model, PersonalModel) else model
        layout = self.layout_of(net)
        w = layout.flatten(net)
        g = torch.zeros_like(w)
        layout.bind(net, w, g)
        moving = layout.private_trainable if self.head_only else layout.trainable
        if moving.start == moving.stop:
            return model.eval()  # all weights that would be tuned are frozen in the net

        def gradient(x: Tensor, y: Tensor) -> None:
            if isinstance(model, PersonalModel):
                model.add_gradient(x, y)
                return
            with self.net.collecting():
                self.net.training_loss(model(x), y).backward()  # type: ignore[no-untyped-call]

        def learn(samples: Samples) -> None:
            model.train(not self.head_only)  # a frozen body keeps its statistics
            with frozen(net, layout.outside(moving)):
                descent.run(samples, w[moving], g[moving], gradient)
            model.eval()

        descent = client.descent("fine-tune", 1 if best else epochs, lr)
        if best:
            w.copy_(best_on_validation(client, learn, w.clone, lambda _: model.eval()))  # it has these weights
        else:
            learn(client.data.train)
        return model


class HeadTuned(FineTuned):
    """The same wrapper for the head alone."""

    head_only: ClassVar[bool] = True


ENTRIES = (
    MethodEntry(
        "ft", "personalize any method by fine-tuning all weights", "FedAvg+FT of the five papers", wraps=FineTuned
    ),
    MethodEntry("lp", "personalize any method by fine-tuning its head", "FedAvg+LP of FedBasis", wraps=HeadTuned),
)
