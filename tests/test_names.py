"""The composition grammar: what it reads, what it refuses, and every refusal in one sentence."""

from typing import Any

import pytest
from by_hand import FACTS
from hypothesis import given
from hypothesis import strategies as st
from inputs import input_of

from motet.config.experiment import resolve
from motet.config.identity import fingerprint
from motet.config.names import Term, literal, parse
from motet.errors import MotetError
from motet.methods import METHODS, build_method, canonical, describe_methods
from motet.methods.averaging import Averaging
from motet.methods.base import Method
from motet.methods.centralized import Centralized
from motet.methods.finetuning import FineTuned
from motet.nets import build_net
from motet.server.assembly import settle


def build(text: str) -> Method:
    return build_method(text, build_net("mlp", input_of(8), 3), FACTS)


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("fedavg", [Term("fedavg")]),
        ("FedAvg", [Term("fedavg")]),
        ("fedavg()", [Term("fedavg")]),
        (" fedprox ( mu = 0.01 ) + ft ", [Term("fedprox", {"mu": 0.01}), Term("ft")]),
        ("a(x=1, y=true, z=word)", [Term("a", {"x": 1, "y": True, "z": "word"})]),
        ("super-b(x=1e-3)+c2", [Term("super-b", {"x": 1e-3}), Term("c2")]),
        ("a(x=1,)", [Term("a", {"x": 1})]),
    ],
)
def test_reading(text: str, terms: list[Term]) -> None:
    assert parse(text) == terms


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-2", -2),
        ("1.5", 1.5),
        ("1e-3", 1e-3),
        (".5", 0.5),
        ("1.", 1.0),
        ("true", True),
        ("false", False),
        ("word", "word"),
        ("meta-bsm", "meta-bsm"),
        ('"word"', "word"),
        ("'word'", "word"),
    ],
)
def test_literals(text: str, value: object) -> None:
    found = literal(text)
    assert found == value and type(found) is type(value)


words = st.from_regex(r"[a-z][a-z0-9]{0,6}(-[a-z]{1,4})?", fullmatch=True)
keys = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True)
numbers = st.one_of(st.integers(-(10**9), 10**9), st.floats(allow_nan=False, allow_infinity=False), st.booleans())
values = st.one_of(numbers, words.filter(lambda word: literal(word) == word))


@given(st.lists(st.builds(Term, words, st.dictionaries(keys, values, max_size=3)), min_size=1, max_size=4))
def test_what_is_written_is_read_back(terms: list[Term]) -> None:
    assert parse("+".join(map(str, terms))) == terms


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "nothing readable at ''"),
        ("+ft", "nothing readable at '+ft'"),
        ("fedavg+", "nothing readable at ''"),
        ("fedavg++ft", "nothing readable at '+ft'"),
        ("3d", "nothing readable at '3d'"),
        ("fedavg ft", "unexpected 'ft'"),
        ("fedavg*2", "unexpected '*2'"),
        ("fedprox(mu=0.1", "unexpected '(mu=0.1'"),
        ("fedprox(mu=(1))", "unexpected '(mu=(1))'"),
        ("fedprox(0.1)", "'0.1' is not option=value"),
        ("fedprox(mu=)", "'mu=' is not option=value"),
        ("fedprox(=1)", "'=1' is not option=value"),
        ("fedprox(m u=1)", "'m u=1' is not option=value"),
        ("fedprox(mu=1, mu=2)", "option 'mu' is given twice"),
    ],
)
def test_what_cannot_be_read(text: str, reason: str) -> None:
    with pytest.raises(MotetError) as error:
        build(text)
    assert str(error.value) == (
        f"method {text!r} cannot be read ({reason}); accepted: names joined by +, such as fedprox(mu=0.01)+ft"
    )


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_in_one_sentence(text: str) -> None:
    try:
        build(text)
    except MotetError as error:
        assert str(error).startswith(("method ", "unknown method "))


