"""Every post by name, and how names become posts."""

from motet.config.names import Term, parse
from motet.config.section import checked
from motet.errors import unknown
from motet.messages import clip
from motet.messages.transform import Entry, Post

POSTS: dict[str, Entry] = {entry.name: entry for entry in [clip.ENTRY]}


def build_posts(text: str) -> tuple[Post, ...]:
    """The posts of such a text, in the order in which they act at the client; of no text, none."""
    return tuple(checked(POSTS[t.name].post, t.options, f"post {t.name}") for t in _terms(text))


def canonical_posts(text: str) -> str:
    """The same posts in the house's spelling; their order is theirs."""
    return "+".join(map(str, _terms(text)))


def describe_posts() -> list[dict[str, object]]:
    """One row per name, for `motet list posts`."""
    return [
        {
            "name": entry.name,
            "summary": entry.summary,
            "paper": entry.paper,
            "options": {name: field.default for name, field in entry.post.model_fields.items()},
        }
        for entry in POSTS.values()
    ]


def _terms(text: str) -> list[Term]:
    terms = parse(text, "post", "clip(norm=1.0)") if text.strip() else []
    for term in terms:
        if term.name not in POSTS:
            raise unknown("post", term.name, POSTS)
    return terms
