"""The transform `noise`: what it covers and refuses, how much noise there is, and what the account says of it."""

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from motet.cli import main
from motet.errors import MotetError
from motet.messages.message import Message, decode, tensor
from motet.messages.noise import GaussianNoise
from motet.messages.privacy_account import renyi_epsilon, spent_epsilon, tight_epsilon
from motet.methods import METHODS
from motet.methods.base import MethodEntry, Part, Training
from motet.runs.record import Record
from motet.runs.run import resume, run
from motet.server.assembly import assemble
from motet.server.message_walk import plan_of
from motet.testing.twin import last_states, play, tiny

dp = pytest.importorskip("dp_accounting")
UNIFORM = "fedavg(weighting=uniform)"
SILENT = {"train_loss": False}
REFERENCE = json.loads((Path(__file__).parent / "vectors" / "dp_accounting.json").read_text(encoding="utf-8"))


def covered(transforms: str, method: str = UNIFORM, **changes: Any) -> Any:
    scoring = SILENT | changes.pop("scoring", {})
    return tiny(method, transforms=transforms, scoring=scoring, **changes)


# ---------------------------------------------------------------- the account


@pytest.mark.parametrize("setting", REFERENCE["settings"], ids=lambda s: f"{s['noise']}-{s['q']}")
def test_epsilon_is_that_of_the_reference_to_three_digits(setting: Mapping[str, float]) -> None:
    """Of Opacus' PRV and RDP accountants and of dp-accounting's own."""
    noise, steps, delta = dp.GaussianDpEvent(setting["noise"]), int(setting["steps"]), setting["delta"]
    event = noise if setting["q"] == 1 else dp.PoissonSampledDpEvent(setting["q"], noise)
    assert tight_epsilon(event, steps, delta) == pytest.approx(setting["opacus_prv"], rel=5e-4)
    assert tight_epsilon(event, steps, delta) == pytest.approx(setting["dp_accounting_pld_interval1e-3"], rel=5e-6)
    assert renyi_epsilon(event, steps, delta) == pytest.approx(setting["dp_accounting_rdp"], rel=1e-9)
    assert renyi_epsilon(event, steps, delta) == pytest.approx(setting["opacus_rdp"], rel=5e-3)


def test_with_all_clients_a_run_spends_what_the_reference_says_of_half_its_multiplier() -> None:
    """One client with other data moves the sum by two norms."""
    whole = next(s for s in REFERENCE["settings"] if s["q"] == 1)
    spent = spent_epsilon(2 * whole["noise"], 30, 30, whole["steps"], whole["delta"])
    assert spent == pytest.approx(whole["opacus_prv"], rel=5e-4)


