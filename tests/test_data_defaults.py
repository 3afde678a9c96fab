"""The defaults for a user's table: indicators, ranks, a place for the others, dates; fitted, saved, exported."""

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from own_tables import rows_of, write_csv
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import QuantileTransformer

import motet
from motet.cli import main
from motet.data import DataSettings, Federation, Schema, TablePrepare, build
from motet.data.dates import days_of, days_of_value, is_date, order_of
from motet.data.fit_columns import KNOTS, Fitting, fit_category, fit_number
from motet.data.prepare import restored
from motet.data.prepare_table import restored_table
from motet.data.schema import BooleanColumn, CategoryColumn, DateColumn, NumberColumn, of_plain
from motet.errors import MotetError

RNG = np.random.default_rng(0)
AUTO = Fitting(min_count=5)


def table(folder: Path, rows: int = 300, **columns: Any) -> Path:
    """A table of an outcome, a hospital, noise, and these columns, whose values repeat to the end."""
    frame = pd.DataFrame({"noise": RNG.normal(size=rows).round(3)})
    for name, values in columns.items():
        frame[name] = [values[i % len(values)] for i in range(rows)]
    frame["hospital"] = [f"h{i % 3}" for i in range(rows)]
    frame["outcome"] = RNG.choice(["no", "yes"], rows)
    frame.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def dealt(path: Path, **choices: Any) -> Federation:
    return build(
        DataSettings.model_validate({"name": str(path), "label": "outcome", "client": "hospital", **choices}), 0
    )


def prepare_of(federation: Federation) -> TablePrepare:
    assert isinstance(federation.prepare, TablePrepare)
    return federation.prepare


def one(schema_column: Any, values: Any) -> np.ndarray:
    """What a column alone makes of these stored values."""
    prepare = TablePrepare((1,), Schema("y", ("a", "b"), {"c": schema_column}))
    return prepare(torch.tensor(values, dtype=torch.float32)[:, None]).numpy()


# ---------------------------------------------------------------- indicators


def test_holes_have_an_input_of_their_own() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0] * 5 + [np.nan] * 5, np.float32)
    column = fit_number(values, AUTO)
    assert column.indicator and column.width == 2
    made = one(column, values)
    assert made[:, 1].tolist() == [0.0] * 20 + [1.0] * 5
    assert made[:20, 0].mean() == pytest.approx(0, abs=1e-6) and (made[20:, 0] == made[:20, 0].mean()).all()
    assert not fit_number(values[1:-1], AUTO).indicator, "four rows are fewer than min_count"
    assert not fit_number(values, Fitting(min_count=5, indicators=False)).indicator
    assert not fit_number(np.full(9, np.nan, np.float32), AUTO).indicator, "a column of holes alone says nothing"


def test_indicators_follow_training_rows_alone_and_stand_in_the_schema(tmp_path: Path) -> None:
    path = table(
        tmp_path, size=[1, 2, 3, "", 4.5], sure=["true", "false", "", "true"], kind=["a", "b", "", "a"], full=[1, 2]
    )
    federation = dealt(path)
    columns = prepare_of(federation).schema.columns
    assert {name for name, column in columns.items() if column.indicator} == {"size", "sure", "kind"}
    assert isinstance(columns["sure"], BooleanColumn) and isinstance(columns["kind"], CategoryColumn)
    stored = torch.cat([client.train.x for client in federation.clients])
    made = prepare_of(federation)(stored)
    names = list(columns)
    assert made.shape[1] == federation.input.shape[0] == 4 + 2 + 3
    assert torch.equal(made[:, 4], stored[:, names.index("size")].isnan().float())
    assert torch.equal(made[:, 5], stored[:, names.index("sure")].isnan().float())
    assert torch.equal(made[:, 8], stored[:, names.index("kind")].isnan().float())
    assert made[:, 6:].sum(1).eq(1).all(), "a, b or missing"
    assert "indicator = true" in prepare_of(federation).schema.to_toml()
    assert dealt(path, indicators=False).input.shape[0] == 4 + 2


# ---------------------------------------------------------------- ranks


