"""What is said of a reference whose table is not there."""

from __future__ import annotations

from collections.abc import Iterable

from lakeward.platform.errors import SpecError
from lakeward.spec.read.problems import nearest


def missing_table(name: str, table: str, known: Iterable[str]) -> SpecError:
    """The error for a table that is not there."""
    there = sorted(known)
    like = nearest(table, there)
    return SpecError(
        f"Reference {name} has no table: there is no {table}",
        why="it was dropped or renamed, or never made; "
        + (f"did you mean {like}? " if like else "")
        + f"there are: {', '.join(there[:10]) or 'none in its namespace'}",
        next="name a table that is there (or bring it back), then: lakeward deploy",
        code="LW-3165",
    )
