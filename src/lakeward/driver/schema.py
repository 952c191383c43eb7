"""Do the transform's columns fit the sink's table? Asked before the query starts, so that nobody waits for a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakeward.errors import SpecError


def check(
    stream: str, table: str, given: Mapping[str, str], has: Mapping[str, str], fits: Callable[[str], bool]
) -> None:
    """Compare columns by name and type.

    Args:
        stream, table: for the text.
        given: the transform's columns, name -> type.
        has: the table's.
        fits: whether the given type of a column may be written into the table's, asked where they differ.

    Raises:
        SpecError: names every missing, extra and unfitting column.
    """
    extra = [name for name in given if name not in has]
    missing = [name for name in has if name not in given]
    unfit = [
        f"{name} is {given[name].upper()}, the table has {has[name].upper()}"
        for name in given
        if name in has and given[name] != has[name] and not fits(name)
    ]
    if not (extra or missing or unfit):
        return
    parts = []
    if extra:
        parts.append(f"not in the table: {', '.join(extra)}")
    if missing:
        parts.append(f"only in the table: {', '.join(missing)}")
    parts += unfit
    raise SpecError(
        f"The transform of stream {stream} gives other columns than table {table} has",
        why="; ".join(parts),
        next=f"change the transform in conf/streams/{stream}.yaml, or the table: ALTER TABLE lake.{table} ...",
    )


def check_keys(stream: str, keys: Sequence[str], order_by: str | None, columns: Any) -> None:
    """What an upsert goes by must be among the transform's columns, and comparable.

    Args:
        columns: of the transform, as a Spark schema.

    Raises:
        SpecError: names what is not, and what there is.
    """
    has = {field.name: field.dataType.simpleString() for field in columns.fields}
    wanted = [*keys, *([order_by] if order_by else [])]
    missing = [name for name in wanted if name not in has]
    maps = [name for name in wanted if has.get(name, "").startswith("map")]
    if not (missing or maps):
        return
    why = [f"not a column of the transform: {', '.join(missing)}"] if missing else []
    why += [f"a map cannot be compared: {', '.join(maps)}"] if maps else []
    raise SpecError(
        f"The upsert of stream {stream} cannot tell its rows apart",
        why="; ".join(why) + f"; columns: {', '.join(has)}",
        next=f"correct keys: or order_by: in conf/streams/{stream}.yaml, then: lakeward deploy",
    )
