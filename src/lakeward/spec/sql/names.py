"""Names of tables as one text: parts with dots between them, a part that has a dot or a backtick in backticks.

`nyc.flights` and `eu.nyc.flights` (a nested namespace) stay as they are, also with hyphens, spaces or quotes in a part;
a table `v1.2` of the namespace `nyc` is written as in SQL: ``nyc.`v1.2` ``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


class NotAName(ValueError):
    """Raised for a text that is not a name."""


def name_parts(name: str) -> tuple[str, ...]:
    """The parts of a name, namespaces first.

    Raises:
        NotAName: a part is empty, or a backtick is not closed.
    """
    parts: list[str] = []
    at = 0
    while True:
        found = _PART.match(name, at)
        if found is None:
            raise NotAName(f"not the name of a table: {name!r}")
        quoted, plain = found.groups()
        parts.append(plain if quoted is None else quoted.replace("``", "`"))
        at = found.end()
        if at == len(name):
            return tuple(parts)
        if name[at] != ".":
            raise NotAName(f"not the name of a table: {name!r}")
        at += 1


def without_catalog(name: str, catalog: str) -> str:
    """`prod.sales.orders` as `sales.orders`, if `prod` is the lake's catalog; any other name as it is.

    As in Spark, the first of three parts is the catalog if there is one of that name. A nested namespace that has the
    name of the catalog is reached by both: `prod.prod.orders`.

    Args:
        catalog: its name; empty: no name is shortened.
    """
    try:
        parts = name_parts(name)
    except NotAName:
        return name
    return dotted(parts[1:]) if len(parts) > 2 and parts[0] == catalog else name


def catalog_in(name: str, others: Iterable[str]) -> str | None:
    """The one of these catalogs that a name of three parts or more begins with; None without one."""
    try:
        first, *rest = name_parts(name)
    except NotAName:
        return None
    return first if len(rest) > 1 and first in others else None


def namespace_of(name: str) -> str:
    """The name of the namespace that a table is in; empty for a name of one part.

    Raises:
        NotAName: as `name_parts`.
    """
    return dotted(name_parts(name)[:-1])


def with_suffix(name: str, suffix: str) -> str:
    """The name of a table beside this one: `nyc.flights` and `_quarantine` make `nyc.flights_quarantine`.

    Raises:
        NotAName: as `name_parts`.
    """
    *namespace, table = name_parts(name)
    return dotted((*namespace, table + suffix))


def dotted(parts: Iterable[str]) -> str:
    """The name of these parts: the reverse of `name_parts`."""
    return ".".join(f"`{part.replace('`', '``')}`" if "." in part or "`" in part else part for part in parts)
