"""Every method gives the same bits inline and in the strict twin, and its bytes on the wire are the reported ones."""

import math
from dataclasses import replace
from functools import cache

import pytest
import torch
from strict_engine import ALONE, Notes, Played, Strict, loop_of, play, tiny

from motet.client import Client
from motet.data import ClientData, FederationFacts, Holdings, Site
from motet.engines import Inline, OneByOne, Outcome, Task
from motet.errors import MotetError
from motet.message import Message, State, encode
from motet.methods import METHODS, build_method
from motet.methods.part import Part, Training
from motet.methods.registry import Entry
from motet.nets import build_net
from motet.rounds import Progress
from motet.runs.assembly import ServerSide, assemble, method_of, net_of


def accepted(method: str) -> bool:
    """Whether a sum makes sense; any other mistake than that is not for this file to hide."""
    try:
        build_method(method, build_net("mlp", (64,), 10))
    except MotetError as error:
        assert "makes no sense" in str(error), error
        return False
    return True


PARTS = [name for name, entry in METHODS.items() if entry.part]
SUMS = ["fedprox+feddyn+lp", "centralized+ft", *(f"scaffold+{name}" for name in PARTS if name != "scaffold")]
EVERY_METHOD = [*ALONE, *filter(accepted, SUMS)]


@cache
def played(method: str, strict: bool) -> Played:
    """The tiny run of a method, played once for all tests."""
    return play(tiny(method), strict)


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_a_method_runs_on_bytes_and_its_own_data_alone(method: str) -> None:
    inline, strict = played(method, strict=False), played(method, strict=True)
    assert inline.timeless() == strict.timeless()
    assert inline.clients == strict.clients
    assert encode(inline.server) == encode(strict.server)
    assert inline.private() == strict.private()
    assert (inline.new.figures, inline.new.clients) == (strict.new.figures, strict.new.clients)


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_bytes_on_the_wire_are_the_reported_ones(method: str) -> None:
    strict = played(method, strict=True)
    for row in strict.rows:
        reported = (row["bytes_down"], row["bytes_up"])
        assert reported == ((None, None) if strict.assembly.method.pooled else strict.engine.wire_bytes(row["round"]))


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_scores_are_there_and_finite(method: str) -> None:
    inline = played(method, strict=False)
    last, new = inline.rows[-1], inline.new.figures
    assert all(math.isfinite(v) for figures in (last, new) for v in figures.values() if isinstance(v, float))
    models = ["personal.weighted.accuracy.mean", "personal.split.accuracy.mean", "personal.validation.accuracy.mean"]
    models += ["personal.weighted.accuracy.worst_tenth", "personal.common.accuracy.mean"][
        : 1 if inline.assembly.method.family else 2
    ]
    if inline.assembly.method.generic(inline.server) is not None:
        models += ["generic.common.accuracy.pooled", "generic.weighted.accuracy.mean", "generic.split.accuracy.mean"]
    assert all(0 <= last[name] <= 1 for name in models)
    assert 0 <= new["after.weighted.accuracy.mean"] <= 1 and 0 <= new["after.split.accuracy.mean"] <= 1


def test_local_sends_nothing() -> None:
    local = played("local", strict=True)
    assert [(row["bytes_down"], row["bytes_up"]) for row in local.rows] == [(0, 0)] * 3
    trained = [e for e in local.engine.exchanges if e.task.kind == "train"]
    assert len(trained) == 6 and all(e.sent == e.answered == encode({}) for e in trained)


def test_fedavg_sends_the_model_down_and_the_model_and_n_up() -> None:
    fedavg = played("fedavg", strict=True)
    w = fedavg.server["w"]
    down, up = len(encode({"w": w})), len(encode({"w": w, "n": 1}))
    assert [(row["bytes_down"], row["bytes_up"]) for row in fedavg.rows] == [(2 * down, 2 * up)] * 3


# ---------------------------------------------------------------- the twin notices what it is for


