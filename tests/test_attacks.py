"""Malicious clients: who they are, what they do, and that figures are also over the others."""

from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
import torch

from motet.config.experiment import Experiment
from motet.config.section import checked
from motet.data import DataSettings, Federation, FederationFacts, build
from motet.data.federation import SharedFederation
from motet.errors import MotetError
from motet.messages.attacks import ModelReplacement, RandomUpdate, attack_of
from motet.messages.message import Message, State, decode, encode, tensor
from motet.metrics.names import BENIGN, PERSONAL, MetricName
from motet.runs.local_baseline import compared_with_local
from motet.runs.record import Record
from motet.runs.run import run
from motet.server.assembly import assemble
from motet.testing.twin import Played, play, tiny

DIGITS = {"partition": "iid", "clients": 10, "new_clients": 0.2, "val_share": 0.2}


def digits(seed: int = 0, **more: Any) -> Federation:
    return build(checked(DataSettings, DIGITS | more, "data"), seed)


def attacked(method: str = "fedavg", attack: str = "label-poison", **more: Any) -> Experiment:
    return tiny(method, **{"data": {"malicious": 0.25, "attack": attack}, **more})


# ---------------------------------------------------------------- who, and their data


def test_a_fixed_share_of_the_training_clients_is_malicious() -> None:
    one, again, other = digits(malicious=0.25), digits(malicious=0.25), digits(1, malicious=0.25)
    who = [client.id for client in one.clients if client.malicious]
    assert len(who) == 2 and set(who) <= set(one.training_ids)
    assert who == [client.id for client in again.clients if client.malicious]
    assert FederationFacts.of(one).malicious_ids == set(who)
    assert {tuple(c.id for c in digits(seed, malicious=0.25).clients if c.malicious) for seed in range(5)} != {
        tuple(who)
    }
    assert other.content_hash != one.content_hash
    for seed in range(20):  # new clients are none
        drawn = digits(seed, malicious=0.5)
        assert sum(client.malicious for client in drawn.clients) == 4
        assert not any(client.malicious and client.new for client in drawn.clients)
    assert sum(client.malicious for client in digits(malicious=0.01).clients) == 1
    assert [c.malicious for c in SharedFederation.of(one).cut().clients] == [c.malicious for c in one.clients]


def test_nobody_benign_is_refused() -> None:
    with pytest.raises(
        MotetError, match=r"^data.malicious 0.9 leaves no benign client of 2; accepted: a smaller share$"
    ):
        digits(clients=2, new_clients=0.0, malicious=0.9)


def test_training_labels_of_attackers_are_uniform_and_nothing_else_changes() -> None:
    plain, poisoned = digits(), digits(malicious=0.5)
    right, labels = 0, []
    for before, after in zip(plain.clients, poisoned.clients, strict=True):
        assert torch.equal(before.train.x, after.train.x) and before.new == after.new
        for split in ("val", "test"):
            assert torch.equal(getattr(before, split).y, getattr(after, split).y)
        if after.malicious:
            right += int((before.train.y == after.train.y).sum())
            labels += after.train.y.tolist()
        else:
            assert torch.equal(before.train.y, after.train.y)
    counts = np.bincount(labels, minlength=10) / len(labels)
    assert len(labels) > 300 and 0.05 < right / len(labels) < 0.16
    assert counts.min() > 0.05 and counts.max() < 0.16
    assert torch.equal(plain.test.y, poisoned.test.y)
    first, second, *_ = (c.train.y[:40].tolist() for c in poisoned.clients if c.malicious)
    assert first != second, "each has labels of its own"


def test_two_classes_are_flipped(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "two.npz", x=rng.normal(size=(80, 3)).astype(np.float32), y=np.arange(80) % 2)
    two = {"name": str(tmp_path / "two.npz"), "clients": 4, "new_clients": 0.0}
    plain, poisoned = digits(**two), digits(**two, malicious=0.5)
    for before, after in zip(plain.clients, poisoned.clients, strict=True):
        assert torch.equal(after.train.y, 1 - before.train.y if after.malicious else before.train.y)


def test_the_shared_set_is_of_benign_clients() -> None:
    poisoned = digits(malicious=0.7)
    mine = {row.numpy().tobytes() for c in poisoned.clients if not c.malicious and not c.new for row in c.train.x}
    assert all(row.numpy().tobytes() in mine for row in poisoned.shared_data().x)


