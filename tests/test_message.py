"""Messages survive the wire, are counted in bytes exactly, and are refused when damaged."""

import math

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from motet.errors import MotetError
from motet.messages.message import State, byte_count, decode, encode, number, tensor

DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
]


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    t = torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(draw(st.integers(0, 9))))
    t = t.to(draw(st.sampled_from(DTYPES)))
    return t.transpose(0, -1) if draw(st.booleans()) else t  # not every tensor lies in one piece


scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats()
states = st.dictionaries(st.from_regex(r"[a-z][a-z0-9_.]{0,8}", fullmatch=True), tensors() | scalars, max_size=5)


def same(a: object, b: object) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    both_nan = isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)
    return type(a) is type(b) and (both_nan or a == b)


@given(states)
def test_round_trip(state: State) -> None:
    again = decode(encode(state))
    assert again.keys() == state.keys()
    assert all(same(again[name], state[name]) for name in state)


@given(states)
def test_byte_count_is_the_length_on_the_wire(state: State) -> None:
    assert byte_count(state) == (len(encode(state)) if state else 0)  # an empty message is not sent


@given(states)
def test_the_same_state_gives_the_same_bytes(state: State) -> None:
    assert encode(dict(reversed(state.items()))) == encode(state)


def test_scalar_types_are_preserved() -> None:
    state: State = {"b": True, "i": 2**62 + 1, "f": 0.1}
    assert {name: (type(v), v) for name, v in decode(encode(state)).items()} == {
        "b": (bool, True),
        "i": (int, 2**62 + 1),
        "f": (float, 0.1),
    }


def test_any_reader_of_safetensors_reads_a_message() -> None:
    state: State = {'a "name" of é': torch.arange(3, dtype=torch.int16), "flag": True, "w": torch.ones(2, 2), "n": 7}
    named = {name: v if isinstance(v, Tensor) else torch.tensor(v) for name, v in state.items()}
    assert encode(state) == safetensors.torch.save(named)  # wider numbers first and a padded header: all are aligned
    found = safetensors.torch.load(encode(state))
    assert {name: t.tolist() for name, t in found.items()} == {
        'a "name" of é': [0, 1, 2],
        "flag": True,
        "w": [[1.0, 1.0], [1.0, 1.0]],
        "n": 7,
    }


def test_numbers_that_no_message_holds() -> None:
    with pytest.raises(MotetError, match=r"message field 'z' has type torch.complex64; accepted: torch.float64, "):
        encode({"z": torch.zeros(2, dtype=torch.complex64)})


def test_tensors_may_share_memory() -> None:
    w = torch.arange(6.0)
    state: State = {"w": w, "same": w, "part": w[2:4], "strided": w[::2]}
    again = decode(encode(state))
    assert all(same(again[name], state[name]) for name in state)
    assert byte_count(state) == len(encode(state))


def test_decoded_tensors_can_be_written() -> None:
    w = tensor(decode(encode({"w": torch.zeros(3)})), "w")
    w += 1
    assert w.tolist() == [1, 1, 1]


def test_tensors_that_need_gradients_travel_as_values() -> None:
    w = torch.ones(2, requires_grad=True)
    assert not tensor(decode(encode({"w": w})), "w").requires_grad


@given(st.data())
def test_truncated_bytes_are_refused(data: st.DataObject) -> None:
    whole = encode({"w": torch.ones(5), "n": 3})
    with pytest.raises(MotetError, match="damaged message"):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.data())
def test_damaged_bytes_never_crash(data: st.DataObject) -> None:
    damaged = bytearray(encode({"w": torch.ones(5), "n": 3}))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(damaged))
    except MotetError as error:
        assert "damaged message" in str(error)


@pytest.mark.parametrize("junk", [b"", b"hello", b"\xff" * 64, b"\x02" + b"\0" * 7 + b"[]"])
def test_junk_is_refused(junk: bytes) -> None:
    with pytest.raises(MotetError, match=f"damaged message of {len(junk)} bytes"):
        decode(junk)


def test_fields_of_the_wrong_kind() -> None:
    state: State = {"w": torch.ones(2), "n": 3}
    assert number(state, "n") == 3.0
    with pytest.raises(MotetError, match="'n' is a int; accepted: a tensor"):
        tensor(state, "n")
    with pytest.raises(MotetError, match="'w' is a Tensor; accepted: a number"):
        number(state, "w")
    with pytest.raises(MotetError, match="'c' is missing"):
        tensor(state, "c")


@pytest.mark.parametrize("value", ["text", np.float64(1), [1.0], None])
def test_only_tensors_and_python_numbers_travel(value: object) -> None:
    for act in (encode, byte_count):
        with pytest.raises(MotetError, match=r"'x' is .*; accepted: a tensor, int, float or bool"):
            act({"x": value})  # type: ignore[dict-item]


def test_a_tensor_without_dimensions_is_refused() -> None:
    with pytest.raises(MotetError, match="'x' is a tensor without dimensions"):
        encode({"x": torch.tensor(1.0)})