def without_replacement(q: float, sigma: float, alpha: int) -> float:
    """Rényi divergence of order α by Theorem 27 of Wang, Balle and Kasiviswanathan, in plain numbers of Python."""

    def moments(order: int) -> float:  # E[(p/q)^order] of two Gaussians one apart
        return math.exp(order * (order - 1) / (2 * sigma**2))

    def difference(order: int) -> float:  # of even order, of the curve of moments
        return sum((-1) ** i * math.comb(order, i) * moments(order - i) for i in range(order + 1))

    total = 1.0
    for j in range(2, alpha + 1):
        if j == 2:
            factor = min(4 * (math.exp(1 / sigma**2) - 1), 2 * math.exp(1 / sigma**2))
        else:
            low, high = difference(2 * (j // 2)), difference(2 * math.ceil(j / 2))
            factor = min(4 * math.sqrt(low * high), 2 * math.exp(j * (j - 1) / (2 * sigma**2)))
        total += math.comb(alpha, j) * q**j * factor
    return math.log(total) / (alpha - 1)


@pytest.mark.parametrize(("multiplier", "clients", "cohort", "rounds"), [(4.0, 100, 10, 100), (8.0, 20, 8, 20)])
def test_a_cohort_without_replacement_is_accounted_as_its_theorem_says(
    multiplier: float, clients: int, cohort: int, rounds: int
) -> None:
    delta, by_hand = 1e-5, math.inf
    for alpha in range(2, 9):
        rdp = rounds * without_replacement(cohort / clients, multiplier / 2, alpha)
        by_hand = min(by_hand, rdp + math.log1p(-1 / alpha) - math.log(delta * alpha) / (alpha - 1))
    spent = spent_epsilon(multiplier, clients, cohort, rounds, delta)
    assert spent == pytest.approx(by_hand, rel=5e-4)
    assert spent < spent_epsilon(multiplier, clients, clients, rounds, delta)  # who is not drawn tells nothing


def test_every_row_the_summary_and_motet_show_tell_epsilon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = covered("noise(norm=0.5, multiplier=8.0, delta=0.001)")
    folder = run(asked, tmp_path / "run")
    rows, summary = Record(folder).rounds, Record(folder).summary
    assert [row["epsilon"] for row in rows] == [spent_epsilon(8.0, 4, 2, t, 0.001) for t in (1, 2, 3)]
    assert rows[0]["epsilon"] < rows[1]["epsilon"] < rows[2]["epsilon"]
    assert summary.privacy is not None
    assert (summary.privacy.epsilon, summary.privacy.delta, summary.privacy.rounds) == (rows[2]["epsilon"], 0.001, 3)
    assert main(["show", str(folder)]) == 0
    assert f"ε = {rows[2]['epsilon']:.3g} at δ = 0.001 after 3 rounds" in " ".join(capsys.readouterr().out.split())
    assert run(covered(""), tmp_path / "plain") and Record(tmp_path / "plain").summary.privacy is None


# ---------------------------------------------------------------- the noise


@pytest.mark.parametrize("at", ["server", "client"])
def test_the_mean_has_the_noise_that_the_account_counts(at: str) -> None:
    """With changes clipped to nothing, what the mean moves is the noise: multiplier x norm / cohort in every number."""
    norm, multiplier = 1e-4, 50.0
    asked = covered(f"noise(norm={norm}, multiplier={multiplier}, at={at})", rounds={"count": 1, "cohort": 1.0})
    played = play(asked)
    start = tensor(assemble(asked).method.start(), "w")
    moved = (tensor(played.server, "w") - start).double()
    expected = multiplier * norm / 4
    assert float(moved.std()) == pytest.approx(expected, rel=0.02)
    assert abs(float(moved.mean())) < 4 * expected / len(moved) ** 0.5
    assert float(moved.abs().max()) > 3 * expected  # no bounded noise


def test_at_the_client_every_reply_is_clipped_has_its_share_and_tells_no_number_of_samples() -> None:
    norm, multiplier = 1e-4, 50.0
    asked = covered(f"noise(norm={norm}, multiplier={multiplier}, at=client)", rounds={"count": 1, "cohort": 1.0})
    played = play(asked, strict=True)
    shares = []
    for exchange in (e for e in played.engine.exchanges if e.task.kind == "train"):
        reply = decode(exchange.answered)
        assert reply["n"] == 1
        shares.append((tensor(reply, "w") - tensor(exchange.task.build_message(), "w")).double())
    for share in shares:
        assert float(share.std()) == pytest.approx(multiplier * norm / 2, rel=0.02)  # 1/4 of the variance
    correlation = np.corrcoef(torch.stack(shares).numpy()) - np.eye(4)
    assert np.abs(correlation).max() < 0.05  # every client draws its own


def test_at_the_server_the_change_is_clipped_whatever_a_client_sent() -> None:
    asked = covered("noise(norm=0.05, multiplier=0.0001)", rounds={"count": 1, "cohort": 1.0})
    start = tensor(assemble(asked).method.start(), "w")
    moved = tensor(play(asked).server, "w") - start
    free = tensor(play(covered("", rounds={"count": 1, "cohort": 1.0})).server, "w") - start
    assert 0.01 < float(moved.norm()) <= 0.0501 < float(free.norm())


class Fails(Part):
    """Client 2 diverges in every round."""

    def after(self, t: Training, reply: Message) -> None:
        """Send no number."""
        if t.client.id == 2:
            reply["w"] = tensor(reply, "w") * math.nan


@pytest.mark.parametrize("at", ["server", "client"])
def test_a_client_that_fails_counts_as_no_change_with_its_noise(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that neither the divisor of the mean nor the noise depends on anybody's data."""
    monkeypatch.setitem(METHODS, "fails", MethodEntry("fails", "", "", part=Fails))
    norm, multiplier = 1e-4, 50.0
    words = f"noise(norm={norm}, multiplier={multiplier}, at={at})"
    asked = covered(words, method=f"{UNIFORM}+fails", rounds={"count": 1, "cohort": 1.0})
    played = play(asked)
    assert list(played.rows[0]["set_aside"]) == ["2"]
    moved = (tensor(played.server, "w") - tensor(assemble(asked).method.start(), "w")).double()
    assert float(moved.std()) == pytest.approx(multiplier * norm / 4, rel=0.02)
    one = covered("noise(norm=1e5, multiplier=1e-12)", method=f"{UNIFORM}+fails", rounds={"count": 1, "cohort": 1.0})
    start = tensor(assemble(one).method.start(), "w")
    three = play(covered("", method=f"{UNIFORM}+fails", rounds={"count": 1, "cohort": 1.0}))
    of_four, of_three = tensor(play(one).server, "w") - start, tensor(three.server, "w") - start
    torch.testing.assert_close(of_four, of_three * 3 / 4, rtol=1e-3, atol=1e-6)


def test_the_same_bytes_in_the_pool_and_after_a_stop(tmp_path: Path) -> None:
    words = "noise(multiplier=0.1, at=client)"
    whole = run(covered(words, engine={"name": "inline"}), tmp_path / "inline")
    pool = run(covered(words, engine={"name": "pool", "workers": 2}), tmp_path / "pool")
    assert last_states(pool) == last_states(whole)
    with pytest.raises(KeyboardInterrupt):
        run(covered(words, engine={"name": "inline"}), tmp_path / "stopped", StopsAfterOne())
    resume(tmp_path / "stopped")
    assert last_states(tmp_path / "stopped") == last_states(whole)
    epsilons = [[row["epsilon"] for row in Record(folder).rounds] for folder in (whole, tmp_path / "stopped", pool)]
    assert epsilons[0] == epsilons[1] == epsilons[2]


class StopsAfterOne:
    """Ends the work after one round."""

    def started(self, *_: object) -> None:
        """Nothing to do."""

    def round(self, row: dict[str, object]) -> None:
        """Stop."""
        if row["round"] == 1:
            raise KeyboardInterrupt


def test_a_real_site_draws_its_noise_from_a_secret_of_its_own() -> None:
    """Who knows the seed of the experiment, as the server does, cannot subtract it."""
    asked = covered("noise(at=client)")
    clients = []
    for secret in (b"", b"a" * 32, b"b" * 32):
        workplace = assemble(asked).workplace
        workplace.secret = secret
        clients.append(workplace.client_of(workplace.holdings.clients[0], 1, {}))
    message: Message = {"w": torch.zeros(100)}
    sent = [GaussianNoise(at="client").pack(client, message, {"w": torch.zeros(100), "n": 9}) for client in clients]
    assert not torch.equal(tensor(sent[0], "w"), tensor(sent[1], "w"))
    assert not torch.equal(tensor(sent[1], "w"), tensor(sent[2], "w"))


# ---------------------------------------------------------------- what is not covered is refused


class TellsCounts(Part):
    """Adds a tensor of whole numbers to its reply, or a number."""

    uploads: ClassVar = {"counts": "sum"}
    whole: bool = True

    def after(self, t: Training, reply: Message) -> None:
        """Say what no noise covers."""
        reply["counts"] = t.client.counts.long() if self.whole else 0.5


@pytest.mark.parametrize(("option", "kind"), [("true", "a tensor of torch.int64"), ("false", "a number")])
def test_a_field_that_is_no_tensor_of_floats_ends_the_run(
    option: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "counts", MethodEntry("counts", "", "", part=TellsCounts))
    with pytest.raises(MotetError, match=f"^reply field 'counts' is {kind}, which noise does not cover; accepted"):
        play(covered("noise", method=f"{UNIFORM}+counts(whole={option})"))


@pytest.mark.parametrize(
    ("method", "changes", "sentence"),
    [
        ("pgfed", {}, "reply field 'pgfed.G' is used of each client by itself, and noise covers sums and means alone"),
        (f"{UNIFORM}+median", {}, "reply field 'w' is used of each client by itself"),
        ("fedavg", {}, "reply field 'w' is a mean weighted by numbers of samples, which no noise covers"),
        (UNIFORM, {"scoring": {"train_loss": True}}, "the training loss of each client travels beside its reply"),
        (UNIFORM, {"scoring": {"metrics": ["drift"]}}, "scoring.metrics has 'drift', which reads the model of each"),
        (UNIFORM, {"scoring": {"derived_generic": True}}, "personal models travel for scoring.derived_generic"),
        (UNIFORM, {"rounds": {"count": "auto"}}, "no noise covers scores, and rounds.count is 'auto'"),
        (UNIFORM, {"scoring": {"report": "best_on_validation"}}, "no noise covers scores, and scoring.report is"),
        (UNIFORM, {"net": {"name": "resnet8(norm=batch)"}}, "reply field 'w' has running statistics of batch normaliz"),
    ],
)
def test_what_travels_uncovered_is_one_sentence(method: str, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MotetError) as error:
        assemble(covered("noise", method=method, **changes))
    assert str(error.value).startswith("transforms is 'noise': ")
    assert sentence in str(error.value) and "accepted: " in str(error.value)


def test_replies_before_the_first_round_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assembly = assemble(covered(""))
    assembly.method.prepares = True
    plan = plan_of(assembly.experiment, assembly.method, (), (GaussianNoise(),))
    assert "sends replies before the first round, which noise does not cover" in str(GaussianNoise().refuse(plan))


def test_second_fields_are_covered_with_the_first() -> None:
    """SCAFFOLD's control variates travel beside the weights: both are clipped as one and get noise."""
    norm, multiplier = 1e-4, 50.0
    played = play(covered(f"noise(norm={norm}, multiplier={multiplier}, at=client)", method="scaffold"), strict=True)
    trained = [e for e in played.engine.exchanges if e.task.kind == "train"]
    for exchange in trained:
        change = tensor(decode(exchange.answered), "scaffold.dc").double()
        assert float(change.std()) == pytest.approx(multiplier * norm / 2**0.5, rel=0.05)


@pytest.mark.parametrize(
    ("transforms", "sentence"),
    [
        ("noise+noise", "noise stands there twice"),
        ("int8+noise", "what is compressed cannot be clipped; accepted: noise before it"),
        ("noise(at=client)+top-k", "noise(at=client) is private in the sum of its shares"),
        ("noise(delta=1.0)", "transform noise: delta is 1.0; accepted: a number above 0 and below 1"),
    ],
)
def test_rows_of_transforms_that_would_make_the_account_wrong(transforms: str, sentence: str) -> None:
    with pytest.raises(MotetError) as error:
        assemble(covered(transforms))
    assert sentence in str(error.value)


def test_fedbn_keeps_the_statistics_and_is_covered() -> None:
    asked = covered("noise", method=f"{UNIFORM}+fedbn", net={"name": "resnet8(norm=batch)"})
    assembly = assemble(asked)
    assert any(isinstance(module, nn.BatchNorm2d) for module in assembly.method.net.modules())


def test_without_the_extra_a_sentence_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(
        MotetError, match=r"^transforms has 'noise', but dp-accounting cannot be imported .*motet\[dp\]"
    ):
        assemble(covered("noise"))