# ---------------------------------------------------------------- names and options


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(MotetError, match=r"^unknown method 'fedprx': did you mean 'fedprox'\? accepted: .*fedavg"):
        build("fedprx(mu=1)+ft")
    with pytest.raises(MotetError, match=r"^unknown method 'qqqq': accepted: "):
        build("fedavg+qqqq")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fedprox(mu=-1)", "method fedprox: mu is -1; accepted: a number of at least 0"),
        ("fedprox(mu=nan)", "method fedprox: mu is nan; accepted: a number of at least 0"),
        ("fedprox(mu=inf)", "method fedprox: mu is inf; accepted: a number of at least 0"),
        ("fedprox(mu=much)", "method fedprox: mu is 'much'; accepted: a number of at least 0"),
        ("feddyn(lam=0)", "method feddyn: lam is 0; accepted: a number above 0"),
        ("scaffold(eta_g=0)", "method scaffold: eta_g is 0; accepted: a number above 0"),
        ("fedavg+ft(epochs=0)", "method ft: epochs is 0; accepted: a whole number of at least 1"),
        ("fedavg+lp(epochs=1.5)", "method lp: epochs is 1.5; accepted: a whole number of at least 1"),
        ("fedavg(weighting=size)", "method fedavg: weighting is 'size'; accepted: auto | samples | uniform"),
        ("fedprox(nu=1)", "method fedprox: unknown field 'nu': did you mean 'mu'? accepted: mu"),
        ("local(mu=1)", "method local: unknown field 'mu': accepted: none"),
    ],
)
def test_a_bad_option_is_named_with_what_is_accepted(text: str, sentence: str) -> None:
    with pytest.raises(MotetError) as error:
        build(text)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ft", "ft personalizes another method; accepted: such as fedavg+ft"),
        ("lp(epochs=2)", "lp personalizes another method; accepted: such as fedavg+lp"),
        ("fedavg+ft+lp", "ft and lp both personalize what the method serves; accepted: one of ft, lp"),
        (
            "centralized+fedprox",
            "centralized is a method of its own and cannot carry fedprox; accepted: centralized alone",
        ),
        (
            "fedavg+centralized",
            "centralized is a method of its own and cannot carry fedavg; accepted: centralized alone",
        ),
        ("local+fedavg", "local shares no weights, so fedavg has nothing to act on; accepted: one of the two"),
        ("local+fedprox", "local shares no weights, so fedprox has nothing to act on; accepted: one of the two"),
        ("scaffold+local", "local shares no weights, so scaffold has nothing to act on; accepted: one of the two"),
        ("local+ft", "local already trains on the client's own data; accepted: local, or fedavg+ft"),
        ("scaffold+feddyn", "scaffold and feddyn are both a drift correction; accepted: one of them"),
    ],
)
def test_sums_that_make_no_sense(text: str, why: str) -> None:
    with pytest.raises(MotetError) as error:
        build(text)
    assert str(error.value) == f"method {text!r} makes no sense: {why}"


def test_a_name_twice() -> None:
    with pytest.raises(MotetError) as error:
        build("fedprox(mu=1)+ft+fedprox(mu=2)")
    assert str(error.value) == "method 'fedprox+ft+fedprox' names 'fedprox' twice; accepted: each name once"


# ---------------------------------------------------------------- what a sum becomes


def test_names_become_methods() -> None:
    for text in ("fedavg", "fedprox", "local", "fedprox+scaffold"):
        assert type(build(text)) is Averaging
    assert type(build("centralized")) is Centralized
    tuned = build("fedprox(mu=2)+ft(epochs=7)")
    assert isinstance(tuned, FineTuned) and isinstance(tuned.inner, Averaging)
    assert (tuned.options.epochs, tuned.head_only) == (7, False)
    assert tuned.inner.parts[0].mu == 2
    assert build("lp+fedavg").head_only is True


@pytest.mark.parametrize(
    ("text", "weighting"),
    [
        ("fedavg", "samples"),
        ("fedprox", "samples"),
        ("scaffold", "uniform"),
        ("fedprox+feddyn", "uniform"),
        ("scaffold+fedavg(weighting=samples)", "samples"),
        ("fedavg(weighting=uniform)", "uniform"),
    ],
)
def test_the_server_weighs_as_the_recipe_says_unless_told(text: str, weighting: str) -> None:
    assert build(text).weighting == weighting


@given(st.permutations(["fedprox(mu=0.5)", "feddyn", "fedavg", "ft(epochs=2)"]))
def test_the_order_of_terms_means_nothing(terms: list[str]) -> None:
    assert canonical("+".join(terms)) == "fedavg+fedprox(mu=0.5)+feddyn+ft(epochs=2)"


def test_two_ways_to_write_a_sum_are_one_experiment() -> None:
    one, other = (settle(resolve({"method": text})) for text in ("ft + FedProx(mu=0.50)", "fedprox(mu=0.5)+ft"))
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize("name", list(METHODS))
def test_every_name_is_described(name: str) -> None:
    row: dict[str, Any] = next(row for row in describe_methods() if row["name"] == name)
    assert row["summary"] and row["paper"] and row["kind"] in ("part", "whole method", "personalization")
    assert row["options"].keys() == METHODS[name].options.model_fields.keys()
    assert canonical(name) == name