def test_one_outlier_does_not_flatten_a_column() -> None:
    values = np.concatenate([np.linspace(0, 1, 200), [1e6]]).astype(np.float32)
    flat, ranked = fit_number(values, Fitting(numbers="standard")), fit_number(values, AUTO)
    assert not flat.knots and 2 <= len(ranked.knots) == len(ranked.levels) <= KNOTS
    assert np.ptp(one(flat, values[:200])) < 1e-4
    made = one(ranked, values)[:, 0]
    assert (
        np.ptp(made[:200]) > 2
        and made.mean() == pytest.approx(0, abs=0.01)
        and made.std() == pytest.approx(1, abs=0.01)
    )
    assert max(ranked.knots) < 2, "the value of one row is in nobody's model"
    assert one(ranked, [1e20, -1e20, np.nan])[:, 0].tolist() == pytest.approx(
        [made.max(), made.min(), float(np.median(made))], abs=0.05
    )


@pytest.mark.parametrize("name", ["exponential", "lognormal", "cauchy", "zeros", "two clouds"])
def test_ranks_are_those_of_scikit_learn(name: str) -> None:
    rng = np.random.default_rng(1)
    made = {
        "exponential": rng.exponential(size=2000) ** 2,
        "lognormal": rng.lognormal(sigma=2, size=2000),
        "cauchy": rng.standard_cauchy(2000),
        "zeros": np.where(rng.random(2000) < 0.8, 0, rng.lognormal(sigma=1.5, size=2000)),
        "two clouds": np.where(rng.random(2000) < 0.02, 1e4, 0) + rng.normal(size=2000),
    }
    values = made[name].astype(np.float32)
    column = fit_number(values, AUTO)
    assert column.knots
    mine = one(column, values)[:, 0].astype(np.float64)
    theirs = QuantileTransformer(n_quantiles=2000, output_distribution="normal").fit_transform(values[:, None])[:, 0]
    if name != "zeros":  # of which scikit-learn makes -5, the lowest value it has
        assert np.corrcoef(mine, theirs.clip(-3, 3))[0, 1] > 0.985
    order = np.argsort(values, kind="stable")
    assert (np.diff(mine[order]) >= -1e-5).all(), "monotone"
    assert len(np.unique(mine.round(4))) > 0.9 * min(300, len(np.unique(values)))
    assert (
        abs(mine).max() < 8 and mine.mean() == pytest.approx(0, abs=1e-3) and mine.std() == pytest.approx(1, abs=1e-3)
    )


def test_columns_that_are_about_normal_are_scaled_as_ever() -> None:
    rng = np.random.default_rng(2)
    for values in (rng.normal(size=900), rng.random(900), rng.integers(0, 8, 900), (rng.random(900) < 0.02) * 1.0):
        column = fit_number(values.astype(np.float32), AUTO)
        assert not column.knots
        assert column.mean == pytest.approx(values.mean()) and column.deviation == pytest.approx(values.std())
    assert fit_number(rng.normal(size=900).astype(np.float32), Fitting(numbers="rank")).knots
    assert not fit_number(rng.exponential(size=900).astype(np.float32) ** 3, Fitting(normalize="none")).knots


def test_a_logistic_model_of_skewed_columns_is_not_worse_and_mostly_better() -> None:
    """Real columns: the areas and errors of the breast cancer data, and each made more skewed, as money is."""
    cancer = load_breast_cancer()
    better = worse = 0
    for i in range(30):
        for power in (1, 3):
            x = (cancer.data[:, [i]] ** power).astype(np.float32)
            x = np.concatenate([x, cancer.data[:, [(i + 7) % 30]].astype(np.float32) ** power], 1)
            rows = np.random.default_rng(i).permutation(len(x))
            train, test = rows[:150], rows[150:]
            scores = {}
            for numbers in ("standard", "auto"):
                how = Fitting(numbers=numbers, min_count=5)  # type: ignore[arg-type]
                columns = [fit_number(x[train, j], how) for j in range(2)]
                made = np.concatenate([one(column, x[:, j]) for j, column in enumerate(columns)], 1)
                model = LogisticRegression(max_iter=200).fit(made[train], cancer.target[train])
                scores[numbers] = roc_auc_score(cancer.target[test], model.predict_proba(made[test])[:, 1])
            better += scores["auto"] > scores["standard"] + 0.002
            worse += scores["auto"] < scores["standard"] - 0.005
    assert better >= 3 * max(1, worse), (better, worse)


