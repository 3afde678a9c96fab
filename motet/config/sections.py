"""The smaller sections of an experiment: [net], [rounds], [local], [adapt], [engine] and [checkpoint]."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, ValidatorFunctionWrapHandler, WrapValidator

from motet.config.section import Section, one_or_several, tried
from motet.errors import MotetError

Selection = Literal["last", "best_on_validation"]
"""The rules for which epoch of a new client's adaptation is kept."""


class NetSettings(Section):
    """[net]: the network, and where its head begins."""

    name: str = Field(
        "auto",
        description="a network of `motet list nets`, with options such as resnet8(norm=group); auto = the data's",
    )
    head: str = Field("auto", description="the first stage of the head; auto = the network's own")
    weights: str = Field("", description="a .safetensors file with the first weights; empty = random ones")
    weights_head: bool = Field(True, description="take the head from that file too; false = random, for other classes")
    weights_sha256: str = Field("", description="the SHA-256 of that file; empty = as it is, and a run notes it")
    batch_statistics: bool = Field(
        False, description="BatchNorm by each batch's own statistics, in scoring too; false = by running ones"
    )


def _one_stays_whole(value: Any, checked: ValidatorFunctionWrapHandler) -> float:
    """Keep 1 (one client) apart from 1.0 (all clients); other numbers mean the same as int and float."""
    number: float = checked(value)
    return 1 if type(value) is int and number == 1 else number


class RoundSettings(Section):
    """[rounds]: how long, and how many clients take part each time."""

    count: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        20,
        description="rounds of training; auto: until the figure on validation data has not improved for `patience` "
        "rounds, and the models of the best round are kept (default for data of your own, and in compare)",
    )
    most: int = Field(100, ge=1, description="with auto, the number of rounds after which it ends in any case")
    patience: int = Field(12, ge=1, description="with auto, rounds without a better figure after which it ends")
    horizon: int = Field(
        0,
        ge=0,
        description="rounds for which methods lay out their schedules, such as SuPerFed's start; 0 = count, with auto "
        "most",
    )
    cohort: Annotated[float, WrapValidator(_one_stays_whole)] = Field(
        0.4,
        gt=0,
        description="clients per round: a number such as 1 or 5, or a share such as 0.4; 1 is one, 1.0 is all",
    )

    @property
    def last(self) -> int:
        """Return the number of the last round; with auto, of the last that there may be."""
        return self.most if self.count == "auto" else self.count

    @property
    def laid_out_for(self) -> int:
        """Return the number of rounds that methods lay out their schedules for."""
        return self.horizon or self.last

    def cohort_size(self, clients: int) -> int:
        """Return how many of the training clients take part in a round; raise if there are too few."""
        if isinstance(self.cohort, float) and self.cohort <= 1:
            return max(1, int(self.cohort * clients + 1e-9))
        if self.cohort != int(self.cohort) or self.cohort > clients:
            raise MotetError(
                f"rounds.cohort is {self.cohort:g}; accepted: a share up to 1, or a whole number up to the "
                f"{clients} clients that take part in training"
            )
        return int(self.cohort)


NumberLoss = Literal["auto", "squared", "absolute", "huber"]


