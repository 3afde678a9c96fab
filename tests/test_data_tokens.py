"""Tokens: whole numbers from the file to the net, never guessed, never normalized."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motet.data import DataSettings, Input, TokensPrepare, build, default_net, from_arrays
from motet.data.readers.raw import MOST_TOKENS
from motet.data.sources import load
from motet.errors import MotetError

N, LENGTH = 60, 7
LABELS = np.arange(N) % 3


def tokens(highest: int, dtype: Any = np.int64) -> np.ndarray:
    x = np.random.default_rng(0).integers(0, highest + 1, (N, LENGTH)).astype(dtype)
    x[0, 0] = highest
    return x


def write(folder: Path, name: str = "own.npz", **fields: Any) -> str:
    np.savez(folder / name, **({"y": LABELS} | fields))
    return str(folder / name)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.int64, np.uint64])
def test_integers_of_every_width_are_tokens_when_the_file_says_so(tmp_path: Path, dtype: Any) -> None:
    x = tokens(99, dtype)
    raw = load(write(tmp_path, x=x, kind="tokens"))
    assert (raw.kind, raw.vocabulary, raw.x.dtype) == ("tokens", 100, np.uint8)
    assert raw.x.tolist() == x.tolist()


@pytest.mark.parametrize(
    ("vocabulary", "dtype"), [(256, np.uint8), (257, np.int16), (2**15, np.int16), (2**15 + 1, np.int32)]
)
def test_the_smallest_type_that_holds_the_vocabulary(tmp_path: Path, vocabulary: int, dtype: Any) -> None:
    found = load(write(tmp_path, x=tokens(vocabulary - 1)), kind="tokens")
    declared = load(write(tmp_path, x=tokens(5), vocabulary=vocabulary), kind="tokens")
    assert (found.vocabulary, found.x.dtype) == (declared.vocabulary, declared.x.dtype) == (vocabulary, dtype)
    assert int(found.x.max()) == vocabulary - 1


def test_the_option_counts_more_than_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, x=tokens(99, np.uint8), kind="tokens")
    assert load(path).kind == "tokens"
    assert load(path, kind="vector").kind == "vector"
    assert load(write(tmp_path, x=tokens(99, np.uint8), kind="vector"), kind="tokens").kind == "tokens"


def test_tokens_are_never_guessed(tmp_path: Path) -> None:
    assert load(write(tmp_path, x=tokens(99, np.uint8))).kind == "vector"
    for dtype in (np.int16, np.int32, np.int64):
        with pytest.raises(
            MotetError, match=rf"field 'x' has dtype {np.dtype(dtype)}; accepted: .* data.kind = tokens"
        ):
            load(write(tmp_path, x=tokens(99, dtype)))
        with pytest.raises(MotetError, match=r"data.kind = tokens"):
            default_net(write(tmp_path, x=tokens(99, dtype)))


def test_they_leave_as_they_came(tmp_path: Path) -> None:
    x = tokens(999, np.int32)
    name = write(tmp_path, x=x)
    for normalize in ("standard", "half", "unit", "none"):
        settings = DataSettings(name=name, kind="tokens", partition="iid", clients=3, normalize=normalize)
        federation = build(settings, seed=0)
        assert federation.input == Input("tokens", (LENGTH,), 1000)
        assert federation.stored.x.dtype == torch.int16
        batch, _ = federation.stored.batch(torch.arange(len(federation.stored)))
        assert batch.dtype == torch.int64
        test, _ = next(federation.test.all_batches(100))
        assert sorted([*batch.tolist(), *test.tolist()]) == sorted(x.tolist())
    prepare = pickle.loads(pickle.dumps(federation.prepare))
    assert isinstance(prepare, TokensPrepare) and prepare.vocabulary == 1000


def test_the_hash_tells_tokens_from_a_vector_and_one_vocabulary_from_another(tmp_path: Path) -> None:
    name = write(tmp_path, x=tokens(99, np.uint8))
    larger = write(tmp_path, "larger.npz", x=tokens(99, np.uint8), vocabulary=200)
    hashes = {
        build(DataSettings(name=path, kind=kind, partition="iid", clients=3), seed=0).content_hash
        for path, kind in ((name, "tokens"), (name, "vector"), (larger, "tokens"))
    }
    assert len(hashes) == 3


def test_a_folder_has_one_vocabulary(tmp_path: Path) -> None:
    write(tmp_path, "a.npz", x=tokens(9), kind="tokens")
    write(tmp_path, "b.npz", x=tokens(400), kind="tokens")
    raw = load(str(tmp_path))
    assert (raw.kind, raw.vocabulary, raw.x.dtype, raw.x.max()) == ("tokens", 401, np.int16, 400)
    write(tmp_path, "b.npz", x=tokens(9, np.uint8))
    with pytest.raises(MotetError, match=r"b.npz: field 'x' has uint8 samples .*; accepted: int32 .* as in a.npz"):
        load(str(tmp_path))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"x": tokens(9), "kind": "words"}, "field 'kind' is 'words'; accepted: image, signal, vector, tokens"),
        ({"x": tokens(9), "kind": 3}, r"field 'kind' has dtype int64 and shape \(\); accepted: one word"),
        ({"x": tokens(9), "kind": ["tokens"]}, "field 'kind' has dtype <U6 and shape"),
        ({"x": tokens(9) / 2, "kind": "tokens"}, "field 'x' has dtype float64; accepted for tokens: integers"),
        ({"x": tokens(9) > 1, "kind": "tokens"}, "field 'x' has dtype bool"),
        ({"x": tokens(9)[..., None], "kind": "tokens"}, r"field 'x' has shape \(60, 7, 1\); accepted: tokens \[n, T\]"),
        ({"x": tokens(9) - 1, "kind": "tokens"}, f"field 'x' holds token -1; accepted: 0 to {MOST_TOKENS - 1}"),
        ({"x": tokens(MOST_TOKENS), "kind": "tokens"}, f"field 'x' holds token {MOST_TOKENS}; accepted"),
        (
            {"x": tokens(9), "kind": "tokens", "vocabulary": 9},
            "field 'vocabulary' is 9; accepted: one whole number from 10 to",
        ),
        ({"x": tokens(9), "kind": "tokens", "vocabulary": 9.5}, "field 'vocabulary' is 9.5; accepted"),
        ({"x": tokens(9), "kind": "tokens", "vocabulary": [10]}, r"field 'vocabulary' is \[10\]; accepted"),
        ({"x": tokens(9, np.uint8), "vocabulary": 10}, "field 'vocabulary' is for tokens, not for vector; accepted"),
        ({"x": tokens(9, np.uint8), "kind": "image"}, r"field 'x' has shape \(60, 7\); accepted: images \[n, H, W\]"),
        ({"x": tokens(9), "kind": "vector"}, "field 'x' has dtype int64; accepted: uint8, float16, float32, float64$"),
    ],
)
def test_refusals(tmp_path: Path, fields: dict[str, Any], sentence: str) -> None:
    path = write(tmp_path, **fields)
    with pytest.raises(MotetError, match=sentence) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_explicit_kinds_of_other_samples(tmp_path: Path) -> None:
    grey = np.zeros((N, 5, 6), np.float32)
    assert load(write(tmp_path, x=grey)).kind == "signal"
    raw = load(write(tmp_path, x=grey, kind="image"))
    assert (raw.kind, raw.x.shape, raw.net) == ("image", (N, 5, 6, 1), "mlp")
    raw = load(write(tmp_path, x=grey.astype(np.uint8)), kind="signal")
    assert (raw.kind, raw.x.shape, raw.net) == ("signal", (N, 5, 6), "mlp")
    assert default_net(write(tmp_path, x=grey, kind="image")) == "mlp"


def test_a_registered_source_knows_its_kind() -> None:
    assert load("digits", kind="image").kind == "image"
    with pytest.raises(MotetError, match=r"data.kind is 'tokens', but data 'digits' says itself that it is image"):
        load("digits", kind="tokens")


def test_tokens_get_a_net_for_words(tmp_path: Path) -> None:
    assert default_net(write(tmp_path, x=tokens(9), kind="tokens")) == "fasttext"


def test_a_users_tokens() -> None:
    prepare = TokensPrepare((LENGTH,), 50)
    x = tokens(49, np.int32)
    for given in (x, torch.from_numpy(x), x.tolist(), x.astype(np.uint8), x.astype(np.uint16)):
        out = prepare.raw(given)
        assert out.dtype == torch.int64 and out.tolist() == x.tolist()
    for wrong, sentence in (
        (x + 1, "input x holds token 50; accepted: 0 to 49"),
        (x - 1, "input x holds token -1; accepted: 0 to 49"),
        (x.astype(float), "input x has dtype torch.float64; accepted: whole numbers, which tokens are"),
        (x > 3, "input x has dtype torch.bool; accepted: whole numbers"),
        (x[:, :4], r"input x has shape \(n, 4\); accepted: \[n, 7\]"),
        ([[1, 2], [3]], "input x is no array of numbers"),
        (x.astype(str), "input x is no array of numbers"),
        (3, r"input x has shape \(\); accepted: \[n, 7\]"),
    ):
        with pytest.raises(MotetError, match=sentence):
            prepare.raw(wrong)


def test_arrays_in_memory_are_as_good_as_a_file(tmp_path: Path) -> None:
    fields = {"x": tokens(300), "kind": "tokens", "client": LABELS}
    there, here = load(write(tmp_path, **fields)), from_arrays({**fields, "y": LABELS}, "mine")
    assert np.array_equal(there.x, here.x) and there.x.dtype == here.x.dtype
    assert (there.vocabulary, there.kind, there.net) == (here.vocabulary, here.kind, here.net)
    with pytest.raises(MotetError, match=r"^mine: field 'y' is missing"):
        from_arrays(fields, "mine")
