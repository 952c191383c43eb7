"""Quotes identifiers for PostgreSQL; the only module that does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakeward.spec.sql.names import dotted, name_parts

POSITIONS = "lakeward_positions"
"""The table with the positions of all streams that land in a schema."""


def quote(identifier: str) -> str:
    """One identifier, quoted for PostgreSQL.

    A percent sign is written as its code point: the driver library takes it for a placeholder of a bound value.

    Raises:
        ValueError: it is empty or has a NUL character.
    """
    if not identifier or "\x00" in identifier:
        raise ValueError(f"not an identifier: {identifier!r}")
    if "%" in identifier:
        escaped = identifier.replace("\\", "\\\\").replace('"', '""').replace("%", "\\0025")
        return f'U&"{escaped}"'
    return '"' + identifier.replace('"', '""') + '"'


def listed(names: Iterable[str]) -> str:
    """Quoted column names, separated by commas."""
    return ", ".join(quote(name) for name in names)


@dataclass(frozen=True)
class Name:
    """A table.

    Attributes:
        schema, table: case-sensitive.
    """

    schema: str
    table: str

    @classmethod
    def of(cls, text: str) -> Name:
        """Parse `table` (in schema `public`) or `schema.table`."""
        *schema, table = name_parts(text)
        return cls(schema[0] if schema else "public", table)

    @property
    def text(self) -> str:
        """The name for messages: `public.flights`."""
        return dotted((self.schema, self.table))

    @property
    def quoted(self) -> str:
        """The name for SQL."""
        return f"{quote(self.schema)}.{quote(self.table)}"

    @property
    def positions(self) -> Name:
        """The table of positions in the same schema."""
        return Name(self.schema, POSITIONS)
