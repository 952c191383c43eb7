"""What a rebuild's tables are called, and what the new one says of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict


class HandOver(BaseModel):
    """A property of the new table from before the swap until nothing is left to do: whoever comes next goes on by it.

    Attributes:
        number: of the rebuild.
        before: the name of the old table.
        fill: the name of the fill's position.
        generation: of the new rows.
        source, end: the source's name, and the canonical offsets where the stream goes on.
        quarantined: rows the fill put aside.
        at: when the hand-over was written (RFC 3339).
        told: what the change says of it.
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
    """The property of the old table with the position it had: under a name no driver reads."""
    return f"lakeward.retired.{stream}.position"


def filling(stream: str, number: int) -> str:
    """The name of the fill's position."""
    return f"{stream}@rebuild-{number}"


def made(table: str, number: int) -> str:
    """The table that is filled, unless a person names one."""
    return f"{table}_rebuild_{number}"


def before(table: str, number: int) -> str:
    """The old table after the swap."""
    return f"{table}_before_{number}"


def next_number(table: str, location: str, tables: Iterable[str]) -> int:
    """One that no table has, and that is not in the folder of the table: it keeps the folder it was filled in.

    Args:
        location: the table's folder.
        tables: `namespace.table` of everything there is beside it.
    """
    pattern = re.compile(rf"{re.escape(table.rpartition('.')[2])}_(?:rebuild|before)_(\d+)")
    known = [each.rpartition(".")[2] for each in tables] + [location.rstrip("/").rpartition("/")[2]]
    return max((int(found[1]) for each in known if (found := pattern.fullmatch(each))), default=0) + 1


def number_of(stream: str, positions: Iterable[str]) -> int | None:
    """Which rebuild of the stream fills a table with these positions; None if none does."""
    prefix = filling(stream, 0)[:-1]
    found = [each.removeprefix(prefix) for each in positions if each.startswith(prefix)]
    return max((int(each) for each in found if each.isdigit()), default=None)
