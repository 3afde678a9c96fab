"""How well a few models summarize all clients' own: by PCA and by k-means (FedBasis, appendix B.2)."""

from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Literal
from warnings import catch_warnings, simplefilter

import torch
from pydantic import AfterValidator, BeforeValidator, Field
from torch import Tensor

from motet.messages.message import Message, tensor
from motet.methods.base import Axis, LearnedFigure
from motet.metrics.names import PERSONAL, MetricName, variant
from motet.metrics.on_test_data import accuracy_here, asked_data, data_of
from motet.metrics.run_metric import ClientScope, Finding, RunFacts, RunMetric
from motet.training.flat_weights import Layout
from motet.training.randomness import derive

_W, _MODELS, _VALUES = "summaries.w", "summaries.models", "summaries.accuracy"
RESTARTS = 10


def sizes_of(text: str) -> list[int]:
    """Return the numbers of models of a text such as 1/2/4/8; raise ValueError if it is none."""
    accepted = "accepted: up to 8 whole numbers above 0 with / between them, such as 1/2/4/8"
    words = text.split("/")
    if not 1 <= len(words) <= 8 or not all(word.isdigit() and 0 < int(word) <= 1000 for word in words):
        raise ValueError(accepted)
    return sorted({int(word) for word in words})


def _checked(text: str) -> str:
    sizes_of(text)
    return text


