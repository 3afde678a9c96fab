"""The registry of transforms, and the functions that build them from a text such as `clip(norm=1)`."""

from motet.config.names import Term, parse
from motet.config.section import checked
from motet.errors import unknown
from motet.messages import clip, compression, mask, noise
from motet.messages.transform import Transform, TransformEntry

TRANSFORMS: dict[str, TransformEntry] = {
    entry.name: entry for entry in [clip.ENTRY, noise.ENTRY, *compression.ENTRIES, mask.ENTRY]
}


def build_transforms(text: str) -> tuple[Transform, ...]:
    """Return the transforms that a text names, in the order in which they act at the client; none for no text."""
    return tuple(checked(TRANSFORMS[t.name].transform, t.options, f"transform {t.name}") for t in _terms(text))


def canonical_transforms(text: str) -> str:
    """Return the text in canonical spelling; the order of transforms stays."""
    return "+".join(map(str, _terms(text)))


def describe_transforms() -> list[dict[str, object]]:
    """Return one row per transform, for `motet list transforms`."""
    return [
        {
            "name": entry.name,
            "summary": entry.summary,
            "paper": entry.paper,
            "options": {name: field.default for name, field in entry.transform.model_fields.items()},
        }
        for entry in TRANSFORMS.values()
    ]


def _terms(text: str) -> list[Term]:
    terms = parse(text, "transform", "clip(norm=1.0)") if text.strip() else []
    for term in terms:
        if term.name not in TRANSFORMS:
            raise unknown("transform", term.name, TRANSFORMS)
    return terms
