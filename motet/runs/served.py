"""The models that a finished run serves, as plain torch modules with memory of their own."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from motet.client import Client
from motet.data import ClientData, Prepare, Samples
from motet.engines import Task
from motet.errors import MotetError
from motet.message import Message
from motet.runs.assembly import assemble
from motet.runs.checkpoint import Checkpoints
from motet.runs.experiment import EngineSettings
from motet.runs.record import Record
from motet.runs.run import fitting, one_thread, restore
from motet.runs.trust import require_trust
from motet.scoring import family
from motet.weights import Layout


class RawModel(nn.Module):
    """A model behind the preparation of its data: takes samples as the data file has them."""

    def __init__(self, model: nn.Module, prepare: Prepare):
        super().__init__()
        self.model, self._prepare = deepcopy(model), prepare
        self.eval()

    def forward(self, x: npt.ArrayLike | Tensor) -> Tensor:
        """Logits of a batch of samples."""
        device = next(self.model.parameters()).device
        logits: Tensor = self.model(self._prepare.raw(x).to(device))
        return logits


class OnlyCounts(ClientData):
    """A client of which nothing is known but its class counts."""

    def __post_init__(self) -> None:
        """That it has no samples is the point."""


@dataclass
class ToldClient(Client):
    """A client whose class counts were told, not counted."""

    told: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))

    @property
    def counts(self) -> Tensor:
        """As told."""
        return self.told


class Served:
    """The last server state and private states of a run, ready to serve."""

    def __init__(self, record: Record, trust_code: bool = False):
        self.record, recorded = record, record.experiment
        require_trust(recorded, record.folder, trust_code)
        here = {"engine": EngineSettings.model_validate({"name": "inline"}), "device": "cpu"}
        with one_thread():
            self.assembly = replace(
                assemble(recorded.model_copy(update=here), record.checkpoint_folder), experiment=recorded
            )
            loaded = restore(self.assembly, Checkpoints(record.checkpoint_folder))
        if loaded is None:
            raise MotetError(f"run {record.folder} has no checkpoint, so it serves no models")
        self.server, self.round = loaded.server, loaded.round
        self.federation, self.method = self.assembly.federation, self.assembly.method

    def generic_model(self) -> nn.Module:
        """The G-FL model."""
        with self._fitting():
            flat = self.method.generic(self.server)
            if flat is None:
                raise MotetError(f"method {self.name!r} has no generic model; accepted: personal_model(client_id)")
            net = self.assembly.workplace.generic_net
            model = deepcopy(net)
            Layout(net).put(flat, model)
            return RawModel(model, self.federation.prepare)

    def personal_model(self, client_id: int) -> nn.Module:
        """The P-FL model of a client, as the last round scored it; a new client's is the adapted one."""
        if not 0 <= client_id < len(self.federation.clients):
            raise MotetError(f"client {client_id} is not there; accepted: 0 to {len(self.federation.clients) - 1}")
        with self._fitting():
            return self._personal_model(client_id)

    def _personal_model(self, client_id: int) -> nn.Module:
        message = self.method.broadcast(self.server, client_id)
        private = dict(self.assembly.engine.private(client_id))
        client = self.assembly.workplace.client(Task("score", client_id, self.round, message), private)
        if client.data.new:
            return self._adapt(client, message)
        with one_thread():
            client = client.reading(self.assembly.experiment.scoring.readings[0])
            if client.pm_source == "final_sync" and not self.method.keeps_nothing:
                client = self.assembly.workplace.synced(client, message)
            if self.method.family:
                return self._raw(self.method.member(client, message, self._member(client_id)))
            return self._raw(self.method.personal(client, message))

    def adapted(self, x: Any, y: Any) -> nn.Module:
        """The model of a client that comes with samples and labels."""
        samples = self._samples(x, y)
        nothing = samples.part(0, 0)
        data = ClientData(self.next_id, samples, nothing, nothing, new=True)
        client = self.assembly.workplace.client_of(data, self.round, {})
        with self._fitting():
            return self._adapt(client, self.method.broadcast(self.server, client.id))

    def adapted_to_counts(self, counts: Sequence[int]) -> nn.Module:
        """The model of a client that tells its class counts and nothing else."""
        told, classes = np.array(counts), self.federation.classes
        if told.shape != (classes,) or told.dtype.kind not in "iu" or told.min() < 0 or not told.any():
            raise MotetError(f"counts is {told.tolist()}; accepted: {classes} whole numbers, not negative, not all 0")
        if not self.method.from_counts:
            raise MotetError(
                f"method {self.name!r} makes no model from class counts alone; "
                f"accepted: adapt(x, y), or a method that does, such as fedrod(head=hyper)"
            )
        nothing = self.federation.stored.part(0, 0)
        data = OnlyCounts(self.next_id, nothing, nothing, nothing, new=True)
        client = ToldClient(
            **vars(self.assembly.workplace.client_of(data, self.round, {})),
            told=torch.from_numpy(told.astype(np.int64)),
        )
        with one_thread(), self._fitting():
            return self._raw(self.method.personal(client, self.method.broadcast(self.server, client.id)))

    def _fitting(self) -> AbstractContextManager[None]:
        return fitting(f"run {self.record.folder} cannot serve this model")

    @property
    def name(self) -> str:
        """The method's."""
        return self.assembly.experiment.method

    @property
    def next_id(self) -> int:
        """The number of a client that joins now."""
        return len(self.federation.clients)

    def _member(self, client_id: int) -> str:
        """Which of the client's family of models the last round reported, told from the scores in the record."""
        of = self.method.family
        assert of is not None
        rows = [row for row in self.record.clients if row.get("round") == self.round and not row.get("new")]
        scored = {row["client"]: row for row in rows if "client" in row and row.get("set_aside") is None}
        data = self.assembly.experiment.scoring.headline.data
        chosen = family.chosen_by(of.rule, family.choose(list(scored.values()), of.members, of.fixed, data))
        mine: dict[int, str] = dict(zip(scored, chosen, strict=True))
        return mine.get(client_id, of.fixed)

    def _adapt(self, client: Client, message: Message) -> nn.Module:
        with one_thread():
            return self._raw(self.method.adapt(client.selecting(client.adapt.selections[0]), message))

    def _raw(self, model: nn.Module | None) -> nn.Module:
        if model is None:
            raise MotetError(f"method {self.name!r} has no model for this client; accepted: adapt(x, y)")
        return RawModel(model, self.federation.prepare)

    def _samples(self, x: Any, y: Any) -> Samples:
        """A user's arrays as the federation stores samples."""
        prepare, classes = self.federation.prepare, self.federation.classes
        stored = prepare.stored(x)
        labels = y.numpy(force=True) if isinstance(y, Tensor) else np.array(y)
        if labels.shape != (len(stored),) or labels.dtype.kind not in "iu" or not len(labels):
            raise MotetError(
                f"y has shape {labels.shape} and type {labels.dtype}; accepted: one whole number for each of the "
                f"{len(stored)} samples, at least one"
            )
        wrong = labels[(labels < 0) | (labels >= classes)]
        if len(wrong):
            raise MotetError(f"y holds label {wrong[0]}; accepted: 0 to {classes - 1}")
        return Samples(stored.contiguous(), torch.from_numpy(labels.astype(np.int64)), prepare)
