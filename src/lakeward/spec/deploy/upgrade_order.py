"""Upgrade order: effects of a changed stream on the streams that read its table, from the specs alone."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from lakeward.spec.checks.sources import readers_of
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.analysis import SqlFacts, analyse
from lakeward.spec.sql.ddl import ddl_columns
from lakeward.spec.sql.statements import SqlProblem


def order(before: Mapping[str, StreamSpec], after: Mapping[str, StreamSpec]) -> dict[str, list[str]]:
    """Changed stream -> a sentence for each affected stream that reads its table.

    Args:
        before: the accepted specs that can be read.
        after: the specs of the project.
    """
    predecessors: dict[str, list[str]] = {}
    for upstream, readers in readers_of(after).items():
        old, new = before.get(upstream), after[upstream]
        if old is None or (old.transform, old.sources, old.sink) == (new.transform, new.sources, new.sink):
            continue
        old_columns, new_columns = landed_columns(old), landed_columns(new)
        for reader in readers:
            if (effect := _effect(after[reader], str(new.sink.table), old_columns, new_columns)) is not None:
                predecessors.setdefault(upstream, []).append(effect)
    return predecessors


def landed_columns(spec: StreamSpec) -> dict[str, str] | None:
    """Columns of the SELECT, lower case -> as written; None if the text does not show them."""
    facts = _facts(spec)
    if facts is None or not isinstance(facts.statement, exp.Select):
        return None
    columns: dict[str, str] = {}
    for item in facts.statement.expressions:
        star = isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))
        if not star:
            columns[item.alias_or_name.lower()] = item.alias_or_name
            continue
        source = next(iter(spec.sources.values()))
        plain = isinstance(item, exp.Star) and not any(item.args.values())
        if not plain or len(spec.sources) > 1 or spec.reference or source.declared_columns is None:
            return None
        columns |= {name.lower(): name for name in (*ddl_columns(source.declared_columns), *source.added_columns)}
    return None if "" in columns else columns


def _effect(
    reader: StreamSpec, table: str, old_columns: dict[str, str] | None, new_columns: dict[str, str] | None
) -> str | None:
    name = reader.id
    if old_columns is None or new_columns is None:
        return f"stream {name} reads {table}: remove a column there first; add a new column here first"
    removed = {column: written for column, written in old_columns.items() if column not in new_columns}
    used = _used(reader)
    lost = sorted(written for column, written in removed.items() if used is None or column in used)
    if not lost:
        return None
    return f"stream {name} reads {', '.join(lost)} of {table}, which this removes: change and upgrade {name} first"


def _used(reader: StreamSpec) -> set[str] | None:
    """The columns its SQL names; None if it may use any."""
    facts = _facts(reader)
    if facts is None or facts.statement.find(exp.Star):
        return None
    return {column.name.lower() for column in facts.statement.find_all(exp.Column)}


def _facts(spec: StreamSpec) -> SqlFacts | None:
    try:
        return analyse(spec.transform.sql, spec.sources) if spec.transform.sql else None
    except SqlProblem:
        return None