class Summaries(RunMetric):
    """Every client's own model w_i rebuilt from K models for all, and scored on the client's test data.

    PCA: mean + Σ_k ⟨w_i − mean, u_k⟩u_k with the first K principal components. k-means: the centroid of its cluster.
    Where accuracy is back at a small K, clients' models have a few bases in common. Models leave their clients.
    """

    name: ClassVar[str] = "summaries"
    summary: ClassVar[str] = "accuracy of clients' own models rebuilt from K models, by PCA and by k-means"
    paper: ClassVar[str] = "FedBasis 2022, appendix B.2"
    asks_clients: ClassVar[bool] = True

    k: Annotated[str, BeforeValidator(str), AfterValidator(_checked)] = Field(
        "1/2/4/8", description="numbers of models, such as 1/2/4/8"
    )
    clients: int = Field(50, ge=2, le=1000, description="how many clients, the first ones")
    model: Literal["own", "trained"] = Field(
        "trained", description="clients' own models, or their models after one more local training (trained)"
    )

    @property
    def trains(self) -> bool:
        """Whether clients train for it."""
        return self.model == "trained"

    def whom(self, run: RunFacts) -> list[int]:
        """Return the first clients."""
        return run.facts.training_ids[: self.clients]

    def asked(self, run: RunFacts, client_id: int) -> Message:
        """Return on which data to score."""
        return asked_data(run)

    def at_client(self, here: ClientScope) -> Message:
        """Return the client's own weights; when asked again, the accuracy of each model that was sent."""
        if _MODELS not in here.message:
            own = here.own_weights(self.trains)
            return {} if own is None else {_W: own}
        found = [accuracy_here(here, here.bound(w)) for w in tensor(here.message, _MODELS)]
        return {} if None in found else {_VALUES: torch.tensor(found, dtype=torch.float64)}

    def follow_up(self, run: RunFacts, replies: Mapping[int, Message]) -> Callable[[int], Message] | None:
        """Return the models that each client scores next: its own, then rebuilt by PCA and k-means for every K."""
        ids = [i for i in replies if _W in replies[i]]
        if len(ids) < 2:
            return None
        W, moving = torch.stack([tensor(replies[i], _W) for i in ids]), Layout(run.net).trainable
        if bool((W[:, moving] == W[0, moving]).all()):
            return None
        space = ModelSpace(W[:, moving].double())
        labels = {k: space.clusters(k, run.seed) for k in sizes_of(self.k)}

        def message(client_id: int) -> Message:
            if client_id not in ids:
                return {}
            place = ids.index(client_id)
            models = W[place].repeat(1 + 2 * len(labels), 1)
            for j, (k, label) in enumerate(labels.items()):
                models[1 + 2 * j, moving] = space.rebuilt(place, k).to(W)
                models[2 + 2 * j, moving] = space.points[label == label[place]].mean(0).to(W)
            return {_MODELS: models}

        return message

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return accuracy against K, and the models in the plane of two principal components."""
        told = [tensor(reply, _VALUES) for reply in replies.values() if _VALUES in reply]
        if not told:
            words = "no two clients have different weights of their own, and test data"
            return Finding(notes=[f"summaries: {words}; accepted: summaries(model=trained) where models are alike"])
        sizes, means = sizes_of(self.k), torch.stack(told).mean(0).tolist()
        own, pca, centroids = means[0], means[1::2], means[2::2]
        data, whose = data_of(run), variant(PERSONAL, self.model) if self.trains else PERSONAL
        values = {"own": own} | {f"pca_{k}": a for k, a in zip(sizes, pca, strict=True)}
        values |= {f"kmeans_{k}": a for k, a in zip(sizes, centroids, strict=True)}
        figures = {str(MetricName(whose, data, f"summaries_{name}", "mean")): v for name, v in values.items()}
        curve = LearnedFigure.lines(
            "summaries",
            "Accuracy of clients' models rebuilt from K models for all",
            "Where a line reaches that of the own models, K models say all that these clients need.",
            {"own models": [own] * len(sizes), "principal components": pca, "centroids of k-means": centroids},
            x=Axis("K", tuple(sizes)),
            y="accuracy",
        )
        return Finding(figures, figures_learned=[curve, *self._plane(run, replies)])

    def _plane(self, run: RunFacts, replies: Mapping[int, Message]) -> list[LearnedFigure]:
        ids = [i for i in replies if _W in replies[i]]
        moving = Layout(run.net).trainable
        space = ModelSpace(torch.stack([tensor(replies[i], _W)[moving] for i in ids]).double())
        domains = [run.facts.by_id[i].domain for i in ids]
        k = min(max(sizes_of(self.k)), len(ids))
        if None not in domains and len(set(domains)) > 1:
            named = run.facts.domain_names or tuple(str(d) for d in range(1 + max(d or 0 for d in domains)))
            group, groups, word = [d or 0 for d in domains], list(named), "domain"
        else:
            group = space.clusters(k, run.seed).tolist()
            groups, word = [f"cluster {c + 1}" for c in range(max(group) + 1)], "cluster of k-means"
        share = space.variances[:2].sum() / space.variances.sum().clamp_min(1e-30)
        return [
            LearnedFigure.points(
                "summaries-plane",
                "Clients' models in the plane of two principal components",
                f"Each colour is a {word}. The plane has {100 * float(share):.0f} % of the variance of the models.",
                space.coordinates[:, :2] if space.coordinates.shape[1] > 1 else space.coordinates.repeat(1, 2),
                group,
                groups,
            )
        ]


class ModelSpace:
    """M models as points: their principal components and clusters, found from the M × M products alone."""

    def __init__(self, points: Tensor):
        self.points, self.mean = points, points.mean(0)
        away = points - self.mean
        scale, axes = torch.linalg.eigh(away @ away.T)
        order = scale.argsort(descending=True)
        self.variances = scale[order].clamp_min(0)
        self.coordinates = axes[:, order] * self.variances.sqrt()  # ⟨w_i − mean, u_k⟩, up to its sign

    def rebuilt(self, place: int, k: int) -> Tensor:
        """Return mean + Σ_{j ≤ k} ⟨w_i − mean, u_j⟩u_j."""
        some = self.coordinates[:, :k]
        inverse = torch.where(self.variances[:k] > 1e-12 * self.variances[0], 1 / self.variances[:k], 0.0)
        weights = some @ (inverse * some[place])  # u_j = Σ_m coordinates[m, j]·(w_m − mean) / variance_j
        return self.mean + torch.mv((self.points - self.mean).T, weights)

    def clusters(self, k: int, seed: int) -> Tensor:
        """Return the cluster of every model by k-means++."""
        from sklearn.cluster import KMeans  # takes as long to import as all of Motet
        from sklearn.exceptions import ConvergenceWarning
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        kmeans = KMeans(min(k, len(self.points)), n_init=RESTARTS, random_state=derive(seed, "summaries") % 2**32)
        with threadpool_limits(1), catch_warnings():  # sums in one order: the same clusters on every machine
            simplefilter("ignore", ConvergenceWarning)  # of equal models: then there are fewer clusters
            return torch.tensor(kmeans.fit(self.coordinates.numpy()).labels_, dtype=torch.int64)