class Remembers(Part):
    """Wrong on purpose: counts the trainings in the method itself."""

    def after(self, t: Training, reply: Message) -> None:
        """Inline the count goes on, in a fresh workplace it starts again."""
        seen = getattr(t.net, "seen", 0) + 1
        t.net.seen = seen
        reply["remembers.seen"] = seen

    def aggregate(self, server: State, sent: torch.Tensor, replies: dict[int, Message]) -> None:
        """Let it show in the server state."""
        server["remembers.seen"] = sum(int(r["remembers.seen"]) for r in replies.values())


class ChangesInPlace(Part):
    """Wrong on purpose: writes into the tensor that the server sent."""

    def before(self, t: Training, message: Message) -> None:
        """Inline this is the server's own tensor."""
        message["w"].add_(1)


@pytest.mark.parametrize("part", [Remembers, ChangesInPlace])
def test_the_twin_notices_a_method_that_cheats(part: type[Part], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "cheats", Entry("cheats", "", "", part=part))
    inline, strict = play(tiny("cheats")), play(tiny("cheats"), strict=True)
    assert encode(inline.server) != encode(strict.server)


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
    return Outcome(task.client_id, {"was": int(private.get("round", 0))}, kept, None)


def test_inline_keeps_private_states_and_the_order_of_tasks() -> None:
    engine = Inline(OneByOne(keeps_round))
    outcomes = engine.run([Task("train", 3, 1, {}), Task("train", 1, 1, {})])
    assert [o.client_id for o in outcomes] == [3, 1]
    engine.run([Task("train", 3, 2, {}), Task("score", 1, 2, {})])
    assert engine.private(3) == {"round": 2, "before": 1} and engine.private(1) == {"round": 1, "before": 0}
    assert engine.private(7) == {}
    engine.restore(7, {"round": 5})
    assert engine.run([Task("train", 7, 6, {})])[0].reply == {"was": 5}


@pytest.mark.parametrize("strict", [False, True])
def test_only_training_changes_private_states(strict: bool) -> None:
    run = play(tiny("scaffold", scoring={"pm_source": "final_sync"}), strict=strict)
    assembly, before = run.assembly, run.private()
    assembly.evaluator.training_clients(run.server, 3, last=True)  # trains once more, but only to score
    assembly.evaluator.new_clients(run.server, 3)
    assert run.private() == before


def test_a_diverged_client_keeps_its_private_state() -> None:
    assembly = assemble(tiny("scaffold", local={"momentum_across_rounds": "persist"}))
    engine = Inline(OneByOne(assembly.workplace.perform))
    message = assembly.method.broadcast(assembly.method.start(assembly.facts), 0)
    engine.run([Task("train", 0, 1, message)])
    kept = engine.private(0)
    before = encode(kept)
    assert {"model", "velocity", "scaffold.c_i"} <= kept.keys()
    bad = Task("train", 0, 2, message | {"w": message["w"] * float("inf")})
    outcome = engine.run([bad])[0]
    assert outcome.reply is None and outcome.private is None
    assert outcome.failure == "training left the finite numbers (NaN or infinity in the weights)"
    assert engine.private(0) is kept and encode(kept) == before


class SendsNaN(Part):
    """Wrong on purpose: a finite model, but a reply that is not."""

    def after(self, t: Training, reply: Message) -> None:
        """NaN beside w."""
        reply["sends.nan"] = torch.tensor([1.0, math.nan])


def test_a_reply_with_nan_is_set_aside_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "sends", Entry("sends", "", "", part=SendsNaN))
    assembly = assemble(tiny("sends"))
    message = assembly.method.broadcast(assembly.method.start(assembly.facts), 0)
    outcome = assembly.workplace.perform(Task("train", 0, 1, message), {})
    assert outcome == Outcome(0, None, None, "the reply's 'sends.nan' holds NaN or infinity")


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
    engine.restore(2, {"private": torch.arange(3.0), "seen": 4})
    assert encode(engine.private(2)) == encode({"private": torch.arange(3.0), "seen": 4})
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
    progress = loop_of(server, notes).run(Progress(0, server.method.start(server.facts)))
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