def test_without_attackers_nothing_is_new() -> None:
    assert digits().content_hash.startswith("f0024d51e198bd37"), "as before there were any"
    assert (
        digits().content_hash == digits(attack="model-replacement").content_hash != digits(malicious=0.2).content_hash
    )
    plain, idle = play(tiny("fedavg")), play(tiny("fedavg", data={"attack": "model-replacement"}))
    assert (plain.timeless(), plain.clients) == (idle.timeless(), idle.clients)
    assert encode(plain.server) == encode(idle.server)
    assert not any("benign" in name or "malicious" in name for row in (*plain.rows, *plain.clients) for name in row)


# ---------------------------------------------------------------- what they send


class Sender:
    """As much of a client as an attack asks for."""

    def rng(self, purpose: str) -> torch.Generator:
        assert purpose == "attack"
        return torch.Generator().manual_seed(5)


def test_a_random_update_is_as_large_as_the_honest_one() -> None:
    torch.manual_seed(0)
    w, change = torch.full((40_000,), 7.0), 0.3 * torch.randn(40_000) + 0.1
    message: Message = {"w": w}
    reply: Message = {"w": w + change, "n": 3, "a": 2.5, "c": torch.full((9,), 4.0), "rows": torch.tensor([1, 2])}
    sent = RandomUpdate().pack(Sender(), message, reply)  # type: ignore[arg-type]
    noise = tensor(sent, "w") - w
    assert float(noise.std()) == pytest.approx(float(change.std()), rel=0.02) and abs(float(noise.mean())) < 0.01
    assert abs(float(torch.corrcoef(torch.stack([noise, change]))[0, 1])) < 0.02
    assert (sent["n"], sent["a"]) == (3, 2.5) and torch.equal(tensor(sent, "rows"), tensor(reply, "rows"))
    assert torch.equal(tensor(sent, "c"), torch.zeros(9)), "a change of equal numbers has no spread"


def test_a_replaced_model_is_the_change_times_the_cohort() -> None:
    message: Message = {"w": torch.tensor([1.0, 2.0])}
    reply: Message = {"w": torch.tensor([1.5, 1.0]), "c": torch.ones(2), "n": 3, "a": 2.5}
    sent = ModelReplacement(cohort=4).pack(Sender(), message, reply)  # type: ignore[arg-type]
    assert tensor(sent, "w").tolist() == [3.0, -2.0] and tensor(sent, "c").tolist() == [4.0, 4.0]
    assert (sent["n"], sent["a"]) == (3, 2.5)
    assert attack_of("label-poison", 4) == () and attack_of("model-replacement", 4) == (ModelReplacement(cohort=4),)


def first_round(experiment: Experiment) -> tuple[Played, dict[int, tuple[State, State]]]:
    """What was sent and answered in round one, by client."""
    played = play(experiment, strict=True)
    trained = [e for e in played.engine.exchanges if e.task.kind == "train" and e.task.round == 1]
    return played, {e.task.client_id: (decode(e.sent), decode(e.answered)) for e in trained}


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "superfed-mm"])
def test_in_a_run_only_attackers_do_it_and_all_of_them_learned_from_poisoned_labels(method: str) -> None:
    everybody = {"rounds": {"count": 2, "cohort": 1.0}}
    honest, plain = first_round(attacked(method, **everybody))
    replaced, boosted = first_round(attacked(method, "model-replacement", **everybody))
    random, noise = first_round(attacked(method, "random-update", **everybody))
    malicious = honest.assembly.federation_facts.malicious_ids
    assert len(malicious) == 1
    for i, (sent, answer) in plain.items():
        if i not in malicious:
            assert encode(boosted[i][1]) == encode(noise[i][1]) == encode(answer)
            continue
        w = tensor(sent, "w")
        torch.testing.assert_close(tensor(boosted[i][1], "w"), w + 4 * (tensor(answer, "w") - w))
        drawn = tensor(noise[i][1], "w") - w
        assert float(drawn.std()) == pytest.approx(float((tensor(answer, "w") - w).std()), rel=0.1)
        assert noise[i][1]["n"] == answer["n"]
    assert encode(honest.server) != encode(replaced.server) != encode(random.server)