class LocalSettings(Section):
    """[local]: what a client does with its own data in one round."""

    epochs: int = Field(5, ge=1, description="passes over the client's training data per round")
    steps: int = Field(0, ge=0, description="gradient steps per round instead of epochs; 0 = use epochs")
    batch: int = Field(
        40,
        ge=0,
        description="samples per gradient step; 0 = by the size of clients (default for tables of your own): a quarter "
        "of the median client's training samples, as a power of two from 16 to 128",
    )
    drop_last: bool = Field(False, description="leave out the last, smaller batch of an epoch")
    optimizer: Literal["sgd", "adam", "adamw"] = Field(
        "sgd",
        description="of the local steps: SGD as in the papers; Adam, or AdamW with weight decay apart from the "
        "gradient, whose first beta is `momentum` and whose moments begin anew in every round",
    )
    lr: float = Field(
        0.01,
        gt=0,
        description="learning rate of the first round",
        json_schema_extra=tried(0.001, 0.003, 0.01, 0.03, 0.1),
    )
    lr_decay: float = Field(0.99, gt=0, le=1, description="factor on the learning rate per round")
    momentum: float = Field(
        0.9, ge=0, lt=1, description="heavy-ball momentum of the local steps; of Adam, its first beta"
    )
    weight_decay: float = Field(1e-5, ge=0, description="pull of every trained parameter towards zero")
    momentum_across_rounds: Literal["reset", "persist"] = Field(
        "reset", description="start each round with fresh momentum, or with the client's last"
    )
    clip: float = Field(
        0.0,
        ge=0,
        description="largest gradient norm; 0 = no clipping; what parts add to the net has a norm of its own",
    )
    batched_clients: bool = Field(
        True, description="train several clients as one computation where the net is small; equal up to rounding"
    )
    loss: NumberLoss = Field(
        "auto",
        description="of numbers as targets: squared, absolute, or huber (squared up to one deviation); auto = squared; "
        "classes have cross-entropy, or what the method puts in its place",
    )

    def at_round(self, round: int) -> float:
        """Return the learning rate of a round (the first is 1; 0 counts as 1). Never 0, since methods divide by it."""
        return max(self.lr * self.lr_decay ** max(round - 1, 0), 1e-30)


class AdaptSettings(Section):
    """[adapt]: how a client that took no part in training is served."""

    epochs: int = Field(5, ge=1, description="passes over the new client's training data")
    lr: float = Field(0.01, gt=0, description="learning rate of the adaptation")
    select: Annotated[Selection | tuple[Selection, ...], BeforeValidator(one_or_several(*get_args(Selection)))] = Field(
        "last",
        description="keep the last epoch's model, or the best on a tenth of the client's training data (with pflbed: "
        "on its domain's validation set); of a list the first is the headline, and each is scored",
    )

    @property
    def selections(self) -> tuple[Selection, ...]:
        """The rules of all adapted models that are scored, the headline's first."""
        return self.select if isinstance(self.select, tuple) else (self.select,)


class EngineSettings(Section):
    """[engine]: where client work runs; the numbers are the same everywhere, but for `partial_sums` up to rounding."""

    name: str = Field(
        "auto",
        description="inline: one process; pool: worker processes on this machine; ray: workers in a Ray cluster; auto: "
        "with more than one core, a pool that starts its workers once the run has lasted some seconds",
    )
    workers: int = Field(0, ge=0, le=1024, description="worker processes; 0 = one per core")
    ray_address: str = Field(
        "", description="HOST:PORT of a running Ray cluster; without one, ray starts on this machine alone"
    )
    states: Literal["auto", "driver", "cluster"] = Field(
        "auto",
        description="with ray, where private states are between rounds: driver, with this process; cluster, on the "
        "nodes that made them; auto: on the nodes where those of all clients take more than 256 MB",
    )
    data: Literal["driver", "path"] = Field(
        "driver",
        description="with ray, where workers have the samples from: driver, which sends them to each node once; path, "
        "each worker reads data.name itself, which must be there with the same content",
    )
    gpus: float = Field(
        0.0, ge=0, le=64, description="with ray, GPUs per worker, such as 0.25; 0 = 1 with device = cuda, else none"
    )
    partial_sums: int = Field(
        0,
        ge=0,
        le=10_000,
        description="how many clients' uploads a worker adds up before they travel, where their rule is mean or sum; "
        "the numbers are then equal up to rounding alone; 0 = each travels by itself",
    )


class CheckpointSettings(Section):
    """[checkpoint]: how much work a kill can cost."""

    every: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto",
        description="rounds between checkpoints; auto: as often as takes no more than a twentieth of the time; "
        "the last round is always saved",
    )
