"""Splits by group and by time, other random splits of the same clients, natural clients that keep all their rows."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from motet.cli import main
from motet.data import DataSettings, Federation, build
from motet.data.partitions.splits import cut_from_end
from motet.errors import MotetError

ROWS = 600


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Visits of patients to hospitals: a patient has one to nine, at one hospital; `row` finds a row again."""
    rng = np.random.default_rng(3)
    patient = np.repeat(np.arange(ROWS), rng.integers(1, 10, ROWS))[:ROWS]
    frame = pd.DataFrame({"row": rng.permutation(ROWS) + 0.5, "noise": rng.normal(size=ROWS).round(3)})
    frame["patient"] = [f"p{i}" for i in patient]
    day = rng.integers(0, 900, ROWS)
    frame["date"] = (pd.Timestamp("2018-01-01") + pd.to_timedelta(day, "D")).strftime("%d.%m.%Y")
    frame["year"] = 2018 + day // 365
    frame["hospital"] = [f"h{i % 4}" for i in patient]
    frame["outcome"] = np.where(rng.random(ROWS) < 0.4 + 0.2 * (patient % 2), "yes", "no")
    path = tmp_path_factory.mktemp("visits") / "visits.csv"
    frame.sample(ROWS, random_state=0).to_csv(path, index=False)
    return path


def dealt(path: Path, seed: int = 0, **choices: Any) -> Federation:
    return build(DataSettings.model_validate({"name": str(path), "label": "outcome", **choices}), seed)


def rows_of(samples: Any) -> list[float]:
    """The rows of samples, by the column that tells them apart."""
    return samples.x[:, 0].tolist()


def sides(federation: Federation, path: Path, column: str) -> list[dict[str, list[Any]]]:
    """Of each client, and of the common test set, the values of a column of the file on each side."""
    frame = pd.read_csv(path).set_index("row")[column]
    found = [
        {side: frame.loc[rows_of(getattr(client, side))].tolist() for side in ("train", "val", "test")}
        for client in federation.clients
    ]
    common = [] if federation.test_is_clients else [{"common": frame.loc[rows_of(federation.test)].tolist()}]
    return found + common


PARTITIONS: list[dict[str, Any]] = [
    {"client": "hospital"},
    {"client": "hospital", "pool": "train"},
    {"partition": "iid", "clients": 5},
    {"partition": "dirichlet:0.5", "clients": 4},
    {"partition": "dirichlet-balanced:0.5", "clients": 3, "min_size": 10},
    {"partition": "shards:2", "clients": 6},
    {"partition": "random-shards:2", "clients": 6},
    {"partition": "pathological:2", "clients": 4},
    {"client": "hospital", "partition": "iid@client", "clients": 8},
]


