"""PFLBED: its counts, what clients of a domain share, who is new, and the best epoch by their validation set."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from motet.config.experiment import resolve
from motet.config.sections import AdaptSettings, LocalSettings
from motet.data import ClientData, DataSettings, Federation, Samples, build, counts_table
from motet.data.federation import SharedFederation
from motet.errors import MotetError
from motet.runs.record import Record
from motet.runs.run import run
from motet.server.assembly import assemble
from motet.training.adaptation import best_on_validation
from motet.training.client import Client, RunContext


def made(**choices: Any) -> Federation:
    return build(DataSettings.model_validate({"partition": "pflbed:0.3", "normalize": "none"} | choices), 0)


def write(path: Path, per_class: list[list[int]]) -> str:
    """A file with so many samples of each class in each domain; x tells the rows apart."""
    y = np.concatenate([np.repeat(np.arange(len(counts)), counts) for counts in per_class])
    domain = np.repeat(np.arange(len(per_class)), [sum(counts) for counts in per_class])
    np.savez(path, x=np.arange(len(y), dtype=np.float32)[:, None], y=y, domain=domain)
    return str(path)


@pytest.fixture(scope="module")
def two_domains(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("pflbed") / "a.npz", [[400] * 5, [300, 500, 20, 380, 400]])


def rows(samples: Samples) -> list[int]:
    return [int(x) for x in samples.x.flatten()]


def test_shares_and_counts_of_each_domain(two_domains: str) -> None:
    federation = made(name=two_domains)
    assert (len(federation.training_ids), len(federation.new_ids)) == (40, 20)
    for domain, (test, validation, training, new) in enumerate(
        [
            # 2000 samples: 15 % and 5 % of them in equal parts; the rest as 60 to 20
            ([60] * 5, [20] * 5, 1200, 400),
            # 1600 samples: 48 and 16 of each class, as far as there are; all 20 of class 2 are tests
            ([48, 48, 20, 48, 48], [16, 16, 0, 16, 16], 993, 331),
        ]
    ):
        clients = [client for client in federation.clients if client.domain == domain]
        assert [client.new for client in clients] == [False] * 20 + [True] * 10
        assert federation.common_test(clients[0]).counts(5).tolist() == test
        assert {id(client.val) for client in clients} == {id(clients[0].val)}
        assert clients[0].val.counts(5).tolist() == validation
        assert sum(len(client.train) for client in clients if not client.new) == training
        assert sum(len(client.train) for client in clients if client.new) == new
        assert min(len(client.train) for client in clients) >= 10
        assert not any(len(client.test) for client in clients)


def test_no_sample_is_in_two_places_and_none_is_lost(two_domains: str) -> None:
    federation = made(name=two_domains)
    assert federation.validation is not None
    seen = rows(federation.test) + rows(federation.validation)
    for client in federation.clients:
        seen += rows(client.train)
    assert sorted(seen) == list(range(3600))


def test_the_pools_are_drawn_apart(two_domains: str) -> None:
    """Or else the new clients of one domain would have the class shares of those of the other."""
    federation = made(name=two_domains, clients=20, new_clients=0.5)
    first = [client.train.counts(5).tolist() for client in federation.clients if client.domain == 0]
    shares = np.array(first) / np.array(first).sum(1, keepdims=True)
    assert not np.allclose(shares[:10], shares[10:], atol=0.05)


def test_digits4_has_the_counts_of_the_paper(shared_data: Path) -> None:
    federation = made(name=str(shared_data / "digits4.npz"))
    assert (len(federation.training_ids), len(federation.new_ids)) == (80, 40)
    for domain in range(4):
        clients = [client for client in federation.clients if client.domain == domain]
        assert federation.common_test(clients[0]).counts(10).tolist() == [45] * 10
        assert clients[0].val.counts(10).tolist() == [15] * 10
        assert [sum(len(c.train) for c in clients if c.new == new) for new in (False, True)] == [1800, 600]


def test_pacs_has_the_counts_of_the_paper(shared_data: Path, tmp_path: Path) -> None:
    """By the names of its files alone: `domain/class/file`."""
    with zipfile.ZipFile(shared_data / "pacs64.zip") as archive:
        names = [name.split("/")[-3:] for name in archive.namelist() if name.endswith(".webp")]
    domain, y = (np.array([name[i] for name in names]) for i in (0, 1))
    np.savez(tmp_path / "pacs.npz", x=np.arange(len(y), dtype=np.float32)[:, None], y=y, domain=domain)
    federation = made(name=str(tmp_path / "pacs.npz"))
    assert (len(federation.training_ids), len(federation.new_ids)) == (80, 40)
    expected = {
        "art_painting": ([43] * 7, [14] * 7, 1237, 412),
        "cartoon": ([50] * 7, [16] * 7, 1412, 470),
        "photo": ([35] * 7, [11] * 7, 1011, 337),
        "sketch": ([84] * 5 + [80, 84], [28] * 5 + [0, 28], 2383, 794),  # it has 80 houses
    }
    for number, name in enumerate(federation.domain_names):
        clients = [client for client in federation.clients if client.domain == number]
        sets = [samples.counts(7).tolist() for samples in (federation.common_test(clients[0]), clients[0].val)]
        pools = [sum(len(client.train) for client in clients if client.new == new) for new in (False, True)]
        assert (*sets, *pools) == expected[name]


def test_what_is_left_out_is_pflbeds_own_and_what_is_said_counts() -> None:
    usual = DataSettings(partition="pflbed:0.3")
    assert (usual.clients, usual.new_clients, usual.test_share) == (30, 1 / 3, 0.0)
    said = DataSettings(partition="pflbed:0.3", clients=20, new_clients=0.5, test_share=0.2)
    assert (said.clients, said.new_clients, said.test_share) == (20, 0.5, 0.2)
    assert resolve({"data": {"partition": "pflbed:0.3"}}).data.clients == 30
    assert DataSettings().clients == 20


def test_data_without_domains_are_one_domain() -> None:
    federation = made(name="digits")
    assert [client.new for client in federation.clients] == [False] * 20 + [True] * 10
    assert federation.test.counts(10).tolist() == [26] * 10
    assert len(federation.clients[0].val) == 80
    assert federation.common_test(federation.clients[0]) is federation.test


def test_without_new_clients_all_the_rest_is_for_training(two_domains: str) -> None:
    federation = made(name=two_domains, clients=20, new_clients=0.0)
    assert not federation.new_ids
    assert sum(len(client.train) for client in federation.clients) == 1600 + 1324


def test_small_and_moderate_shares_of_new_clients(two_domains: str) -> None:
    moderate, small = made(name=two_domains), made(name=two_domains, new_share=0.5)
    for whole, half in zip(moderate.clients, small.clients, strict=True):
        expected = rows(whole.train)[: round(len(whole.train) / 2)] if whole.new else rows(whole.train)
        assert rows(half.train) == expected
    assert moderate.content_hash != small.content_hash


def test_shared_validation_is_nobodys_own(two_domains: str) -> None:
    federation = made(name=two_domains)
    table = counts_table(federation)
    assert [sum(row["counts"]) for row in table] == [row["train"] for row in table]  # type: ignore[arg-type]
    assert {row["val"] for row in table} == {100, 64}
    assert len(federation.pooled().val) == 164


def test_a_worker_process_sees_the_same_federation(two_domains: str) -> None:
    federation = made(name=two_domains)
    again = SharedFederation.of(federation).cut()
    for one, other in zip(federation.clients, again.clients, strict=True):
        assert (one.domain, one.new, one.shares_val) == (other.domain, other.new, other.shares_val)
        assert rows(one.train) == rows(other.train) and rows(one.val) == rows(other.val)


def test_the_hash_knows_the_validation_set(two_domains: str, tmp_path: Path) -> None:
    with np.load(two_domains) as file:
        arrays = dict(file)
    federation = made(name=two_domains)
    assert federation.validation is not None
    arrays["x"][rows(federation.validation)[0]] += 0.5
    np.savez(tmp_path / "b.npz", **arrays)
    assert made(name=str(tmp_path / "b.npz")).content_hash != federation.content_hash


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"new_clients": 0.99}, "leaves no training client of 30"),
        ({"partition": "pflbed"}, "partition 'pflbed' has argument ''; accepted: pflbed:ALPHA"),
        ({"partition": "pflbed:0.3@domain"}, "cannot be dealt inside each domain; accepted: pflbed:0.3"),
        ({"clients": 400}, "cannot give 400 clients at least 10 of 1797 samples each"),
        ({"clients": 150}, "draws gave each of 100 clients at least 10 samples"),
        ({"long_tail": 10}, "data.long_tail leaves the test set as it is"),
    ],
)
def test_refusals(choices: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MotetError) as refusal:
        made(name="digits", **choices)
    assert sentence in str(refusal.value) and "accepted" in str(refusal.value)


# ------------------------------------------------------------ the best epoch


class Always(nn.Module):
    """Says one class, whatever it sees."""

    def __init__(self, said: int):
        super().__init__()
        self.logits = nn.Parameter(torch.eye(3)[said])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits.expand(len(x), 3)


def test_the_best_epoch_is_judged_by_class_on_the_shared_set(two_domains: str) -> None:
    prepare = made(name=two_domains).prepare

    def samples(*counts: int) -> Samples:
        y = torch.arange(3).repeat_interleave(torch.tensor(counts))
        return Samples(torch.zeros(len(y), 1), y, prepare)

    seen: list[int] = []
    said = iter([0, 1, 2, 0])  # at the start, then after each epoch

    def client(shares: bool) -> Client:
        data = ClientData(0, samples(1, 8, 1), samples(6, 3, 6), samples(0, 0, 0), shares_val=shares)
        return Client(data, 0, RunContext(3, 0, LocalSettings(), AdaptSettings(epochs=3)))

    def learn(train: Samples) -> None:
        seen.append(len(train))

    best = best_on_validation(client(True), learn, lambda: next(said), Always)
    assert best == 1, "class 1 is most of what the client has, though little of what is shared"
    assert seen == [10, 10, 10], "and all of its own data are for learning"
    said = iter([0, 1, 2, 0])
    best_on_validation(client(False), learn, lambda: next(said), Always)
    assert seen[3:] == [9, 9, 9], "without it, a tenth is held out"


# ------------------------------------------------------------ a run


def test_the_preset_scores_new_clients_last_and_best_from_one_run(two_domains: str, tmp_path: Path) -> None:
    choices: dict[str, Any] = {
        "protocol": "fedbasis",
        "data": {"name": two_domains, "clients": 6},
        "net": {"name": "mlp"},
        "rounds": {"count": 1},
        "local": {"epochs": 1},
        "adapt": {"epochs": 2},
        "scoring": {"personal_model": "global_plus_personal", "report": "best_on_validation"},
        "engine": {"name": "inline"},
    }
    summary = Record(run(resolve(choices), tmp_path / "run")).summary.model_dump()
    assert summary["reported"]["headline"] == "new_clients.after"
    assert summary["reported"]["figure"] == "after.weighted.accuracy.mean"
    assert {"after", "after@best_on_validation", "before"} <= summary["new_clients"].keys()
    assert summary["personal"]["validation"]["personal_models"] is not None
    assert summary["figures"]["after.weighted.accuracy.mean"] == summary["new_clients"]["after"]


def test_a_headline_of_new_clients_needs_some() -> None:
    with pytest.raises(MotetError, match=r"scoring\.clients is 'new' but data\.new_clients is 0; accepted: a share"):
        assemble(resolve({"scoring": {"clients": "new"}}))