def test_knots_come_back_from_toml_and_from_a_record(tmp_path: Path) -> None:
    path = table(
        tmp_path, money=[round(float(v), 2) for v in RNG.lognormal(sigma=2, size=299)], size=[1, 2, 3, "", 4.5]
    )
    prepare = prepare_of(dealt(path))
    money = prepare.schema.columns["money"]
    assert isinstance(money, NumberColumn) and money.knots
    (tmp_path / "s.toml").write_text(prepare.schema.to_toml(), encoding="utf-8")
    again = prepare_of(dealt(path, table_schema=str(tmp_path / "s.toml")))
    assert again.schema == prepare.schema == of_plain(json.loads(json.dumps(prepare.schema.plain())))
    rows = pd.read_csv(path)
    assert torch.equal(again.raw(rows), prepare.raw(rows))
    assert torch.equal(restored(*prepare.saved()).raw(rows), prepare.raw(rows))


def test_a_schema_of_before_reads_as_it_did() -> None:
    plain = {
        "label": "y",
        "classes": ["a", "b"],
        "columns": [
            ["n", {"kind": "number", "mean": 2.0, "deviation": 4.0, "fill": 1.0}],
            ["b", {"kind": "boolean", "fill": True}],
            ["c", {"kind": "category", "categories": ["p", "q"], "fill": None}],
        ],
    }
    prepare = restored_table({"schema": plain})
    assert prepare.input.shape == (4,)
    made = prepare.raw([{"n": 6, "b": None, "c": "q"}, {"n": None, "b": False, "c": "r"}])
    assert made.tolist() == [[1.0, 1.0, 0.0, 1.0], [-0.25, 0.0, 0.0, 0.0]]
    assert prepare.schema.plain() == {**plain, "classes": ("a", "b"), "columns": [
        plain["columns"][0], plain["columns"][1], ["c", {"kind": "category", "categories": ("p", "q"), "fill": None}],
    ]}  # fmt: skip


# ---------------------------------------------------------------- the others


def test_rare_and_unseen_categories_have_a_place(tmp_path: Path) -> None:
    values = np.array([0] * 20 + [1] * 10 + [2] * 3 + [3] * 3, np.float32)
    column = fit_category(values, ("a", "b", "c", "d"), AUTO)
    assert column.categories == ("a", "b") and column.other and column.width == 3
    assert not fit_category(values[:-2], ("a", "b", "c", "d"), AUTO).other, "four rows are fewer than min_count"
    town = ["Bern"] * 60 + ["Genf"] * 60 + [f"t{i}" for i in range(30)]
    prepare = prepare_of(dealt(table(tmp_path, 150, town=town)))
    known = prepare.schema.columns["town"]
    assert isinstance(known, CategoryColumn) and known.categories == ("Bern", "Genf") and known.other
    rows = [{"noise": 0, "town": name} for name in ("Bern", "t3", "never seen", None)]
    assert prepare.raw(rows)[:, 1:].tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0]]
    assert torch.equal(restored(*prepare.saved()).raw(rows), prepare.raw(rows))


# ---------------------------------------------------------------- dates


@pytest.mark.parametrize(
    ("text", "order", "day"),
    [
        ("2000-01-01", "ymd", 0.0),
        ("2020-12-31", "dmy", 7670.0),
        ("31.12.2020", "dmy", 7670.0),
        ("31/12/2020", "dmy", 7670.0),
        ("12/31/2020", "mdy", 7670.0),
        ("31 Dec 2020", "ymd", 7670.0),
        ("December 31, 2020", "ymd", 7670.0),
        ("31-Dec-2020", "ymd", 7670.0),
        ("2020/12/31 18:00", "ymd", 7670.75),
        ("2020-12-31T18:00:00Z", "ymd", 7670.75),
        ("2020-12-31T20:00:00+02:00", "ymd", 7670.75),
        ("12/31/2020 6:00 PM", "mdy", 7670.75),
        ("31.12.2020, 06:00:00.5", "dmy", 7670.25 + 0.5 / 86400),
    ],
)
def test_dates_are_days(text: str, order: Any, day: float) -> None:
    assert days_of(text, order) == pytest.approx(day, abs=1e-9)


