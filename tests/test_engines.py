"""What engines owe: bytes counted, sites that hold one client, work set aside, randomness of one's own."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from motet.data import ClientData, FederationFacts, Holdings, Site
from motet.engines import ClientStates, Engine, Inline, OneByOne
from motet.errors import MotetError
from motet.io.hashed_files import ClientFiles, Damaged
from motet.messages.message import Message, State, decode, encode
from motet.messages.task import EVERY_TASK, LOSS_BYTES, SITE_TASKS, Outcome, Task, TaskKind
from motet.methods import METHODS
from motet.methods.base import MethodEntry, Part, Training
from motet.runs.run import run
from motet.server.assembly import ServerSide, assemble, method_of, net_of, settle, workplace_of
from motet.server.round_loop import RoundLoop, RunState
from motet.testing.twin import Notes, Played, Strict, last_states, play, tiny
from motet.training.client import Client


@cache
def played(method: str, strict: bool) -> Played:
    """The tiny run of a method, played once for all tests."""
    return play(tiny(method), strict)


def test_local_sends_nothing_but_its_training_loss() -> None:
    local = play(tiny("local", scoring={"train_loss": False}), strict=True)
    assert [(row["bytes_down"], row["bytes_up"]) for row in local.rows] == [(0, 0)] * 3
    trained = [e for e in local.engine.exchanges if e.task.kind == "train"]
    assert len(trained) == 6 and all(e.sent == e.answered == encode({}) for e in trained)
    told = [e for e in played("local", strict=True).engine.exchanges if e.task.kind == "train"]
    assert len(told) == 6 and all(e.answered == encode({}) and e.train_loss is not None for e in told)


def test_fedavg_sends_the_model_down_and_the_model_and_n_up() -> None:
    fedavg = played("fedavg", strict=True)
    w = fedavg.server["w"]
    down, up = len(encode({"w": w})), len(encode({"w": w, "n": 1})) + LOSS_BYTES
    assert [(row["bytes_down"], row["bytes_up"]) for row in fedavg.rows] == [(2 * down, 2 * up)] * 3


def test_a_site_holds_one_client_and_nothing_of_the_others() -> None:
    federation = assemble(tiny("fedavg")).federation
    own = Site.of(federation, federation.clients[2], shows_shared_data=False)
    assert list(own.clients) == [2]
    train = own.clients[2].train
    assert train.x.untyped_storage().nbytes() == train.x.numel() * train.x.element_size()  # no view of all the data
    with pytest.raises(KeyError):
        own.pooled()
    with pytest.raises(MotetError, match=r"^client 2 was given no shared data; accepted: a method that declares it$"):
        own.shared_data()


# ---------------------------------------------------------------- the engines' own rules


def keeps_round(task: Task, private: State) -> Outcome:
    """Work that remembers the round it was done in."""
    kept: State | None = {"round": task.round, "before": int(private.get("round", 0))} if task.kind == "train" else None
    return task.answered({"was": int(private.get("round", 0))}, kept)


def test_inline_keeps_private_states_and_the_order_of_tasks() -> None:
    engine = Inline(OneByOne(keeps_round))
    outcomes = list(engine.run([Task("train", 3, 1, {}), Task("train", 1, 1, {})]))
    assert [o.client_id for o in outcomes] == [3, 1]
    list(engine.run([Task("train", 3, 2, {}), Task("score", 1, 2, {})]))
    assert engine.private(3) == {"round": 2, "before": 1} and engine.private(1) == {"round": 1, "before": 0}
    assert engine.private(7) == {}
    engine.states.put(7, {"round": 5})
    assert next(iter(engine.run([Task("train", 7, 6, {})]))).reply == {"was": 5}


@pytest.mark.parametrize("strict", [False, True])
def test_only_training_changes_private_states(strict: bool) -> None:
    run = play(tiny("scaffold", scoring={"personal_model": "final_sync"}), strict=strict)
    assembly, before = run.assembly, run.private()
    assembly.evaluator.training_clients(run.server, 3, last=True)  # trains once more, but only to score
    assembly.evaluator.new_clients(run.server, 3)
    assert run.private() == before


def test_a_diverged_client_keeps_its_private_state() -> None:
    scoring = {"personal_model": "last_participation"}
    assembly = assemble(tiny("scaffold", local={"momentum_across_rounds": "persist"}, scoring=scoring))
    engine = Inline(OneByOne(assembly.workplace.perform))
    message = assembly.method.broadcast(assembly.method.start(), 0)
    list(engine.run([Task("train", 0, 1, message)]))
    kept = engine.private(0)
    before = encode(kept)
    assert {"model", "velocity", "scaffold.c_i"} <= kept.keys()
    bad = Task("train", 0, 2, message | {"w": message["w"] * float("inf")})
    outcome = next(iter(engine.run([bad])))
    assert outcome.reply is None and outcome.private is None
    assert outcome.failure == "training left the finite numbers (NaN or infinity in the weights)"
    assert engine.private(0) is kept and encode(kept) == before


class SendsNaN(Part):
    """Wrong on purpose: a finite model, but a reply that is not."""

    def after(self, t: Training, reply: Message) -> None:
        """NaN beside w."""
        reply["sends.nan"] = torch.tensor([1.0, math.nan])


def test_a_reply_with_nan_is_set_aside_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "sends", MethodEntry("sends", "", "", part=SendsNaN))
    assembly = assemble(tiny("sends"))
    message = assembly.method.broadcast(assembly.method.start(), 0)
    task = Task("train", 0, 1, message)
    assert assembly.workplace.perform(task, {}) == task.failed("the reply's 'sends.nan' holds NaN or infinity")


def test_a_clients_randomness_is_its_own() -> None:
    workplace = assemble(tiny("fedavg")).workplace

    def draw(client_id: int, round: int, purpose: str) -> list[float]:
        client: Client = workplace.client(Task("train", client_id, round, {}), {})
        return torch.rand(3, generator=client.rng(purpose)).tolist()

    draws = [draw(i, r, p) for i in (0, 1) for r in (1, 2) for p in ("train", "adapt")]
    assert draw(0, 1, "train") == draws[0]
    assert len({tuple(d) for d in draws}) == 8


def test_the_strict_engine_gives_states_back() -> None:
    assembly = assemble(tiny("fedavg"))
    engine = Strict(assembly, assembly.federation)
    state: State = {"private": torch.arange(3.0), "seen": 4}
    engine.states[2] = encode(state)
    entries = engine.keep(1)
    engine.states = {2: encode({}), 3: encode(state)}
    engine.go_back(1, entries)
    assert encode(engine.private(2)) == encode(state)
    assert engine.private(3) == {}


# ---------------------------------------------------------------- a server without data


@pytest.mark.parametrize("method", ["scaffold", "fedrod(loss=meta-bsm)", "dbe", "centralized"])
def test_the_server_side_of_a_run_needs_no_sample_of_a_client(method: str) -> None:
    """Only the engine, here the strict twin, still has the data when the rounds begin."""
    experiment, here = tiny(method), assemble(tiny(method))
    facts = FederationFacts.of(here.federation)
    here.federation.clients.clear()
    here.federation.stored.x.zero_()
    server = ServerSide(experiment, facts, method_of(experiment, facts), net_of(experiment, facts), here.engine)
    server.engine, notes = Strict(server, assemble(experiment).federation), Notes()
    server.refuse_what_cannot_be_followed()
    progress = RoundLoop(server, notes).run(RunState(0, server.method.start()))
    new = server.evaluator.new_clients(progress.server, progress.round)
    inline = play(experiment)
    assert notes.clients == inline.clients and new.clients == inline.new.clients
    assert encode(progress.server) == encode(inline.server)


def test_facts_know_each_domains_test_set_as_the_data_do() -> None:
    federation = assemble(tiny("fedavg")).federation
    domains = torch.arange(len(federation.test)) % 3
    clients = [replace(client, domain=client.id % 3) for client in federation.clients]
    federation = replace(federation, clients=clients, test_domains=domains)
    facts = FederationFacts.of(federation)
    for client in federation.clients:
        assert torch.equal(facts.common_test(client.domain).y, federation.common_test(client).y)
    assert facts.common_test(None) is federation.test
    assert replace(facts, test_domains=None).common_test(2) is federation.test
    assert replace(facts, test=None, test_domains=None).common_test(2) is None


@pytest.mark.parametrize("common_test", ["always", "last"])
def test_where_nobody_has_a_common_test_set_clients_are_scored_on_their_own(common_test: str) -> None:
    experiment = tiny("fedavg", data={"test_share": 0.2}, scoring={"every": 1, "common_test": common_test})
    assembly = assemble(experiment)
    nobodys = replace(assembly.federation_facts, test=None, test_domains=None)
    scored = assembly.workplace.holdings
    assembly = replace(assembly, federation_facts=nobodys)
    assembly.workplace.holdings = NoCommonTest(scored)
    played = play(experiment, assembly=assembly)
    plain = play(experiment)
    assert encode(played.server) == encode(plain.server)
    last = played.rows[-1]
    assert last["personal.split.accuracy.mean"] == plain.rows[-1]["personal.split.accuracy.mean"]
    assert 0 < last["generic.common.accuracy.pooled"] < 1
    assert last["generic.weighted.accuracy.mean"] is last["personal.weighted.accuracy.mean"] is None


class NoCommonTest:
    """Holdings whose clients have no test set but their own."""

    def __init__(self, holdings: Holdings):
        self.clients, self.shared_data, self.pooled = holdings.clients, holdings.shared_data, holdings.pooled

    def common_test(self, client: ClientData) -> None:
        """Nobody has one."""


# ---------------------------------------------------------------- kept, and gone back to


@pytest.mark.parametrize("strict", [False, True])
def test_rounds_played_again_after_going_back_end_the_same(strict: bool) -> None:
    played = play(tiny("scaffold", local={"momentum_across_rounds": "persist"}), strict)
    assembly, engine = played.assembly, played.engine
    entries, kept = engine.keep(3), played.private()
    engine.kept(3)
    assert sorted(entries) == [i for i, state in sorted(kept.items()) if decode(state)]

    def another_round() -> tuple[bytes, dict[int, bytes]]:
        longer = replace(assembly, experiment=assembly.experiment.with_({"rounds.count": 4}))
        return encode(RoundLoop(longer, Notes()).run(RunState(3, played.server)).server), played.private()

    once = another_round()
    assert once[1] != kept
    engine.go_back(3, entries)
    assert played.private() == kept
    assert another_round() == once


def test_a_kept_state_that_is_not_there_any_more_is_damage() -> None:
    engine = Inline(OneByOne(keeps_round))
    list(engine.run([Task("train", 3, 1, {}), Task("train", 1, 1, {})]))
    entries = engine.keep(1)
    wrong = entries | {1: entries[1].model_copy(update={"sha256": "0" * 64})}
    with pytest.raises(Damaged, match=r"^client-00001-000001.safetensors has a wrong SHA-256$"):
        engine.go_back(1, wrong)
    with pytest.raises(Damaged, match=r"^client-00003-000001.safetensors is not there$"):
        Inline(OneByOne(keeps_round)).go_back(1, {3: entries[3]})


# ---------------------------------------------------------------- what an engine and a workplace promise


def test_a_private_state_that_a_client_emptied_stays_empty_after_going_back(tmp_path: Path) -> None:
    states = ClientStates(tmp_path)
    states.put(3, {"h": torch.ones(2)})
    states.keep(1)
    states.kept()
    states.put(3, {})
    entries = states.keep(2)
    states.kept()
    assert 3 not in entries
    again = ClientStates(tmp_path)
    again.go_back(entries)
    assert again.get(3) == {}


@pytest.mark.parametrize("kind", sorted(EVERY_TASK - SITE_TASKS))
def test_a_site_refuses_tasks_that_hand_over_more_than_a_reply(kind: TaskKind) -> None:
    assembly = assemble(tiny("fedavg"))
    own = Site.of(assembly.federation, assembly.federation.clients[0], shows_shared_data=False)
    site = workplace_of(assembly.experiment, own, assembly.federation_facts, SITE_TASKS)
    message = assembly.method.broadcast(assembly.method.start(), 0)
    outcome = site.perform(Task(kind, 0, 1, message), {})
    assert outcome.reply is None and outcome.private is None
    accepted = "adapt, introduce, prepare, score, sync_score, train"
    assert outcome.failure == f"{kind} tasks are not served here; accepted: {accepted}"
    assert all(o.failure for o in site.perform_group([Task(kind, 0, 1, message)] * 2, [{}, {}]))
    assert site.perform(Task("train", 0, 1, message), {}).reply is not None


def test_an_engine_without_the_states_says_where_they_are() -> None:
    class Far(Engine):
        def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
            return iter(())

        def keep(self, round: int) -> ClientFiles:
            return {}

        def go_back(self, round: int, entries: ClientFiles) -> None:
            """Nothing is here."""

    with pytest.raises(MotetError, match="the private state of client 2 stays where the client is"):
        Far().private(2)


OWN_ENGINE = """
from motet.engines import Inline

class Mine(Inline):
    def __init__(self, request):
        super().__init__(request.work, request.folder, request.groups)
        print("my own engine")
"""


def test_a_users_own_engine_is_one_class_by_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(OWN_ENGINE)
    own = tiny("scaffold", engine={"name": f"{tmp_path / 'mine.py'}:Mine"})
    mine, plain = (run(settle(e), tmp_path / name) for e, name in ((own, "mine"), (tiny("scaffold"), "plain")))
    assert "my own engine" in capsys.readouterr().out
    assert last_states(mine) == last_states(plain)
    with pytest.raises(MotetError, match=r"unknown engine .* did you mean 'pool'"):
        assemble(tiny("fedavg", engine={"name": "pol"}))


def test_where_workers_cannot_share_memory_a_run_stays_in_one_process_and_the_pool_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("motet.engines.registry.has_workers", lambda: False)
    assert type(assemble(tiny("fedavg", engine={"name": "auto", "workers": 2})).engine) is Inline
    with pytest.raises(MotetError, match=r"engine.name is 'pool', but its workers share memory .* engine.name=inline"):
        assemble(tiny("fedavg", engine={"name": "pool", "workers": 2}))
