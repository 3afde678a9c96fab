"""Names of classes, clients and domains: from the file to the federation and its facts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motet.data import DataSettings, Federation, FederationFacts, build, counts_table
from motet.data.federation import SharedFederation
from motet.data.partitions.registry import PARTITIONS, Partition
from motet.data.partitions.request import PartitionRequest, RowsPerClient
from motet.data.sources import load
from motet.errors import MotetError

N = 60
X = np.random.default_rng(0).integers(0, 256, (N, 4, 4), dtype=np.uint8)
NUMBERS = np.arange(N) % 3
ANIMALS = np.array(["cat", "ant", "bee"])[NUMBERS]  # sorted: ant, bee, cat
SITES = np.repeat(["Zürich", "Bern"], [36, 24])


def write(folder: Path, name: str = "own.npz", **fields: Any) -> str:
    np.savez(folder / name, **({"x": X, "y": ANIMALS} | fields))
    return str(folder / name)


def natural(name: str, **choices: Any) -> Federation:
    return build(DataSettings.model_validate({"name": name, "partition": "natural", **choices}), seed=0)


def test_classes_are_the_sorted_names(tmp_path: Path) -> None:
    raw = load(write(tmp_path))
    assert raw.class_names == ("ant", "bee", "cat")
    assert [raw.class_names[label] for label in raw.y] == ANIMALS.tolist()


def test_clients_are_the_sorted_names(tmp_path: Path) -> None:
    federation = natural(write(tmp_path, client=SITES), pool="all")
    assert [client.name for client in federation.clients] == ["Bern", "Zürich"]
    assert [sum(row["counts"]) for row in counts_table(federation)] == [24, 36]
    assert [row["name"] for row in counts_table(federation)] == ["Bern", "Zürich"]


def test_numbers_stay_names(tmp_path: Path) -> None:
    federation = natural(write(tmp_path, y=NUMBERS, client=np.repeat([40, 7], [36, 24])), pool="all")
    assert [(client.id, client.name) for client in federation.clients] == [(0, "7"), (1, "40")]
    assert federation.class_names == ("0", "1", "2")
    dealt = build(DataSettings(name=write(tmp_path, client=SITES), partition="iid", clients=2), seed=0)
    assert [client.name for client in dealt.clients] == ["0", "1"], "who is dealt a hand has no name of its own"


def test_a_client_that_a_subset_leaves_out_takes_its_name_along(tmp_path: Path) -> None:
    split = (SITES == "Bern").astype(int)  # all of Bern is test data
    federation = natural(write(tmp_path, client=SITES, split=split))
    assert [client.name for client in federation.clients] == ["Zürich"]


def test_files_of_a_folder_name_their_clients(tmp_path: Path) -> None:
    write(tmp_path, "ward-b.npz", y=ANIMALS)
    write(tmp_path, "ward-a.npz", y=np.where(ANIMALS == "bee", "zebra", ANIMALS))
    federation = natural(str(tmp_path), pool="all")
    assert [client.name for client in federation.clients] == ["ward-a", "ward-b"]
    assert federation.class_names == ("ant", "bee", "cat", "zebra")
    assert [row["counts"] for row in counts_table(federation)] == [[20, 0, 20, 20], [20, 20, 20, 0]]
    write(tmp_path, "ward-c.npz", y=NUMBERS)
    with pytest.raises(MotetError, match=r"ward-c.npz: field 'y' holds numbers in one file and text in another"):
        load(str(tmp_path))


def test_domains_by_name(tmp_path: Path) -> None:
    domain = np.where(SITES == "Bern", "photo", "art")
    federation = natural(write(tmp_path, client=SITES, domain=domain), pool="all")
    assert federation.domain_names == ("art", "photo")
    assert [client.domain for client in federation.clients] == [1, 0]
    assert [row["domain"] for row in counts_table(federation)] == ["photo", "art"]
    numbered = natural(write(tmp_path, client=SITES, domain=np.where(SITES == "Bern", 8, 4)), pool="all")
    assert [row["domain"] for row in counts_table(numbered)] == ["8", "4"]


def test_names_change_no_number(tmp_path: Path) -> None:
    numbers = {"y": (NUMBERS + 2) % 3, "client": (SITES == "Zürich").astype(int)}  # as the names sort
    named, plain = natural(write(tmp_path, client=SITES)), natural(write(tmp_path, "plain.npz", **numbers))
    assert named.content_hash == plain.content_hash
    assert torch.equal(named.stored.y, plain.stored.y)


def test_names_travel(tmp_path: Path) -> None:
    federation = natural(write(tmp_path, client=SITES), pool="all")
    facts = FederationFacts.of(federation)
    assert [client.name for client in facts.clients] == ["Bern", "Zürich"]
    assert facts.class_names == ("ant", "bee", "cat")
    there = SharedFederation.of(federation).cut()
    assert [client.name for client in there.clients] == ["Bern", "Zürich"]
    assert there.class_names == federation.class_names
    unnamed = SharedFederation.of(build(DataSettings(), seed=0))
    assert unnamed.names == ()
    assert unnamed.cut().clients[3].name == "3"


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(MotetError, match="field 'y' holds only label 'ant'; accepted: at least two classes"):
        load(write(tmp_path, y=np.full(N, "ant")))
    with pytest.raises(MotetError, match=r"field 'split' has dtype <U3; accepted: integers$"):
        load(write(tmp_path, split=ANIMALS))
    with pytest.raises(MotetError, match=r"field 'y' holds Python objects .* or of text as NumPy's str type"):
        load(write(tmp_path, y=ANIMALS.astype(object)))


def test_a_way_of_dealing_sees_domains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def by_domain(table: PartitionRequest) -> RowsPerClient:
        assert table.domain is not None and len(table.domain) == len(table.y)
        return [np.flatnonzero(table.domain == value) for value in np.unique(table.domain)]

    monkeypatch.setitem(PARTITIONS, "by-domain", Partition("by-domain", "", "", "", "", by_domain))
    name = write(tmp_path, domain=SITES)
    federation = build(DataSettings(name=name, partition="by-domain", clients=2, pool="all"), seed=0)
    assert [sum(row["counts"]) for row in counts_table(federation)] == [24, 36]
    assert [row["domain"] for row in counts_table(federation)] == ["Bern", "Zürich"]
