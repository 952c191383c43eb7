"""Schema check before a query starts: the transform's columns must fit the sink's table."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from lakeward.connectors import schema_evolution
from lakeward.connectors.schema_evolution import Column, Comparison, for_other_streams
from lakeward.platform.errors import SpecError
from lakeward.platform.text import listed


def check(
    stream: str,
    generation: int,
    table: str,
    catalog: str,
    compared: Comparison,
    *,
    added: Mapping[str, int],
    additive: bool,
    others: Sequence[str] = (),
) -> list[Column]:
    """Refuse differences that the table cannot take; returns the columns that this generation leaves empty.

    Args:
        stream, generation, table, catalog: for the text.
        compared: the comparison of the transform's columns with the table's.
        added: column -> the generation of this stream that added it. An older generation, run by a rollback, does not
            have the column and lands nulls in it. A newer one without the column is refused: it may be a mistake.
        additive: whether the table may take new columns and wider types.
        others: further streams that land in the table.

    Raises:
        SpecError: names every column, its types in the table and in the transform, and the statement that helps.
    """
    known = [column for column in compared.lacking if added.get(column.name, 0) > generation]
    dropped = [column for column in compared.lacking if column not in known]
    why = list(schema_evolution.differences(compared, dropped, additive=additive))
    if not why and compared.grows and others:
        changes = ", ".join(schema_evolution.grows(compared))
        why = [f"this stream {changes}, and has the table in common with {listed(list(others))}"]
    if not why:
        return known
    steps = [f"change the transform in conf/streams/{stream}.yaml"]
    if dropped or compared.needed:
        steps.append(
            f"to leave {', '.join(column.name for column in [*dropped, *compared.needed])} empty, say NULL AS .."
        )
    alters = schema_evolution.alters(compared, table, catalog)
    if alters and not additive and not others:  # a table of several streams is changed by none
        steps.append("to let the stream change the table, write schema: {evolution: additive}")
    enough = bool(alters) and not list(schema_evolution.differences(compared, dropped, additive=True))
    if alters and not enough:
        steps.append(f"for what the table can take, run {'; '.join(alters)}")
    ways = [f"{' or '.join(steps)}, then: lakeward deploy"]
    if enough:
        names = [column.name for column in compared.added]
        typed = "; ".join(f"lakeward sql --write {shlex.quote(statement)}" for statement in alters)
        ways.insert(0, f"{typed}; {for_other_streams(names, others)}then: lakeward streams start {stream}")
    raise SpecError(
        f"The transform of stream {stream} gives other columns than table {table} has",
        why="; ".join(why),
        next="; or ".join(ways),
        code="LW-2215",
    )


def check_keys(stream: str, keys: Sequence[str], order_by: str | None, columns: Any) -> None:
    """Check that the keys of an upsert, and the column that orders it, are comparable columns of the transform.

    Args:
        columns: of the transform, as a Spark schema.

    Raises:
        SpecError: names those that are not, and the columns of the transform.
    """
    has = {field.name: field.dataType.simpleString() for field in columns.fields}
    used = [*keys, *([order_by] if order_by else [])]
    missing = [name for name in used if name not in has]
    maps = [name for name in used if has.get(name, "").startswith("map")]
    if not (missing or maps):
        return
    why = [f"not a column of the transform: {', '.join(missing)}"] if missing else []
    why += [f"a map cannot be compared: {', '.join(maps)}"] if maps else []
    raise SpecError(
        f"The upsert of stream {stream} has no usable keys",
        why="; ".join(why) + f"; columns: {', '.join(has)}",
        next=f"correct keys: or order_by: in conf/streams/{stream}.yaml, then: lakeward deploy",
        code="LW-2216",
    )
