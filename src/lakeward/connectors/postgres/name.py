"""Names in PostgreSQL, and the one place where they are quoted for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

POSITIONS = "lakeward_positions"
"""The table beside the target that holds the positions of the streams that land in its schema."""


def quote(identifier: str) -> str:
    """One identifier, quoted for PostgreSQL.

    Raises:
        ValueError: no quoting makes it a name.
    """
    if not identifier or "\x00" in identifier:
        raise ValueError(f"not an identifier: {identifier!r}")
    return '"' + identifier.replace('"', '""') + '"'


def listed(names: Iterable[str]) -> str:
    """Columns as SQL has them: quoted, with commas."""
    return ", ".join(quote(name) for name in names)


@dataclass(frozen=True)
class Name:
    """A table.

    Attributes:
        schema, table: as they are written, upper and lower case told apart.
    """

    schema: str
    table: str

    @classmethod
    def of(cls, text: str) -> Name:
        """From `table` (in schema `public`) or `schema.table`."""
        schema, _, table = text.rpartition(".")
        return cls(schema or "public", table)

    @property
    def text(self) -> str:
        """For people: `public.flights`."""
        return f"{self.schema}.{self.table}"

    @property
    def quoted(self) -> str:
        """For SQL."""
        return f"{quote(self.schema)}.{quote(self.table)}"

    @property
    def positions(self) -> Name:
        """Where the positions of what lands in it stand."""
        return Name(self.schema, POSITIONS)