@pytest.mark.parametrize("choices", PARTITIONS, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_no_group_stands_on_two_sides(visits: Path, choices: dict[str, Any], seed: int) -> None:
    federation = dealt(visits, seed, group="patient", val_share=0.25, **choices)
    seen: set[str] = set()
    for number, client in enumerate(sides(federation, visits, "patient")):
        for side, patients in client.items():
            assert not seen & set(patients), (number, side)
            seen |= set(patients)
    for one in federation.clients:
        size = len(one.train) + len(one.val) + len(one.test)
        assert abs(len(one.test) - 0.2 * size) <= 9 and abs(len(one.val) - 0.2 * size) <= 9
        assert len(one.train) and len(one.test)
    assert any(note.endswith("groups of 'patient' are split as wholes") for note in federation.notes)
    columns = federation.prepare.schema.columns  # type: ignore[attr-defined]
    assert "patient" not in columns and "row" in columns


@pytest.mark.parametrize("choices", PARTITIONS, ids=str)
@pytest.mark.parametrize("column", ["date", "year"])
def test_test_rows_are_the_latest(visits: Path, choices: dict[str, Any], column: str) -> None:
    federation = dealt(visits, time_column=column, val_share=0.25, **choices)
    days = sides(federation, visits, column)
    if column == "date":
        days = [{s: [v[6:] + v[3:5] + v[:2] for v in values] for s, values in client.items()} for client in days]
    for client in days[: len(federation.clients)]:
        assert max(client["train"]) <= min(client["val"]) and max(client["val"]) <= min(client["test"])
        size = sum(map(len, client.values()))
        assert len(client["test"]) == int(0.2 * size) and len(client["train"]) < size
    if not federation.test_is_clients:
        dealt_days = [value for client in days[:-1] for values in client.values() for value in values]
        assert max(dealt_days) <= min(days[-1]["common"])
    assert f"test rows are the latest of each client, by {column!r}" in federation.notes
    assert column not in federation.prepare.schema.columns  # type: ignore[attr-defined]


@pytest.mark.parametrize("choices", PARTITIONS[:4], ids=str)
def test_groups_and_times_together(visits: Path, choices: dict[str, Any]) -> None:
    federation = dealt(visits, group="patient", time_column="date", val_share=0.25, **choices)
    patients, dates = sides(federation, visits, "patient"), sides(federation, visits, "date")
    for who, when in zip(patients[: len(federation.clients)], dates, strict=False):
        latest: dict[str, str] = {}
        for side in who:
            for patient, date in zip(who[side], when[side], strict=True):
                latest[patient] = max(latest.get(patient, ""), date[6:] + date[3:5] + date[:2])
        assert not set(who["train"]) & {*who["val"], *who["test"]} and not set(who["val"]) & set(who["test"])
        last = {side: [latest[patient] for patient in who[side]] for side in who}
        assert max(last["train"]) <= min(last["val"]) and max(last["val"]) <= min(last["test"])


def test_a_group_at_several_natural_clients_is_told(visits: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(visits)
    frame["hospital"] = [f"h{i % 4}" for i in range(ROWS)]
    frame.to_csv(tmp_path / "v.csv", index=False)
    notes = dealt(tmp_path / "v.csv", client="hospital", group="patient").notes
    assert any("of these groups have rows at several clients" in note for note in notes)


def test_pieces_come_as_near_as_they_can() -> None:
    pieces = [np.arange(size) for size in (5, 1, 8, 2, 2)]
    kept, cut = cut_from_end(pieces, 4)
    assert [len(p) for p in kept] == [5, 1, 8] and [len(p) for p in cut] == [2, 2]
    assert [len(p) for p in cut_from_end(pieces, 10)[1]] == [8, 2, 2]
    assert [len(p) for p in cut_from_end(pieces, 100)[0]] == [5], "somebody is left to train on"
    assert cut_from_end(pieces, 0)[1] == [] and cut_from_end(pieces[:1], 3)[1] == []


# ---------------------------------------------------------------- other random splits


@pytest.mark.parametrize("choices", PARTITIONS, ids=str)
@pytest.mark.parametrize("group", [None, "patient"])
def test_another_split_has_the_same_clients(visits: Path, choices: dict[str, Any], group: str | None) -> None:
    settings = {**choices, "group": group, "val_share": 0.25}
    first, again, other = (dealt(visits, **settings, resplit=number) for number in (0, 0, 1))
    assert first.content_hash == again.content_hash == dealt(visits, **settings).content_hash != other.content_hash
    for one, two in zip(first.clients, other.clients, strict=True):
        rows, changed = ({s: set(rows_of(getattr(c, s))) for s in ("train", "val", "test")} for c in (one, two))
        assert set.union(*rows.values()) == set.union(*changed.values())
        assert rows["test"] != changed["test"] and rows["train"] != changed["train"]
    if not first.test_is_clients:
        assert torch.equal(first.test.x.nan_to_num(), other.test.x.nan_to_num())


def test_the_first_split_has_the_bits_of_before() -> None:
    """Hashes of federations that were dealt before `data.resplit` was there."""
    hashes = {
        "dirichlet:0.3": "2362124e523f0267edc3b176c63f074d50d865853542fa98521ca5b7986d1bdb",
        "iid": "e625260398d0df8e735f8400780f217d16f6bd3f43d336461548bc4f29aa98c6",
    }
    for partition, known in hashes.items():
        assert build(DataSettings(name="digits", partition=partition, val_share=0.2), 0).content_hash == known
    known = "9110b95d34ca50dda2ce807709f489d11d952c0e4c15925d26bd425116652794"
    assert build(DataSettings(name="digits-domains", val_share=0.1), 1).content_hash == known


# ---------------------------------------------------------------- what cannot be


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"resplit": 1, "time_column": "date"}, "data.resplit is 1, but data.time_column says which rows are tested"),
        ({"resplit": 2, "test_share": 0.0, "partition": "iid"}, "data.resplit is 2, but clients set no rows of their"),
        ({"group": "patient", "partition": "pflbed:1"}, "partition 'pflbed:1' sets test rows aside at random"),
        ({"time_column": "date", "partition": "pflbed:1"}, "whatever data.time_column says; accepted: another"),
        ({"group": "patient", "clients": 500}, "has .* groups, which are dealt whole to 500 clients; accepted: fewer"),
        ({"group": "hospital", "clients": 3, "min_size": 200}, "'hospital' as samples: "),
        ({"group": "patients"}, r"unknown column \(data.group\) 'patients'"),
        ({"time_column": "when"}, r"unknown column \(data.time_column\) 'when'"),
        (
            {"time_column": "patient"},
            r"column 'patient' \(data.time_column\) holds 'p\d+'; accepted: numbers, or dates",
        ),
        ({"group": "outcome"}, "column 'outcome' is named as label and otherwise"),
        (
            {"client": "hospital", "group": "date", "partition": "iid@client", "clients": 8},
            "deals each client by itself",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_is_said_in_one_sentence(visits: Path, choices: dict[str, Any], said: str) -> None:
    with pytest.raises(MotetError, match=said) as caught:
        dealt(visits, **{"partition": "iid", **choices})
    assert "\n" not in str(caught.value) and "accepted: " in str(caught.value)


def test_data_without_columns_have_no_groups(tmp_path: Path) -> None:
    with pytest.raises(MotetError, match=r"^data.group is 'g', but data 'digits' has no columns"):
        build(DataSettings(name="digits", group="g"), 0)
    np.savez(tmp_path / "a.npz", x=np.zeros((40, 3), np.float32), y=np.arange(40) % 2)
    with pytest.raises(MotetError, match=r"^data.time_column is 't', but .* holds arrays; accepted: for tables alone"):
        build(DataSettings(name=str(tmp_path / "a.npz"), time_column="t"), 0)


def test_holes_in_groups_and_times(visits: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(visits)
    frame.loc[:4, "patient"] = np.nan
    frame.loc[3:7, "date"] = np.nan
    frame.to_csv(tmp_path / "v.csv", index=False)
    words = {"client": "hospital", "group": "patient", "time_column": "date"}
    with pytest.raises(MotetError, match=r"column 'patient' has no group in 5 of 600 rows, first in row 1; accepted: "):
        dealt(tmp_path / "v.csv", **words)
    federation = dealt(tmp_path / "v.csv", **words, drop_missing=True)
    assert "8 of 600 rows were dropped: 5 without a group, 3 without a time" in federation.notes


# ---------------------------------------------------------------- on the command line


def test_groups_and_times_on_the_command_line(visits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data", "show", str(visits), "--label", "outcome", "--client", "hospital", "--group", "patient"]
    assert main([*words, "--time-column", "date", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["notes"][-1] == "test rows are the latest of each client, by 'date'"
    assert main(words) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "4 clients, 600 samples dealt, none set aside: each client is tested on rows of its own" in out
    assert main([*words, "--set", "data.pool=train"]) == 0
    assert "in the common test set" in " ".join(capsys.readouterr().out.split())


def test_a_schema_may_learn_from_groups_and_times(visits: Path, tmp_path: Path) -> None:
    wanted = 'label = "outcome"\nclasses = ["no", "yes"]\n[columns.year]\nkind = "number"\nmean = 2019.0\n'
    (tmp_path / "s.toml").write_text(wanted)
    words = {"client": "hospital", "group": "patient", "time_column": "year", "table_schema": str(tmp_path / "s.toml")}
    assert dealt(visits, **words).input.shape == (1,)


# ---------------------------------------------------------------- natural clients keep their rows


def test_natural_clients_of_ones_own_data_need_no_common_test_set(visits: Path, tmp_path: Path) -> None:
    federation = dealt(visits, client="hospital")
    assert (
        federation.test_is_clients
        and sum(len(client.train) + len(client.test) for client in federation.clients) == ROWS
    )
    assert len(federation.test) == sum(len(client.test) for client in federation.clients)
    apart = dealt(visits, client="hospital", pool="train")
    assert not apart.test_is_clients and len(apart.test) == pytest.approx(0.2 * ROWS, abs=2)
    for choices in ({"partition": "iid", "clients": 4}, {"client": "hospital", "test_share": 0.0}):
        assert not dealt(visits, **choices).test_is_clients
    rows = np.arange(80)
    np.savez(tmp_path / "a.npz", x=np.random.rand(80, 3), y=rows % 2, client=rows % 4, split=rows // 64)
    assert not build(DataSettings(name=str(tmp_path / "a.npz")), 0).test_is_clients, "an official test set stays one"
    assert not build(DataSettings(name="digits-domains"), 0).test_is_clients, "data by name keep their numbers"


def test_new_clients_may_have_another_test_share() -> None:
    """As GLD's users in FedBasis: the same clients and rows, and only those of new clients are cut elsewhere."""
    settings = {"name": "digits", "partition": "dirichlet:1.0", "clients": 8, "new_clients": 0.25, "test_share": 0.2}
    before, after = (
        build(DataSettings.model_validate(settings | more), 0)
        for more in ({}, {"new_test_share": 0.5, "new_share": 0.4})
    )
    for one, other in zip(before.clients, after.clients, strict=True):
        whole = len(one.train) + len(one.test)
        if one.new:
            assert other.new and len(other.test) == int(0.5 * whole)
            assert len(other.train) == round(0.4 * (whole - len(other.test)))
        else:
            assert torch.equal(one.train.x, other.train.x) and torch.equal(one.test.x, other.test.x)
    assert any(client.new for client in before.clients) and before.content_hash != after.content_hash
    none = build(DataSettings.model_validate(settings | {"new_test_share": 0.0}), 0)
    assert [len(client.test) > 0 for client in none.clients] == [not client.new for client in none.clients]
