"""FedBasis: Learning Shareable Bases for Personalized Federated Image Classification (2022)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import fmean
from typing import Literal

from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from motet.config.section import Section, tried
from motet.errors import MotetError
from motet.messages.message import Message, State, number, tensor
from motet.messages.replies import Rule, Weighting
from motet.methods.averaging import Averaging
from motet.methods.base import Axis, Facts, Learned, LearnedFigure, Method, MethodEntry, Part, average
from motet.methods.base.method import COPIES, MemoryNeed
from motet.methods.fedbasis.base_training import ONE_VECTOR, BasesPhase, rebuild, train_as_one, train_each
from motet.methods.fedbasis.coefficients import Coefficients, adapted
from motet.methods.fedbasis.mixing import Mixing, entropy, softened
from motet.methods.fedbasis.warm_start import WarmStart, independent
from motet.nets import Net
from motet.training.client import Client
from motet.training.flat_weights import Layout

# -------- Figure 2: do the bases collapse into one model?


def signs_of_collapse(v: Tensor) -> dict[str, float]:
    """Return the mean cosine of two bases (1: collapsed), and their mean distance from their mean, relative to its
    length.

    Bases that were warm-started share most of their weights, so their cosine is near 1 from the start: there the spread
    says more.
    """
    mean = v.mean(0)
    return {
        "fedbasis_cosine": fmean(float(cosine_similarity(a, b, dim=0)) for a, b in combinations(v, 2)),
        "fedbasis_spread": float((v - mean).norm(dim=1).mean() / mean.norm()),
    }


# -------- Figures of what FedBasis learned


ALPHA = "fedbasis.alpha"


def shares(learned: Learned, blocks: Mapping[int, str], k: int) -> list[LearnedFigure]:
    """Return figures of every client's α in these blocks; none during the warm start, when there are no bases."""
    alphas = [tensor(each, ALPHA) for each in learned.snapshots.values() if ALPHA in each]
    if not alphas or len(alphas) < len(learned.snapshots):
        return []
    return [
        LearnedFigure.heatmap(
            "fedbasis-coefficients",
            "FedBasis: what each client takes of each basis (α), block by block",
            "Clients with high values in the same columns share bases; an even row takes a bit of everything.",
            [alpha[list(blocks)].flatten().tolist() for alpha in alphas],
            x=Axis(
                "block and basis", tuple(f"{block or 'all'} v{i + 1}" for block in blocks.values() for i in range(k))
            ),
            y=learned.clients_with_snapshot(),
        )
    ]


def collapse(learned: Learned) -> list[LearnedFigure]:
    """Return Figure 2: the signs of collapse over the rounds."""
    rounds, (cosine, spread) = learned.over_rounds("fedbasis_cosine", "fedbasis_spread")
    if not rounds.ticks:
        return []
    return [
        LearnedFigure.lines(
            "fedbasis-cosines",
            "FedBasis: how alike the bases are",
            "A cosine that climbs to 1, and a spread that falls to 0, are bases that collapse into one model.",
            {"mean cosine of two bases": cosine, "spread around their mean": spread},
            x=rounds,
            y="",
        )
    ]


# -------- The method


BASES = "fedbasis.V"
ENTROPIES = ("fedbasis.entropy", "fedbasis.entropy_learned")