@pytest.mark.parametrize("text", ["", "x", "2020-13-01", "31.11.2020", "1.2.3", "2020", "2020-01", "12:30", "1/2/20"])
def test_what_is_no_date(text: str) -> None:
    assert not is_date(text, "dmy")


def test_values_of_other_programs_are_dates_too() -> None:
    noon = datetime.datetime(2020, 12, 31, 12, tzinfo=datetime.UTC)
    for value in (noon, pd.Timestamp(noon), np.datetime64("2020-12-31T12:00"), "2020-12-31 12:00", 7670.5):
        assert days_of_value(value, "ymd") == pytest.approx(7670.5, abs=1e-6)
    assert days_of_value(datetime.date(2020, 12, 31), "ymd") == 7670


def test_the_order_is_what_all_values_allow() -> None:
    assert order_of(["2020-01-01", "2020-05-05"], "auto", "c", "w") == "ymd"
    assert order_of(["13/01/2020", "01/02/2020"], "auto", "c", "w") == "dmy"
    assert order_of(["01/13/2020", "01/02/2020"], "auto", "c", "w") == "mdy"
    assert order_of(["01.02.2020"], "auto", "c", "w") == "dmy"
    assert order_of(["01/02/2020"], "mdy", "c", "w") == "mdy"
    assert order_of(["13/01/2020", "01/13/2020"], "auto", "c", "w") is None
    assert order_of(["2020-01-01", "x"], "auto", "c", "w") is None
    with pytest.raises(
        MotetError, match=r"^w: column 'c' holds '01/02/2020', .*; accepted: --dates dmy or --dates mdy"
    ):
        order_of(["01/02/2020"], "auto", "c", "w")


FORMS = {
    "iso": "%Y-%m-%d",
    "with a time": "%Y-%m-%d %H:%M:%S",
    "european": "%d.%m.%Y",
    "british": "%d/%m/%Y %H:%M",
    "american": "%m/%d/%Y",
    "in words": "%d %b %Y",
}


@pytest.mark.parametrize("form", FORMS)
def test_dates_of_a_table_become_numbers_in_every_form(tmp_path: Path, form: str) -> None:
    days = pd.date_range("2018-03-05", periods=280, freq="31h").to_series().sample(280, random_state=0).dt.floor("min")
    path = table(tmp_path, 280, when=[*days.dt.strftime(FORMS[form])[:-6], *[""] * 6])
    federation = dealt(path)
    column = prepare_of(federation).schema.columns["when"]
    order = {"european": "dmy", "british": "dmy", "american": "mdy"}.get(form, "ymd")
    assert isinstance(column, DateColumn) and column.order == order
    (note,) = [note for note in federation.notes if note.startswith("dates become numbers of days: 'when'")]
    assert ("as " in note) == (order != "ymd")
    at = list(prepare_of(federation).schema.columns).index("when")
    found = federation.stored.x[:, at].double().numpy()
    exact = (days - pd.Timestamp("2000-01-01")) / pd.Timedelta(days=1)
    wanted = (exact if "%H" in FORMS[form] else np.floor(exact))[:-6]
    assert np.sort(found[~np.isnan(found)]) == pytest.approx(np.sort(wanted), abs=2e-3)
    text = days.dt.strftime(FORMS[form]).iloc[0]
    made = prepare_of(federation).raw([{"noise": 0, "when": text}, {"noise": 0, "when": days.iloc[0].floor("D")}])
    mean = (float(wanted.iloc[0]) - column.mean) / column.deviation
    assert made[0, 1].item() == pytest.approx(mean, abs=1e-3)
    with pytest.raises(MotetError, match=r"^input x: column 'when' is 'soon'; accepted: a date such as 2020-12-31"):
        prepare_of(federation).raw({"noise": 0, "when": "soon"})


