"""Which member of a family of personal models is reported: every rule, and clients that lack data."""

import pytest

from motet.messages.message import Message
from motet.metrics.family import by_rule, choose, chosen_by, report, sweep, tally

FAMILY = ("0.0", "0.5", "1.0")


def reply(split: tuple[float, ...] = (), validation: tuple[float, ...] = ()) -> Message:
    """A client's figures for the three members."""
    own = {"split": split, "validation": validation}
    return {f"member:{n}.{d}.accuracy": v for d, values in own.items() for n, v in zip(FAMILY, values, strict=False)}


CLIENTS = [
    reply(split=(0.9, 0.8, 0.1), validation=(0.2, 0.9, 0.3)),
    reply(split=(0.2, 0.7, 0.8), validation=(0.1, 0.1, 0.9)),
]


def test_each_rule_by_hand() -> None:
    rules = choose(CLIENTS, FAMILY, fixed="1.0", data="split")
    assert rules == {
        "fixed": ["1.0", "1.0"],
        "common_best": ["0.5", "0.5"],
        "oracle": ["0.0", "1.0"],
        "common_validation": ["1.0", "1.0"],  # means 0.15, 0.5, 0.6
        "validation": ["0.5", "1.0"],
    }
    expected = {"fixed": 0.45, "common_best": 0.75, "oracle": 0.85, "common_validation": 0.45, "validation": 0.8}
    named = {f"rule:{name}.split.accuracy.mean": value for name, value in expected.items()}
    assert by_rule(CLIENTS, rules, "split") == pytest.approx(named)
    assert chosen_by("oracle", rules) == ["0.0", "1.0"]


def test_the_first_of_equals() -> None:
    rules = choose([reply((0.5, 0.5, 0.5), (0.4, 0.6, 0.6))], FAMILY, "1.0", "split")
    assert (rules["common_best"], rules["oracle"], rules["validation"]) == (["0.0"], ["0.0"], ["0.5"])


def test_without_validation_data_there_is_no_such_rule() -> None:
    rules = choose([reply((0.1, 0.2, 0.3))], FAMILY, "0.5", "split")
    assert set(rules) == {"fixed", "common_best", "oracle"}
    assert chosen_by("validation", rules) == chosen_by("common_validation", rules) == ["0.5"]


def test_a_client_without_the_data_to_choose_by_has_the_fixed_member_and_stops_nobody() -> None:
    untested, unvalidated = reply(validation=(0.1, 0.3, 0.2)), reply(split=(0.6, 0.0, 0.0))
    clients = [*CLIENTS, untested, unvalidated]
    rules = choose(clients, FAMILY, "1.0", "split")
    assert rules["oracle"] == ["0.0", "1.0", "1.0", "0.0"]
    assert rules["validation"] == ["0.5", "1.0", "0.5", "1.0"]
    assert rules["common_best"] == ["0.0"] * 4  # (0.9 + 0.2 + 0.6) / 3 is the best mean over those who have one
    oracle = by_rule(clients, rules, "split")["rule:oracle.split.accuracy.mean"]
    assert oracle == pytest.approx((0.9 + 0.8 + 0.6) / 3)


def test_nobody_scored() -> None:
    assert choose([], FAMILY, "0.5", "split") == {"fixed": []}
    assert choose([{}], FAMILY, "0.5", "split") == {"fixed": ["0.5"]}
    assert by_rule([{}], {"fixed": ["0.5"]}, "split") == {} and sweep([{}], FAMILY) == {}


def test_report_gives_the_members_figures_to_the_personal_model() -> None:
    more = {"n": 7, "member:0.5.split.ece": 0.1, "member:0.5.diverged": True}
    told = report(CLIENTS[0] | more, "0.5")
    assert (told["personal.split.accuracy"], told["personal.validation.accuracy"], told["n"]) == (0.8, 0.9, 7)
    assert told["personal.split.ece"] == 0.1 and told["personal.diverged"] is True
    assert "personal.weighted.accuracy" not in told and told["member:0.0.split.accuracy"] == 0.9


def test_sweep_is_the_mean_over_clients_that_have_the_figure() -> None:
    curve = sweep([*CLIENTS, reply(split=(0.1, 0.0, 0.0))], FAMILY)
    assert len(curve) == 6
    assert curve["member:0.0.split.accuracy.mean"] == pytest.approx(0.4)
    assert curve["member:0.0.validation.accuracy.mean"] == pytest.approx(0.15)


def test_tally() -> None:
    assert tally(["0.5", "0.0", "0.5"]) == {"0.0": 1, "0.5": 2}