@pytest.mark.parametrize("attack", ["random-update", "model-replacement"])
def test_the_twin_and_the_pool_attack_alike(attack: str, tmp_path: Path) -> None:
    asked = attacked("fedavg+median", attack, rounds={"cohort": 1.0})
    inline, strict = play(asked), play(asked, strict=True)
    assert encode(inline.server) == encode(strict.server) and inline.clients == strict.clients
    here, pool = (
        run(attacked("fedavg", attack, engine=engine), tmp_path / str(engine["name"]))
        for engine in ({"name": "inline"}, {"name": "pool", "workers": 2})
    )
    assert (here / "weights.safetensors").read_bytes() == (pool / "weights.safetensors").read_bytes()


def test_other_posts_come_after_the_attack() -> None:
    _, exchanges = first_round(
        attacked("fedavg", "model-replacement", transforms="clip(norm=0.01)", rounds={"cohort": 1.0})
    )
    for sent, answer in exchanges.values():
        assert float((tensor(answer, "w") - tensor(sent, "w")).norm()) <= 0.0101


def test_who_trains_in_one_place_sends_nothing_to_attack_with() -> None:
    assemble(attacked("centralized"))
    with pytest.raises(MotetError, match=r"^data.attack is 'random-update' but 'centralized' trains in one place"):
        assemble(attacked("centralized", "random-update"))


# ---------------------------------------------------------------- figures


def test_every_mean_is_also_over_benign_clients() -> None:
    played = play(attacked("fedavg", "model-replacement", rounds={"cohort": 1.0}, scoring={"metrics": ("ece",)}))
    last, rows = played.rows[-1], [row for row in played.clients if row["round"] == 3]
    malicious = played.assembly.federation_facts.malicious_ids
    assert {row["client"] for row in rows if row["malicious"]} == malicious
    means = [figure for name in last if (figure := MetricName.read(name)) and figure.statistic == "mean"]
    checked_means = 0
    for figure in means:
        if figure.among:
            continue
        values = [row.get(str(replace(figure, statistic=""))) for row in rows if not row["malicious"]]
        told = replace(figure, among=BENIGN).of(last)
        if values and None not in values:
            assert told == pytest.approx(fmean(values))
            checked_means += told != figure.of(last)
    assert checked_means > 6
    for statistic in ("by_samples", "std", "minimum", "worst_tenth", "hurt", "hurt_clients"):
        assert MetricName(PERSONAL, "weighted", statistic=statistic, among=BENIGN).of(last) is not None
    assert MetricName("after", "weighted", statistic="mean", among=BENIGN).of(played.new.figures) is not None


def test_a_family_of_models_has_its_figures_too() -> None:
    last = play(attacked("superfed-mm", rounds={"cohort": 1.0})).rows[-1]
    for model in ("member:0.5", "rule:fixed"):
        over_all = MetricName(model, "split" if model == "member:0.5" else "weighted", statistic="mean")
        assert over_all.of(last) is not None and replace(over_all, among=BENIGN).of(last) is not None


def test_the_headline_is_over_benign_clients(tmp_path: Path) -> None:
    asked = attacked("fedavg", "model-replacement", scoring={"every": 1, "report": "best"}, rounds={"cohort": 1.0})
    record = Record(run(asked, tmp_path / "run"))
    summary, name = record.summary.model_dump(), "personal.weighted.accuracy.benign.mean"
    assert summary["reported"]["figure"] == name == str(asked.headline)
    values = [row[name] for row in record.rounds]
    assert summary["personal"]["weighted"]["personal_models"] == max(values)
    assert summary["reported"]["round"] == 1 + values.index(max(values))
    assert summary["personal"]["std"] == summary["figures"]["personal.weighted.accuracy.benign.std"]
    assert summary["new_clients"]["after"] is not None
    local = Record(run(attacked("local", "model-replacement", rounds={"cohort": 1.0}), tmp_path / "local"))
    beside = compared_with_local(record, local).model_dump()
    assert beside["figures"]["personal.weighted.accuracy.benign.hurt_vs_local_clients"] <= 3
    assert beside["personal"]["hurt_vs_local"] in (0, 1 / 3, 2 / 3, 1)


@pytest.mark.parametrize("name", ["personal.split.accuracy.benign.mean", "member:0.5.common.ece.benign.worst_tenth"])
def test_names_of_benign_figures_are_read_as_they_are_written(name: str) -> None:
    figure = MetricName.read(name)
    assert figure is not None and figure.among == BENIGN and str(figure) == name
    assert figure.over("std").among == BENIGN
