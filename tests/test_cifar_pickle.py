"""CIFAR's Python batches through the allow-list: what these files hold is read, all else is refused."""

import pickle
import pickletools
import sys
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from data_files import python2_batch
from hypothesis import given
from hypothesis import strategies as st

from motet.data.sources.cifar import NotABatch, read_pickle

PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 12)
FIELDS = {
    "batch_label": "training batch 1 of 5",
    "labels": [6, 9, 300, -1],
    "data": PIXELS,
    "filenames": ["a", "é" * 300],
}
BATCH = python2_batch(FIELDS)


def test_our_batches_are_real_pickles() -> None:
    """Or else these tests would show nothing: Python itself reads them as NumPy's arrays."""
    found = pickle.loads(BATCH, encoding="latin-1")
    assert found["labels"] == FIELDS["labels"] and (found["data"] == PIXELS).all()


def test_a_batch_is_read() -> None:
    found = read_pickle(BATCH)
    assert found.keys() == FIELDS.keys()
    assert found["labels"] == FIELDS["labels"] and found["filenames"] == FIELDS["filenames"]
    assert found["data"].dtype == np.uint8 and (found["data"] == PIXELS).all()


def test_many_things_are_remembered_by_number() -> None:
    names = [f"{number}.png" for number in range(1000)]
    assert read_pickle(python2_batch({"filenames": names, "data": PIXELS}))["filenames"] == names


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", [print, sys.exit, np.zeros(3), np.zeros(3, object), object(), {1: 2}, [1.5]])
def test_all_else_is_refused(protocol: int, value: Any) -> None:
    with pytest.raises(NotABatch):
        read_pickle(pickle.dumps({"data": value}, protocol))


@pytest.mark.parametrize(
    "program",
    [
        b"",
        b".",
        b"hello",
        b"\x80\x02].",
        b"\x80\x02}(U\x01aK\x01",
        b"cos\nsystem\n(U\x02lstR.",
        b"\x80\x02}U\x01acposix\nsystem\nU\x02ls\x85Rs.",
        b"\x80\x02}U\x01acnumpy\ndtype\nU\x01O\x85Rs.",
        b"\x80\x02}U\x01a(cnumpy\nndarray\nos.",
        b"\x80\x02}U\x01aB\xff\xff\xff\x7fxs.",
        b"\x80\x02}h\x05.",
        b"\x80\x02}K\x01K\x02s.",
        b"\x80\x02u.",
        b"\x80\x02b.",
        b"\x80\x02}}b.",
    ],
)
def test_programs_of_other_kinds_are_refused(program: bytes) -> None:
    with pytest.raises(NotABatch):
        read_pickle(program)


def test_an_array_that_lies_is_refused() -> None:
    lies = {
        b"K\x02K\x0c\x86": b"K\x02K\x0d\x86",  # its shape
        b"U\x02u1": b"U\x02f8",  # its type
        b"\x89T": b"\x88T",  # its order
        b"K\x00\x85": b"K\x07\x85",  # what it begins as
    }
    for true, false in lies.items():
        assert true in BATCH
        with pytest.raises(NotABatch):
            read_pickle(BATCH.replace(true, false, 1))


@given(st.integers(0, len(BATCH) - 1), st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused(at: int, value: int) -> None:
    with suppress(NotABatch):
        read_pickle(BATCH[:at] + bytes([value]) + BATCH[at + 1 :])


@given(st.integers(0, len(BATCH) - 2))
def test_a_part_is_refused(length: int) -> None:
    with pytest.raises(NotABatch):
        read_pickle(BATCH[:length])


def test_a_number_to_remember_by_reserves_no_memory() -> None:
    """The interpreter makes room for all numbers below the one that a pickle names: 64 GB for this one of 12 bytes."""
    with pytest.raises(NotABatch, match="skips"):
        read_pickle(b"\x80\x02}r\xff\xff\xff\xff.")


def test_one_array_under_many_names_is_copied_for_none() -> None:
    """A few bytes per name would else ask for the whole array once more."""
    pixels = np.zeros((2, 12_000), np.uint8)
    batch = python2_batch({"data": pixels})
    fetched = max(argument for op, argument, _ in pickletools.genops(batch) if op.name == "BINPUT")  # its content
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01K\x02M\xe0\x2e\x86"
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
    many = b"".join(b"U\x01%c" % name + array + kind + b"h%ctb" % fetched for name in range(65, 91))
    assert batch.endswith(b"u.")
    with pytest.raises(NotABatch, match="many names"):
        read_pickle(batch[:-2] + many + b"u.")


def test_what_may_be_called_takes_nothing_else() -> None:
    """NumPy's own functions would take a size of a terabyte, or objects from raw memory; ours are never given them."""
    for call in (
        b"cnumpy\nndarray\nK\x09\x85R",
        b"cnumpy.core.multiarray\n_reconstruct\n)R",
        b"cnumpy\ndtype\nU\x01O\x85R",
    ):
        with pytest.raises(NotABatch):
            read_pickle(b"\x80\x02}U\x01a" + call + b"s.")
