"""The models of a finished run, as plain torch modules that share no memory with it."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from motet.config.experiment import Experiment
from motet.config.sections import EngineSettings
from motet.data import ClientData, FederationFacts, Prepare, Samples
from motet.data.holdings import AbsentFederation, AbsentSamples, NeedsData
from motet.engines import Inline
from motet.engines.elsewhere import FLOWER, StatesElsewhere
from motet.errors import MotetError, shown
from motet.io.user_code import place_of
from motet.messages.message import Message, State
from motet.messages.task import Task
from motet.metrics import family
from motet.metrics.registry import headline_metric
from motet.metrics.threshold import ClientThreshold, Thresholds
from motet.nets import Net
from motet.runs.checkpoint import Checkpoints
from motet.runs.fitting_states import UsedStates
from motet.runs.folder import data_from, with_kept_weights
from motet.runs.raw_model import RawModel
from motet.runs.record import Record
from motet.runs.run import one_thread, restore
from motet.runs.serving_file import read_serving
from motet.runs.thresholds_file import read_thresholds
from motet.runs.trust import require_trust
from motet.server.assembly import ServerSide, assemble, workplace_of
from motet.server.workplace import Workplace
from motet.training.client import Client
from motet.training.flat_weights import Layout

T = TypeVar("T")


NEW_CLIENT = "the model of a new client"  # in sentences
MOST_DIGITS = 12  # of the id of a client


class OnlyCounts(ClientData):
    """The data of a client of which only the class counts are known."""

    def __post_init__(self) -> None:
        """Skip the check that a client has samples."""


@dataclass
class ToldClient(Client):
    """A client whose class counts are given instead of counted from samples."""

    told: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))

    @property
    def counts(self) -> Tensor:
        """The class counts that were given."""
        return self.told


class ModelWorkbench:
    """Makes models from the last states of a run, with or without the data of its clients."""

    def __init__(self, record: Record, side: ServerSide, workplace: Workplace):
        self.record, self.side, self.workplace = record, side, workplace
        self.method, self.prepare, self.facts = side.method, workplace.holdings.prepare, side.federation_facts
        with one_thread():
            loaded = restore(side, Checkpoints(record.checkpoint_folder))
        if loaded is None:
            raise MotetError(f"run {record.folder} has no checkpoint, so it serves no models")
        self.round = loaded.round
        what = f"run {record.folder} cannot serve this model"
        self.states = UsedStates(what, side.method, side.engine, loaded)

    @classmethod
    def with_data(cls, record: Record, place: str | None = None) -> "ModelWorkbench":
        """Return a workbench that reads the data of the run again; raise `MotetError` if they are not here.

        `place` is where the data are, if not where the record says.
        """
        recorded = with_kept_weights(record.experiment, record.folder)
        assembly = assemble(data_from(_here(recorded), place), record.checkpoint_folder)
        return cls(record, replace(assembly, experiment=recorded), assembly.workplace)

    @classmethod
    def without_data(cls, record: Record) -> "ModelWorkbench | None":
        """Return a workbench made from the run folder alone, or None if it holds no serving.json."""
        kept = read_serving(record)
        if kept is None:
            return None
        facts, prepare = kept
        recorded = with_kept_weights(record.experiment, record.folder)
        try:
            workplace = workplace_of(_here(recorded), AbsentFederation(facts, prepare), facts)
        except (RuntimeError, ValueError) as error:  # torch's errors for inputs that the net cannot take
            if place_of(error):
                raise
            why = (str(error).splitlines() or [""])[0][:150]
            raise MotetError(
                f"run {record.folder} cannot be served: its net does not fit serving.json ({why})"
            ) from error
        at_sites = recorded.engine.name == FLOWER
        engine = StatesElsewhere() if at_sites else Inline(workplace, record.checkpoint_folder)
        return cls(record, ServerSide(recorded, facts, workplace.method, workplace.generic_net, engine), workplace)

    def generic_model(self) -> RawModel:
        """Return the generic (G-FL) model; raise `MotetError` if the method has none."""
        return self.states.make(self._generic_model)

    def personal_model(self, client_id: int) -> RawModel:
        """Return the personal (P-FL) model of a client as last scored; a new client's is the adapted one."""
        with one_thread():
            return self.states.make(lambda server: self._personal_model(server, client_id))

    def adapted(self, client_id: int, samples: Samples) -> RawModel:
        """Return the model of a new client, adapted to its samples."""
        client = self._newcomer(client_id, samples)
        with one_thread():
            return self.states.make(lambda server: self._adapt(client, self.method.broadcast(server, client.id)))

    def before_adapting(self, client_id: int, samples: Samples) -> RawModel | None:
        """Return the model of a new client before adaptation, or None if the method has none."""
        client = self._newcomer(client_id, samples)
        with one_thread():
            model = self.states.make(lambda s: self.method.personal(client, self.method.broadcast(s, client.id)))
            return None if model is None else RawModel(model, self.prepare, self.facts.class_names)

    def adapted_to_counts(self, client_id: int, told: Tensor) -> RawModel:
        """Return the model of a new client made from its class counts; raise if the method cannot do that."""
        if not self.method.from_counts:
            raise MotetError(
                f"method {self.name!r} makes no model from class counts alone; "
                f"accepted: adapt(x, y), or a method that does, such as fedrod(head=hyper)"
            )
        nothing = AbsentSamples("a client that told its class counts", 0, self.prepare)
        data = OnlyCounts(client_id, nothing, nothing, nothing, new=True)
        client = ToldClient(**vars(self.workplace.client_of(data, self.round, {})), told=told)
        with one_thread():
            model = self.states.make(lambda s: self.method.personal(client, self.method.broadcast(s, client.id)))
            return self._raw(model)

    def _generic_model(self, server: State) -> RawModel:
        flat = self.method.generic(server)
        if flat is None:
            raise MotetError(f"method {self.name!r} has no generic model; accepted: personal_model(client)")
        net = self.workplace.generic_net
        model = deepcopy(net)
        Layout(net).put(flat, model)
        return RawModel(model, self.prepare, self.facts.class_names)

    def _personal_model(self, server: State, client_id: int) -> RawModel:
        message = self.method.broadcast(server, client_id)
        private = dict(self.side.engine.private(client_id))
        client = self.workplace.client(Task("score", client_id, self.round, message), private)
        if client.data.new:
            return self._adapt(client, message)
        client = self.workplace.shown(self.workplace.read(client, message))
        self.method.net.eval()
        if self.method.family:
            return self._raw(self.method.member(client, message, self._member(client_id)))
        return self._raw(self.method.personal(client, message))

    def _newcomer(self, client_id: int, samples: Samples) -> Client:
        nothing = samples.part(0, 0)
        return self.workplace.client_of(ClientData(client_id, samples, nothing, nothing, new=True), self.round, {})

    @property
    def name(self) -> str:
        """The name of the method."""
        return self.side.experiment.method

    def _member(self, client_id: int) -> str:
        """Return which member of the method's family the last round reported for a client, from the record."""
        of = self.method.family
        assert of is not None
        rows = [row for row in self.record.clients if row["round"] == self.round and not row["new"]]
        scoring = self.side.experiment.scoring
        data, metric = scoring.headline.data, headline_metric(scoring)
        return family.reported(rows, of.members, of.fixed, of.rule, data, metric).get(client_id, of.fixed)

    def _adapt(self, client: Client, message: Message) -> RawModel:
        client = self.workplace.shown(client.selecting(client.adapt.selections[0]))
        self.method.net.train()
        return self._raw(self.method.adapt(client, message))

    def _raw(self, model: nn.Module | None) -> RawModel:
        if model is None:
            raise MotetError(f"method {self.name!r} has no model for this client; accepted: adapt(x, y)")
        return RawModel(model, self.prepare, self.facts.class_names)


