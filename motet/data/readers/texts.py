"""A column of texts with a label: from record batches to rows of tokens."""

from motet.config.data_section import Columns
from motet.data.prepare_text import AllTexts, fit_tokenizer, words_of
from motet.data.readers.batches import Batches
from motet.data.readers.cells import strings
from motet.data.readers.hints import names_clients
from motet.data.readers.raw import MOST_TOKENS, RawData, default_net_for
from motet.data.readers.roles import RoleReader, left_out, roles_of
from motet.data.readers.table_plan import kind_of_column
from motet.errors import MotetError, shown
from motet.io.text import listed

LENGTH = 128
"""Words of a text that are read, at most."""


def raw_of_texts(table: Batches, columns: Columns, usual_label: str | None = None) -> RawData:
    """The data of a table with one column of texts; columns of anything else are left out."""
    roles = roles_of(table, columns, usual_label)
    unwanted = left_out(table, columns, roles) | set(roles.columns.values())
    rest = [name for name in table.types if name not in unwanted]
    found = [name for name in rest if kind_of_column(table.types[name]) == "category"]
    if len(found) != 1:
        said = f"{len(found)} columns of text ({', '.join(map(shown, found))})" if found else "no column of text"
        raise MotetError(f"{table.where}: {said}; accepted: one, and data.leave_out for the others")
    column, reader, texts = found[0], RoleReader(roles), list[str]()
    for batch in table.read(_types(table, column, list(roles.columns.values()))):
        kept = reader.read(batch)
        texts += [text or "" for text in strings(kept.column(column), column, table.where).to_pylist()]
    fields = reader.fields()
    length = max(1, min(LENGTH, max(len(words_of(text)) for text in texts)))
    tokenizer = fit_tokenizer("word", texts, MOST_TOKENS, length)
    others = [name for name in rest if name != column]
    return RawData(
        x=tokenizer(texts),
        kind="tokens",
        top=1,
        net=default_net_for("tokens"),
        vocabulary=tokenizer.vocabulary,
        fit=AllTexts(tokenizer, column, columns.min_count).fit,
        notes=(*reader.notes, *([f"left out, as texts alone are read: {listed(others)}"] if others else [])),
        may_name_clients=None if columns.client else tuple(filter(names_clients, others)),
        **fields,
    )


def _types(table: Batches, column: str, roles: list[str]) -> dict[str, object]:
    from motet.data.readers.cells import pa

    return dict.fromkeys([column, *roles], pa.string())
