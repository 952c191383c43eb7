"""Error for a reference whose table does not exist."""

from __future__ import annotations

from collections.abc import Iterable

from lakeward.platform.errors import SpecError
from lakeward.spec.read.problems import nearest


def missing_table(name: str, table: str, known: Iterable[str]) -> SpecError:
    """The error for a reference whose table does not exist; names the nearest and the known tables."""
    tables = sorted(known)
    like = nearest(table, tables)
    return SpecError(
        f"Reference {name} names a missing table: there is no {table}",
        why="it was dropped, renamed or never created; "
        + (f"did you mean {like}? " if like else "")
        + f"known tables: {', '.join(tables[:10]) or 'none in this namespace'}",
        next="name an existing table (or create it), then: lakeward deploy",
        code="LW-3165",
    )
