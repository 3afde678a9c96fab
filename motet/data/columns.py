"""Which columns of a user's data are what."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Columns:
    """The names that a user gave; None where he gave none. Everything else is there to learn from."""

    label: str | None = None
    client: str | None = None
    domain: str | None = None
    leave_out: tuple[str, ...] = ()
    schema: str | None = None
    """A file that says how a table becomes network input."""

    @property
    def named(self) -> dict[str, str]:
        """Those that were given, by the field of the experiment."""
        found = {"label": self.label, "client": self.client, "domain": self.domain, "table_schema": self.schema}
        named = {f"data.{field}": name for field, name in found.items() if name is not None}
        return named | ({"data.leave_out": ", ".join(self.leave_out)} if self.leave_out else {})