def test_dates_in_parquet_by_a_schema_and_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_csv(table(tmp_path, when=["01/02/2020", "03/04/2020", "05/06/2021"]))
    words = ["data", "show", str(tmp_path / "t.csv"), "--label", "outcome", "--client", "hospital"]
    assert main(words) == 2
    assert "a date whose day or month comes first; accepted: --dates dmy or --dates mdy" in capsys.readouterr().err
    assert main([*words, "--dates", "mdy"]) == 0
    assert "dates become numbers of days: 'when' (as month, day, year)" in capsys.readouterr().out
    american = dealt(tmp_path / "t.csv", dates="mdy")
    (tmp_path / "s.toml").write_text(prepare_of(american).schema.to_toml())
    again = dealt(tmp_path / "t.csv", table_schema=str(tmp_path / "s.toml"))
    assert torch.equal(american.stored.x, again.stored.x)
    frame["when"] = pd.to_datetime(frame["when"], format="%m/%d/%Y")
    frame.to_parquet(tmp_path / "t.parquet")
    stamps = dealt(tmp_path / "t.parquet")
    assert torch.equal(stamps.stored.x, american.stored.x)
    assert torch.equal(dealt(tmp_path / "t.parquet", table_schema=str(tmp_path / "s.toml")).stored.x, american.stored.x)
    (tmp_path / "t.csv").write_text((tmp_path / "t.csv").read_text().replace("05/06/2021", "later"))
    with pytest.raises(MotetError, match=r"column 'when' holds 'later', but the schema says that it holds dates"):
        dealt(tmp_path / "t.csv", table_schema=str(tmp_path / "s.toml"))


def test_a_text_far_behind_the_first_dates_makes_categories(tmp_path: Path) -> None:
    lines = [f"2020-0{i % 9 + 1}-01,{'ab'[i % 2]}" for i in range(60_000)]
    (tmp_path / "t.csv").write_text("\n".join(["when,outcome", *lines, "unknown,a", ""]))
    federation = build(
        DataSettings(name=str(tmp_path / "t.csv"), label="outcome", partition="iid", clients=2, subset=0.05), 0
    )
    assert isinstance(prepare_of(federation).schema.columns["when"], CategoryColumn)


# ---------------------------------------------------------------- in use


def test_a_run_serves_and_exports_what_was_fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    days = pd.date_range("2020-01-01", periods=50).strftime("%d.%m.%Y").tolist()
    path = table(
        tmp_path,
        money=[round(float(v), 2) for v in RNG.lognormal(sigma=2, size=299)],
        size=[1, 2, 3, "", 4.5],
        town=["Bern"] * 50 + ["Genf"] * 50 + [f"t{i}" for i in range(29)],
        when=days,
    )
    result = motet.run(data=str(path), label="outcome", client="hospital", rounds=2, out="run", net="logistic")
    rows = pd.read_csv(path).drop(columns=["outcome", "hospital"])[:40]
    rows.loc[3, "town"] = "never seen"
    before = result.generic_model()(rows)
    assert torch.equal(motet.load("run").generic_model()(rows), before)
    motet.export("run", "models", formats=["torch", "onnx"])
    loaded = motet.load_model("models/generic")
    assert torch.allclose(loaded(rows), before, atol=1e-5)
    described = json.loads(Path("models/generic/model.json").read_text())
    columns = dict(described["prepare"]["schema"]["columns"])
    assert columns["money"]["knots"] and columns["size"]["indicator"] and columns["town"]["other"]
    assert columns["when"]["order"] == "dmy"
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession("models/generic/model.onnx")
    stored = restored_table(described["prepare"]).stored(rows).numpy()
    found = session.run(["logits"], {"x": stored})[0]
    assert np.abs(found - before.numpy()).max() < 1e-4


def test_data_by_name_and_arrays_are_prepared_as_ever(tmp_path: Path) -> None:
    x = RNG.lognormal(sigma=3, size=(200, 4)).astype(np.float32)
    np.savez(tmp_path / "a.npz", x=x, y=np.arange(200) % 2)
    prepare = build(
        DataSettings(name=str(tmp_path / "a.npz"), clients=2, partition="iid", normalize_on="all"), 0
    ).prepare
    assert not isinstance(prepare, TablePrepare) and prepare.input.shape == (4,)
    wine = write_csv(rows_of("wine"), tmp_path / "wine.csv")
    plain = DataSettings(name=str(wine), label="kind", client="site", numbers="standard", indicators=False)
    assert build(plain, 0).input.shape[0] == 13 + 1 + 2
