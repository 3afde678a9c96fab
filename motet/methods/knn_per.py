"""kNN-Per (Marfoq et al. 2022): the global model's prediction, mixed with that of the client's nearest own samples."""

from collections.abc import Callable

import torch
from pydantic import Field
from torch import Tensor, nn

from motet.config.section import Section, tried
from motet.data import Samples
from motet.messages.message import Message, number
from motet.methods.base import Learned, LearnedFigure, Method, MethodEntry, Wrapped
from motet.methods.base.personal_model import PersonalModel, through
from motet.methods.finetuning import FineTuned
from motet.nets import Net
from motet.training.client import Client

PASS_BATCH = 500
GRID = tuple(tenths / 10 for tenths in range(11))


class KNNPer(Wrapped):
    """λ·p_knn + (1 − λ)·softmax(model), p_knn(y|x) ∝ Σ_{j ∈ kNN(x)} 1[y_j = y]·e^{−‖z − z_j‖²/(D·s)}.

    z are the D features before the head, the z_j those of the client's training data. λ is given, or the best of 0,
    0.1, …, 1 on the client's validation data (½ without any). Without `ft` nothing is trained, also for new clients.
    """

    needs_validation = True
    needs_classes = True

    class Options(Section):
        """Options of `knn-per(...)`."""

        k: int = Field(10, ge=1, description="k, nearest samples", json_schema_extra=tried(5, 10, 20))
        scale: float = Field(1.0, gt=0, description="s, width of the kernel")
        lam: float | None = Field(
            None, ge=0, le=1, description="λ, the neighbours' share; left out: on validation data"
        )
        ft: int = Field(0, ge=0, description="epochs of fine-tuning before (kNN-Per + FT of FedBasis); 0: none")

    options: Options

    def personal(self, client: Client, message: Message) -> nn.Module | None:
        model = self.served.personal(client.from_the_global_model(), message)
        return None if model is None else self.beside(model, client)

    def adapt(self, client: Client, message: Message) -> nn.Module:
        """Return a new client's model; it is trained only with `ft`, for `adapt.epochs`."""
        if self.options.ft:
            return self.beside(self.served.adapt(client, message), client)
        model = self.personal(client, message)
        return self.inner.adapt(client, message) if model is None else model

    @property
    def served(self) -> Method:
        """The method whose model gives features and softmax: the inner one, or the inner one fine-tuned."""
        ft = self.options.ft
        return FineTuned(self.inner, FineTuned.Options(epochs=ft, lr="adapt")) if ft else self.inner

    def beside(self, model: nn.Module, client: Client) -> nn.Module:
        """Return the model with the client's neighbour memory and its λ."""
        options, memory = self.options, NeighbourMemory(model, client, self.options.k, self.options.scale)
        if options.lam is not None or not len(client.data.val):
            memory.lam = 0.5 if options.lam is None else options.lam
        else:
            memory.lam = memory.best_share(client.data.val)
        return memory.eval()

    def client_snapshot(self, client: Client, message: Message) -> Message:
        """λ of the client, if it chose one"""
        snapshot, model = super().client_snapshot(client, message), self.personal(client, message)
        return snapshot | {"knn-per.lambda": model.lam} if isinstance(model, NeighbourMemory) else snapshot

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        """λ of every client"""
        chose = [snapshot.get("knn-per.lambda") is not None for snapshot in learned.snapshots.values()]
        if self.options.lam is not None or not chose or not all(chose):
            return super().figures_learned(learned)
        lams = LearnedFigure.bars(
            "knn-per-lambda",
            "kNN-Per: each client's share of its own nearest samples (λ)",
            "A high bar is a client whose own samples say more than the global model.",
            {"λ": [number(snapshot, "knn-per.lambda") for snapshot in learned.snapshots.values()]},
            x=learned.clients_with_snapshot(),
            y="λ",
        )
        return [*super().figures_learned(learned), lams]


class NeighbourMemory(nn.Module):
    """A model together with the features of its client's training samples."""

    def __init__(self, model: nn.Module, client: Client, k: int, scale: float):
        super().__init__()
        self.model, self.classes, self.k, self.scale, self.lam = model.eval(), client.classes, k, scale, 0.0
        passes = [self.look(x)[0] for x, _ in client.data.train.all_batches(PASS_BATCH)]
        self.z, self.y = torch.cat(passes), client.data.train.y.to(passes[0].device)

    def look(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return z and the model's softmax."""
        device = next(self.model.parameters()).device
        with torch.no_grad():
            z = features_of(self.model)(x.to(device)).flatten(1)
            return z, torch.softmax(self.model(x.to(device)), 1)

    def neighbours(self, z: Tensor) -> Tensor:
        """p_knn"""
        near = torch.cdist(z, self.z).square().topk(min(self.k, len(self.z)), largest=False)
        weight = torch.softmax(-near.values / (z.shape[1] * self.scale), 1)  # e^… over its sum, also if all underflow
        votes = torch.nn.functional.one_hot(self.y[near.indices], self.classes)
        return (weight[..., None] * votes).sum(1)

    def best_share(self, samples: Samples) -> float:
        """Return the λ that predicts most of these samples right; of equal ones the smallest."""
        right = dict.fromkeys(GRID, 0)
        for x, y in samples.all_batches(PASS_BATCH):
            z, soft = self.look(x)
            knn = self.neighbours(z)
            for lam in GRID:
                right[lam] += int(((lam * knn + (1 - lam) * soft).argmax(1).cpu() == y).sum())
        return max(GRID, key=lambda lam: right[lam])

    def forward(self, x: Tensor) -> Tensor:
        """log(λ·p_knn + (1 − λ)·softmax)"""
        z, soft = self.look(x)
        return (self.lam * self.neighbours(z) + (1 - self.lam) * soft).log()


def features_of(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return a function that gives the input of the model's head."""
    if isinstance(model, PersonalModel):
        return lambda x: through(model.net, model.parts, x).z
    assert isinstance(model, Net)
    return model.body


ENTRY = MethodEntry(
    "knn-per",
    "mix in the nearest of the client's own samples",
    "Marfoq et al. 2022",
    wraps=KNNPer,
    stays="the features of its samples",
)