class ServedModels:
    """The models of a run, made from its folder alone where that is enough, otherwise with its data."""

    def __init__(self, record: Record, trust_code: bool = False, place: str | None = None):
        """Take the record of a finished run; `place` is where its data are, if not where the record says."""
        require_trust(record.experiment, record.folder, trust_code)
        self.record, self.trust_code, self.place = record, trust_code, place
        self._alone = ModelWorkbench.without_data(record)

    @cached_property
    def _whole(self) -> ModelWorkbench:
        return ModelWorkbench.with_data(self.record, self.place)

    @property
    def _any(self) -> ModelWorkbench:
        return self._alone or self._whole

    @property
    def facts(self) -> FederationFacts:
        """Facts about the clients and classes of the run."""
        return self._any.facts

    def generic_model(self) -> RawModel:
        """Return the generic (G-FL) model; raise `MotetError` if the method has none."""
        return self._with_threshold(self._any.generic_model(), None)

    @cached_property
    def thresholds(self) -> Thresholds | None:
        """The thresholds that the run chose, or None."""
        return read_thresholds(self.record)

    def threshold_of(self, client_id: int | None) -> ClientThreshold | None:
        """Return the threshold of a client's model, or for None of the generic one; None if none was chosen.

        A client that came after training has the one that was chosen for all.
        """
        found = self.thresholds
        if found is None:
            return None
        common = ClientThreshold(found.common, client_id is None, found.rows)
        return common if client_id is None else found.clients.get(client_id, common)

    def _with_threshold(self, model: RawModel, client_id: int | None) -> RawModel:
        found = self.threshold_of(client_id)
        model.threshold = None if found is None else found.value
        return model

    def personal_model(self, client: int | str) -> RawModel:
        """Return the personal (P-FL) model of a client by its id or name; a new client's is the adapted one."""
        client_id = self.number_of(client)
        model = self._made(lambda bench: bench.personal_model(client_id), f"the personal model of client {client}")
        return self._with_threshold(model, client_id)

    def adapted(self, x: Any, y: Any) -> RawModel:
        """Return the model of a new client, adapted to these samples and labels."""
        samples = self._samples(x, y)
        model = self._made(lambda bench: bench.adapted(self.next_id, samples), NEW_CLIENT)
        return self._with_threshold(model, self.next_id)

    def before_adapting(self, x: Any, y: Any) -> RawModel | None:
        """Return the model of a new client with these data before adaptation, or None if the method has none."""
        samples = self._samples(x, y)
        model = self._made(lambda bench: bench.before_adapting(self.next_id, samples), NEW_CLIENT)
        return None if model is None else self._with_threshold(model, self.next_id)

    def adapted_to_counts(self, counts: Sequence[int]) -> RawModel:
        """Return the model of a new client made from its class counts; raise if the method cannot do that."""
        given, classes = np.array(counts), self.facts.classes
        if given.shape != (classes,) or given.dtype.kind not in "iu" or given.min() < 0 or not given.any():
            raise MotetError(f"counts is {given.tolist()}; accepted: {classes} whole numbers, not negative, not all 0")
        asked = torch.from_numpy(given.astype(np.int64))
        model = self._made(lambda bench: bench.adapted_to_counts(self.next_id, asked), NEW_CLIENT)
        return self._with_threshold(model, self.next_id)

    @property
    def plain_net(self) -> Net:
        """The net of the run without what the method added to it."""
        return self._any.workplace.generic_net

    @property
    def prepare(self) -> Prepare:
        """The preparation that turns samples of the data file into network input."""
        return self._any.prepare

    @property
    def round(self) -> int:
        """The round of the states that the models are made from."""
        return self._any.round

    def real_samples(self, most: int) -> Tensor | None:
        """Return up to `most` samples as in the data file, of the common test set, or of a client if that is empty.

        Return None if the data are not here.
        """
        try:
            test, clients = self._whole.facts.test, self._whole.workplace.holdings.clients
        except MotetError:
            return None
        if test is not None and not len(test):
            test = next(iter(clients.values() if isinstance(clients, Mapping) else clients)).train
        return None if test is None else test.prepare.as_given(test.x[:: max(1, len(test) // most)][:most])

    def training_losses(self, models: Mapping[int, RawModel], most: int = 2000) -> dict[int, float]:
        """Return the mean loss of a model for each of these clients, on up to `most` of the rows that it trained with
        here."""
        clients = self._whole.workplace.holdings.clients
        found = {}
        for data in clients.values() if isinstance(clients, Mapping) else clients:
            if data.id in models and len(data.train):
                found[data.id] = _mean_loss(models[data.id].model, data.train.part(0, min(most, len(data.train))))
        return found

    @property
    def next_id(self) -> int:
        """The id that a new client gets."""
        return len(self.facts.clients)

    def number_of(self, client: int | str) -> int:
        """Return the id of a client given by id or name; raise `MotetError` unless there is exactly one.

        A text that is a number, and nobody's name, is an id.
        """
        clients = self.facts.clients
        if isinstance(client, str):
            found = [each.id for each in clients if each.name == client]
            if len(found) == 1:
                return found[0]
            if not found and client.isdecimal() and len(client) <= MOST_DIGITS:
                return self.number_of(int(client))
            near = difflib.get_close_matches(client, [each.name for each in clients], n=3)
            some = ", ".join(repr(name) for name in near or [each.name for each in clients[:3]])
            much = f"{len(found)} clients are" if found else "no client is"
            raise MotetError(f"{much} named {client[:100]!r}; accepted: such as {some}, or 0 to {len(clients) - 1}")
        if isinstance(client, bool) or not isinstance(client, int | np.integer) or not 0 <= client < len(clients):
            raise MotetError(f"client {str(client)[:100]} is not there; accepted: 0 to {len(clients) - 1}, or a name")
        return int(client)

    def _made(self, make: Callable[[ModelWorkbench], T], what: str) -> T:
        """Return what `make` makes without the data, or with them if it needs them; raise if they are not here."""
        if self._alone is None:
            return make(self._whole)
        try:
            return make(self._alone)
        except NeedsData:
            method = self._alone.name
        try:
            whole = self._whole
        except MotetError as error:
            raise MotetError(
                f"{what} is made of the client's own data by method {method!r}, and they are not here "
                f"({str(error)[:200]}); accepted: a machine that has them, or adapt(x, y)"
            ) from error
        return make(whole)

    def _samples(self, x: Any, y: Any) -> Samples:
        """Return a user's arrays as samples; raise `MotetError` if labels do not fit the samples or the classes."""
        prepare, classes = self._any.prepare, self.facts.classes
        stored = prepare.stored(x)
        labels = y.numpy(force=True) if isinstance(y, Tensor) else np.array(y)
        if prepare.target is not None:
            if labels.shape != (len(stored),) or labels.dtype.kind not in "iuf" or not np.isfinite(labels).all():
                raise MotetError(
                    f"y has shape {labels.shape} and type {labels.dtype}; accepted: one number for each of the "
                    f"{len(stored)} samples"
                )
            return Samples(stored.contiguous(), torch.from_numpy(labels.astype(np.float64)), prepare)
        if labels.dtype.kind in "UO" and labels.ndim == 1:
            labels = self._numbers_of(labels.tolist())
        if labels.shape != (len(stored),) or labels.dtype.kind not in "iu" or not len(labels):
            raise MotetError(
                f"y has shape {labels.shape} and type {labels.dtype}; accepted: one whole number for each of the "
                f"{len(stored)} samples, at least one"
            )
        wrong = labels[(labels < 0) | (labels >= classes)]
        if len(wrong):
            raise MotetError(f"y holds label {wrong[0]}; accepted: 0 to {classes - 1}")
        return Samples(stored.contiguous(), torch.from_numpy(labels.astype(np.int64)), prepare)

    def _numbers_of(self, labels: list[object]) -> npt.NDArray[np.int64]:
        """Return the class numbers of labels that are class names; raise for a name that is no class."""
        number = {name: i for i, name in enumerate(self.facts.class_names)}
        unknown = next((label for label in labels if str(label) not in number), None)
        if unknown is not None:
            raise MotetError(f"y holds label {shown(unknown)}; accepted: {', '.join(map(shown, number))}")
        return np.array([number[str(label)] for label in labels], np.int64)


def _here(experiment: Experiment) -> Experiment:
    """Return the experiment set to the inline engine and the CPU, wherever the run was computed."""
    here = {"engine": EngineSettings.model_validate({"name": "inline"}), "device": "cpu"}
    return experiment.model_copy(update=here)


def _mean_loss(model: nn.Module, samples: Samples) -> float:
    """Return the mean cross entropy of a model, or the mean squared error where the labels are numbers."""
    total, was = 0.0, model.training
    model.eval()
    with torch.no_grad():
        for x, y in samples.all_batches(500):
            said = model(x)
            loss = mse_loss(said.squeeze(1), y) if y.is_floating_point() else cross_entropy(said, y)
            total += float(loss) * len(y)
    model.train(was)
    return total / len(samples)
