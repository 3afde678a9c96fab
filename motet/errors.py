"""What a user did wrong, said in one sentence that names the field, the value and what is accepted."""

import difflib
import reprlib
from collections.abc import Iterable

MOST = 580
"""Characters of a sentence: whatever was typed, what is accepted stays readable."""
_MOST_ACCEPTED = 330


class MotetError(Exception):
    """A mistake of the user or of the surroundings: shown as one sentence, exit code 2, no traceback."""

    def __init__(self, sentence: str = ""):
        super().__init__(one_sentence(str(sentence)))


class Diverged(MotetError):
    """A client's training left the finite numbers; the round goes on without that client."""


def unknown(kind: str, name: str, known: Iterable[str]) -> MotetError:
    """The error for a name nobody knows, with the nearest known name first."""
    names = sorted(set(known))
    near = difflib.get_close_matches(name[:100], names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return MotetError(f"unknown {kind} {shown(name)}: {hint}accepted: {', '.join(names) or 'none'}")


def shown(value: object) -> str:
    """A value as a sentence can hold it: as Python writes it, but short."""
    try:
        return _SHORT.repr(value)
    except Exception:  # a number of more digits than Python writes, an object that cannot be shown
        return f"a {type(value).__name__} that is too long to be shown"


def one_sentence(text: str) -> str:
    """The text in one line without control characters; of a long one the middle goes, but not what is accepted."""
    line = "".join(map(_visible, text.encode("utf-8", "backslashreplace").decode()))
    if len(line) <= MOST:
        return line
    at = line.rfind("accepted: ")
    accepted = _cut(line[at:], _MOST_ACCEPTED, share=1.0) if at >= 0 else ""
    return _cut(line[:at] if at >= 0 else line, MOST - len(accepted)) + accepted


def _cut(text: str, most: int, share: float = 0.7) -> str:
    """So many characters at most: that share of them from its beginning, the others from its end."""
    if len(text) <= most:
        return text
    first = int(share * (most - 1))
    return f"{text[:first]}…{text[len(text) - (most - 1 - first) :]}"


def _visible(character: str) -> str:
    if character in "\n\r\t":
        return " "
    control = ord(character) < 32 or 127 <= ord(character) < 160
    return f"\\x{ord(character):02x}" if control else character


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 120
_SHORT.maxlong = 40
_SHORT.maxlevel = 3