class FedBasis(Method):
    """θ_m = ½v′ + ½Σ_k α_m[k]·v_k per block: shared bases V, and per client only the coefficients α_m.

    Clients keep nothing between rounds, so a personal model is always made anew from the bases just received
    (Algorithm 2), for clients that took part as for new ones, whatever `scoring.personal_model` says.
    """

    personal_from_global = True
    keeps_nothing = True
    assumes_sgd = "it moves all bases by one vector, which holds for steps of SGD"
    tells = frozenset({"mixing coefficients"})

    class Options(Section):
        """Options of `fedbasis(...)`."""

        k: int = Field(
            4,
            ge=1,
            description="K, bases besides the major one (paper: 4; GLD 8; CIFAR 3)",
            json_schema_extra=tried(3, 4, 8),
        )
        major: bool = Field(True, description="a basis that weighs one half in every personal model")
        tau: float = Field(
            0.1,
            gt=0,
            le=1,
            description="τ, temperature that sharpens α before the bases are trained",
            json_schema_extra=tried(0.1, 1.0),
        )
        warm_start: float = Field(0.3, ge=0, lt=1, description="share of the rounds that are FedAvg; then k-means")
        blocks: Literal["per_group", "single"] = Field("per_group", description="coefficients per stage, or one vector")
        psi_lr: float = Field(0.01, gt=0, description="learning rate of ψ in training")
        joint: bool = Field(False, description="train α and bases together (Eq. 7 with tau=1): they collapse")
        plain: bool = Field(False, description="train and send every basis instead of the one vector they move along")
        lr_compensation: bool = Field(
            True, description="let θ move as far as FedAvg's model does; false: ‖a‖² of it, at most half, as printed"
        )
        decay: Literal["bases", "theta"] = Field("bases", description="what weight decay pulls to zero in step 4")
        generic: Literal["uniform", "major"] = Field("uniform", description="G-FL model: α = 1/K, or v′ alone")
        classifier_free_for_new: bool = Field(True, description="adaptation learns the whole classifier beside ψ")
        sharpen_new: bool = Field(False, description="sharpen α after adaptation too")

    @classmethod
    def memory(cls, options: Options, net: Net, facts: Facts, model: int) -> MemoryNeed:
        """Return the memory of K models instead of one."""
        return MemoryNeed(COPIES * options.k * model, option="k", value=options.k)

    def __init__(self, net: Net, options: Options, parts: Sequence[Part], facts: Facts):
        super().__init__(net, options, parts, facts)
        if options.generic == "major" and not options.major:
            raise MotetError("method fedbasis: generic is 'major' but major is false; accepted: generic=uniform")
        self.options, self.layout = options, Layout(net)
        self.fedavg = Averaging(net, Averaging.Options.model_validate({}), (), facts)
        self.warm = WarmStart(self.fedavg, options.warm_start, options.k, options.major)
        bases: dict[str, Rule] = {BASES: "mean"} if self.sends_bases else dict.fromkeys(ONE_VECTOR, "each")
        self.uploads = {**self.fedavg.uploads, "w": "each", **bases, **dict.fromkeys(ENTROPIES, "each")}
        self.mixing = Mixing(self.layout, options.blocks, options.k, options.major)
        self.only_one = Mixing(self.layout, options.blocks, k=1, major=False)  # FedAvg's model as a basis
        places = self.layout.places.items()
        head = [place.where.start for name, place in places if self.in_head(name) and place.is_trained]
        self.classifier = slice(min(head, default=self.layout.trainable.stop), self.layout.trainable.stop)

    @property
    def sends_bases(self) -> bool:
        """Return whether a client sends every basis, instead of the one vector along which they moved."""
        return self.options.joint or self.options.plain

    # ------------------------------------------------------------ server

    @property
    def settled_after(self) -> int:
        """Return the last round of the warm start, after which there are bases."""
        return self.warm.lasts if self.options.warm_start else 0

    def start(self) -> State:
        """Return FedAvg's state for the warm start, or K (+1) independent models."""
        if self.options.warm_start:
            return self.warm.start()
        count, seed = self.options.k + self.mixing.first, self.facts.seed
        return {BASES: independent(self.net, self.layout, self.fedavg.fresh, count, seed)}

    def broadcast(self, server: State, client_id: int, scoring: bool = False) -> Message:
        """Return all bases; during the warm start the global model."""
        return {BASES: server[BASES]} if BASES in server else self.fedavg.broadcast(server, client_id, scoring)

    def weightings(self, field: str) -> Sequence[Weighting]:
        return ("uniform",)

    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        """V̄ ← (1/|S|) Σ_m V_m, unweighted (Eq. 9)."""
        if BASES not in server:
            return self.warm.aggregate(server, replies)
        V, every = tensor(server, BASES), replies.values()
        V = average(replies, BASES, "uniform") if self.sends_bases else rebuild(V, every, self.mixing)
        self.layout.keep(V, tensor(server, BASES))
        return {BASES: V, **{name: fmean(number(r, name) for r in every) for name in ENTROPIES}}

    def generic(self, server: State) -> Tensor | None:
        """Return the mixture of α = 1/K, or v′ alone; the paper defines none."""
        if BASES not in server:
            return self.fedavg.generic(server)
        V = tensor(server, BASES)
        return V[0].clone() if self.options.generic == "major" else self.mixing.theta(self.mixing.uniform(V), V)

    def diagnostics(self, server: State) -> dict[str, float]:
        """Return the mean entropy of α† and of the learned α over the round's clients, and how alike the bases are."""
        found = {name.replace(".", "_"): number(server, name) for name in ENTROPIES if name in server}
        if BASES in server and self.options.k > 1:
            found |= signs_of_collapse(tensor(server, BASES)[self.mixing.first :, self.layout.trainable])
        return found

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        """Return how much each client takes of which basis, and whether the bases collapsed."""
        free = self.options.classifier_free_for_new
        mixed = {i: name for i, name in enumerate(self.mixing.names) if not (free and self.in_head(f"{name}."))}
        return [*shares(learned, mixed, self.options.k), *collapse(learned)]

    # ------------------------------------------------------------ client

    def train(self, client: Client, message: Message) -> Message:
        """Run the local round of Eq. 9 and return the reply."""
        if BASES not in message:
            return self.fedavg.train(client.from_the_global_model(), message)  # which keeps no model at the client
        V, options = tensor(message, BASES), self.options
        coefficients = Coefficients(self.net, self.mixing, V)  # step 1: ψ = 0
        if options.k > 1 and not options.joint:  # step 2: α* = argmin L(α, V)
            coefficients.learn(client.descent("psi", lr=options.psi_lr), client.data.train)
        psi = coefficients.psi
        alpha = softened(psi, options.tau)  # step 3: α† = softmax(ψ/τ)
        theta = self.mixing.theta(alpha, V)
        phase = BasesPhase.of(client, self.net, self.layout, theta, options.lr_compensation, options.decay)
        reply: Message
        if self.sends_bases:  # step 4: V* = argmin L(α†, V)
            bases, alpha = train_each(phase, self.mixing, V, psi, options.tau, options.psi_lr * options.joint)
            reply = {BASES: bases}
        else:
            reply = train_as_one(phase, self.mixing, alpha)
        learned = alpha if options.joint else softened(psi, 1.0)
        return reply | {"fedbasis.entropy": entropy(alpha), "fedbasis.entropy_learned": entropy(learned)}

    def after_epochs(self, client: Client, message: Message, epochs: int) -> dict[str, float]:
        """How alike the client's bases are, and the entropy of α, after so many epochs of step 4 (Figure 2)"""
        if BASES not in message or self.options.k < 2:
            return {}
        V, options = tensor(message, BASES), self.options
        coefficients = Coefficients(self.net, self.mixing, V)
        if not options.joint:
            coefficients.learn(client.descent("psi", lr=options.psi_lr), client.data.train)
        psi, bases = coefficients.psi, V
        alpha = softened(psi, options.tau)
        if epochs:
            local = client.local.model_copy(update={"epochs": epochs, "steps": 0})
            shorter = replace(client, context=replace(client.context, local=local))
            theta = self.mixing.theta(alpha, V)
            phase = BasesPhase.of(shorter, self.net, self.layout, theta, options.lr_compensation, options.decay)
            bases, alpha = train_each(phase, self.mixing, V, psi, options.tau, options.psi_lr * options.joint)
        found = signs_of_collapse(bases[self.mixing.first :, self.layout.trainable])
        return found | {"fedbasis_entropy": entropy(alpha)}

    def personal(self, client: Client, message: Message) -> nn.Module:
        """Algorithm 2 for a client that trains; for a new one, before it learns anything, α = 1/K."""
        if not client.data.new:
            return self.adapt(client, message)
        mixing, V = self._received(message)
        return self._predictor(mixing.theta(mixing.uniform(V), V))

    def adapt(self, client: Client, message: Message) -> nn.Module:
        """Algorithm 2: ψ and, as classes differ between clients, the whole classifier; other weights are frozen."""
        return self._predictor(adapted(self._coefficients(message), client, self._tau))

    def local_weights(self, client: Client, message: Message) -> Tensor:
        """θ of the client's personal model"""
        return adapted(self._coefficients(message), client, self._tau)

    def client_snapshot(self, client: Client, message: Message) -> Message:
        """α of the client's personal model"""
        if BASES not in message:
            return {}
        coefficients = self._coefficients(message)
        adapted(coefficients, client, self._tau)
        return {ALPHA: softened(coefficients.psi, self._tau)}

    def _coefficients(self, message: Message) -> Coefficients:
        free = self.classifier if self.options.classifier_free_for_new else None
        return Coefficients(self.net, *self._received(message), free)

    @property
    def _tau(self) -> float:
        """Return the temperature of a personal model's α."""
        return self.options.tau if self.options.sharpen_new else 1.0

    def _received(self, message: Message) -> tuple[Mixing, Tensor]:
        """Return the bases; during the warm start the global model is the only one."""
        return (
            (self.mixing, tensor(message, BASES)) if BASES in message else (self.only_one, tensor(message, "w")[None])
        )

    @property
    def own_weights(self) -> slice:
        return self.fedavg.own_weights

    def _predictor(self, theta: Tensor) -> nn.Module:
        self.layout.bind(self.net, theta)
        return self.net.eval()


ENTRY = MethodEntry(
    "fedbasis",
    "personal mixtures of a few shared basis models",
    "FedBasis and PFLBED 2022",
    whole=FedBasis,
    down="K + 1",
)
