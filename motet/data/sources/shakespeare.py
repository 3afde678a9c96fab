"""shakespeare: the next character after 80, by who speaks, from LEAF's JSON or lines of role and text."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from motet.config.data_section import DataSettings
from motet.data.prepare_text import RESERVED, Tokenizer
from motet.data.readers.archives import read_file
from motet.data.readers.image_folder import coded
from motet.data.readers.leaf import UserData, read_users
from motet.data.readers.raw import Array, RawData
from motet.data.sources.source import Form, Source
from motet.errors import MotetError, shown
from motet.io.text import listed
from motet.io.user_paths import shown_path

WINDOW = 80
TEST_SHARE = 0.2
ALPHABET = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""LEAF's 80 characters. Others are unknown in a window, and no window asks for one."""
CLASSES = tuple({"\n": "line end", " ": "space"}.get(character, character) for character in ALPHABET)
TOKENIZER = Tokenizer("character", tuple(ALPHABET), WINDOW)


@dataclass(frozen=True)
class _Role:
    """The windows of text of one role of a play."""

    role: str
    x: Array
    y: Array
    """Tokens; those of unknown characters are left out later."""
    split: int


def lines(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """One JSON object per line: client and text. A role's last fifth is test data, and no window crosses the border."""
    roles = list(_roles(paths[0]))
    long = [(role, text) for role, text in roles if len(text) >= settings.min_characters]
    parts = [part for role, text in long for part in _of_text(role, text, settings.stride)]
    return _raw(parts, paths[0], settings, {role for role, _ in roles})


def leaf(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """LEAF's windows as they are; a role of n windows has said n + 80 characters."""
    if settings.stride != 1:
        raise MotetError(f"data.stride is {settings.stride}, but LEAF's files hold windows already; accepted: 1")
    found = [user for user in read_users(paths) if user.y]
    said: dict[str, int] = {}
    for user in found:
        said[user.user] = said.get(user.user, WINDOW) + len(user.y)
    parts = [_of_windows(user) for user in found if said[user.user] >= settings.min_characters]
    return _raw(parts, paths[0], settings, set(said))


def _roles(path: Path) -> Iterator[tuple[str, str]]:
    seen = set()
    for number, line in enumerate(read_file(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            role, text = row["client"], row["text"]
        except (ValueError, TypeError, KeyError, RecursionError):
            role = text = None
        if not isinstance(role, str) or not isinstance(text, str):
            raise MotetError(
                f"{shown_path(path)}: line {number} is no JSON object with client and text; accepted: one role per line"
            )
        if role in seen:
            raise MotetError(f"{shown_path(path)}: line {number} is {shown(role)} again; accepted: each role once")
        seen.add(role)
        yield role, text


def _of_text(role: str, text: str, stride: int) -> Iterator[_Role]:
    tokens = Tokenizer(TOKENIZER.unit, TOKENIZER.known, len(text))([text])[0]
    border = len(tokens) - int(TEST_SHARE * len(tokens))
    for split, piece in enumerate((tokens[:border], tokens[border:])):
        if len(piece) > WINDOW:
            rows = np.lib.stride_tricks.sliding_window_view(piece, WINDOW + 1)[::stride]
            yield _Role(role, rows[:, :WINDOW], rows[:, WINDOW], split)


def _of_windows(user: UserData) -> _Role:
    windows = all(isinstance(x, str) and len(x) == WINDOW for x in user.x)
    if not windows or not all(isinstance(y, str) and len(y) == 1 for y in user.y):
        raise MotetError(
            f"{user.where}: user {shown(user.user)} has samples that are no windows; accepted: {WINDOW} characters and "
            f"the next"
        )
    nexts = Tokenizer(TOKENIZER.unit, TOKENIZER.known, 1)(user.y)[:, 0]
    return _Role(user.user, TOKENIZER(user.x), nexts, int(user.test))


def _raw(parts: Iterable[_Role], path: Path, settings: DataSettings, all_roles: set[str]) -> RawData:
    known = [(part, part.y >= RESERVED) for part in parts]
    if not any(keep.any() for _, keep in known):
        raise MotetError(
            f"{shown_path(path)}: no role says {settings.min_characters:,} characters and a window of {WINDOW}; "
            f"accepted: a smaller data.min_characters"
        )
    counts = [int(keep.sum()) for _, keep in known]
    roles, names = coded([part.role for part, _ in known])
    split = np.repeat([part.split for part, _ in known], counts)
    speaking = {part.role for (part, _), count in zip(known, counts, strict=True) if count}
    if len(speaking) < 2:
        raise MotetError(
            f"{shown_path(path)}: only role {shown(min(speaking))} says {settings.min_characters:,} characters and a "
            f"window of {WINDOW}; accepted: two roles or more, or a smaller data.min_characters"
        )
    notes = []
    if silent := sorted(all_roles - speaking):
        notes.append(f"{len(silent):,} roles that say less than data.min_characters take no part: {listed(silent)}")
    if settings.stride < WINDOW:
        notes.append(
            "windows overlap, so a client's own test windows share characters with its training windows; the common "
            f"test set does not; data.stride = {WINDOW} makes all disjoint"
        )
    return RawData(
        x=np.concatenate([part.x[keep] for part, keep in known]),
        y=np.concatenate([part.y[keep] for part, keep in known]).astype(np.int64) - RESERVED,
        kind="tokens",
        classes=len(ALPHABET),
        top=1,
        net="stacked-lstm",
        split=split if split.any() and not split.all() else None,
        client=np.repeat(roles, counts),
        vocabulary=TOKENIZER.vocabulary,
        class_names=CLASSES,
        client_names=names,
        origin=f"of {len(names):,} roles that say at least {settings.min_characters:,} characters",
        notes=tuple(notes),
    )


SHAKESPEARE = Source(
    name="shakespeare",
    summary="Shakespeare: the next of 80 characters after a window of 80, speaking roles as natural clients",
    paper="Caldas et al., LEAF: A Benchmark for Federated Settings, arXiv:1812.01097, 2018",
    licence="public domain",
    net="stacked-lstm",
    obeys=("min_characters", "stride"),
    forms=(
        Form(("shakespeare.jsonl.gz",), lines, clients=True),
        Form(("shakespeare.jsonl",), lines, clients=True),
        *(
            Form(files, leaf, own_folder=True, clients=True)
            for folder in ("", "data/")
            for files in (
                (f"{folder}train/*.json", f"{folder}test/*.json"),
                (f"{folder}all_data/*.json",),
            )
        ),
    ),
    folders=("leaf/data/shakespeare", "leaf/shakespeare"),
    where="github.com/TalwalkarLab/leaf, or your own lines of client and text",
)

ENTRIES = (SHAKESPEARE,)
