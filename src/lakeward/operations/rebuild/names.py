"""Names of a rebuild's tables and positions, and its hand-over property. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from lakeward.spec.sql.names import name_parts, with_suffix


class HandOver(BaseModel):
    """Property of the new table from before the swap until the rebuild is complete; a later run continues from it.

    Attributes:
        number: number of the rebuild.
        before: name of the old table.
        fill: name of the fill's position.
        generation: generation of the new rows.
        source, end: the source's name, and the canonical offsets where the stream continues.
        quarantined: rows that the fill quarantined.
        at: when the hand-over was written (RFC 3339).
        told: fields of the recorded change (a stored name).
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    number: int
    before: str
    fill: str
    generation: int
    source: str
    end: str
    quarantined: int = 0
    at: str = ""
    told: dict[str, int | str | dict[str, str]] = {}


def marker(stream: str) -> str:
    """The table property of a hand-over."""
    return f"lakeward.rebuild.{stream}"


def retired(stream: str) -> str:
    """Property of the old table with its former position, under a name that drivers do not read."""
    return f"lakeward.retired.{stream}.position"


def filling(stream: str, number: int) -> str:
    """The name of the fill's position."""
    return f"{stream}@rebuild-{number}"


def made(table: str, number: int) -> str:
    """Default name of the table that is filled."""
    return with_suffix(table, f"_rebuild_{number}")


def before(table: str, number: int) -> str:
    """The old table after the swap."""
    return with_suffix(table, f"_before_{number}")


def next_number(table: str, location: str, tables: Iterable[str]) -> int:
    """A number that no table uses, and that is not part of the table's folder: a renamed table keeps its folder.

    Args:
        location: the table's folder.
        tables: `namespace.table` of all tables in the namespace.
    """
    pattern = re.compile(rf"{re.escape(name_parts(table)[-1])}_(?:rebuild|before)_(\d+)")
    known = [name_parts(other)[-1] for other in tables] + [location.rstrip("/").rpartition("/")[2]]
    return max((int(match[1]) for name in known if (match := pattern.fullmatch(name))), default=0) + 1


def number_of(stream: str, positions: Iterable[str]) -> int | None:
    """Number of the rebuild that fills a table with these positions; None if none does."""
    prefix = filling(stream, 0)[:-1]
    numbers = [position_name.removeprefix(prefix) for position_name in positions if position_name.startswith(prefix)]
    return max((int(number) for number in numbers if number.isdigit()), default=None)
