"""Column checks: the columns that a stream's spec names against those its sources declare."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sqlglot import exp

from lakeward.spec.model.decode import JsonForm
from lakeward.spec.model.position_columns import OWN_COLUMNS, RECORD_COLUMNS
from lakeward.spec.model.sources import WALL_CLOCK, Source
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.read.document import Path_
from lakeward.spec.read.messages import Finding
from lakeward.spec.read.problems import nearest
from lakeward.spec.sql.analysis import SqlFacts, generator
from lakeward.spec.sql.ddl import ddl_columns
from lakeward.spec.sql.statements import parse_expression

_ICEBERGS_OWN = {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
_DELTA_REFUSES = re.compile(r"[ ,;{}()\n\t=]")
"""Characters that Delta refuses in a column's name (DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES)."""
_RENAME = (
    "a name has no space and none of , ; { } ( ) = unless the table maps columns by name; rename it in the transform"
)
_TIMES, _DAYS = ("TIMESTAMP",), ("TIMESTAMP", "DATE")
_NESTED = ("ARRAY", "MAP", "STRUCT")
_OTHER_KEYS = re.compile(r"MAP<(?!STRING\b)([A-Z_]+)", re.IGNORECASE)
_WHOLE = ("SMALLINT", "INT", "BIGINT", "DECIMAL", "STRING", "BINARY")
_PARTITIONED = {"years": _DAYS, "months": _DAYS, "days": _DAYS, "hours": _TIMES, "truncate": _WHOLE,
                "bucket": (*_WHOLE, *_DAYS)}  # fmt: skip
"""Partition transform -> the column types that Iceberg accepts for it."""

_NOT_OF_ONE_ROW: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Star, "*"),
    (exp.Window, "a window function"),
    (exp.AggFunc, "an aggregate"),
)
SPARK_WORDS = {"current_user", "session_user", "user", "current_catalog", "current_database", "current_schema",
          "current_date", "current_timestamp", "localtimestamp", "current_timezone"}  # fmt: skip
"""Functions that Spark accepts without parentheses; sqlglot reads some of them as columns."""


def column_findings(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Finding]:
    """Columns that are reserved, not declared, or of an unsuitable type."""
    for name, source in spec.sources.items():
        if source.decode and source.decode.columns == "all" and source.connector not in RECORD_COLUMNS:
            yield Finding(("sources", name, "decode", "columns"),
                          f"a record of {source.connector} has only a value; write columns: value", "all",
                          ("value",))  # fmt: skip
        if source.declared_columns is not None:
            yield from _declared(name, source, ddl_columns(source.declared_columns))
    columns = landed_columns(spec, facts)
    yield from _partitions(spec, columns)
    yield from _delta(spec, columns, facts)
    yield from _rules(spec, columns)


def columns_path(source: Source) -> Path_:
    """The path below a source where its columns are declared."""
    if source.format is not None:
        return ("format", "columns")
    if source.files is not None and source.files.columns:
        return ("files", "columns")
    block = source.decode is not None and isinstance(source.decode.json_, JsonForm)
    return ("decode", "json", "schema") if block else ("decode", "json")


def _declared(name: str, source: Source, columns: Mapping[str, str]) -> Iterator[Finding]:
    at: Path_ = ("sources", name, *columns_path(source))
    for column, kind in columns.items():
        if column.lower() in OWN_COLUMNS:
            yield Finding(at, f"{column} is a column that Lakeward adds; rename or remove it", column)
        elif column.lower() in _ICEBERGS_OWN:
            yield Finding(at, f"{column} is a name that Iceberg reserves", column)
        if "TINYINT" in kind and source.decode:
            yield Finding(at, f"column {column} cannot be TINYINT: 128 to 255 in JSON would silently become "
                          "negative numbers; declare it SMALLINT or INT", kind)  # fmt: skip
        if source.decode and (other := _OTHER_KEYS.search(kind)):
            yield Finding(at, f"column {column} has a MAP with keys of {other[1]}: keys in JSON are text; declare it "
                          "MAP<STRING, ..> and cast the keys in the transform", kind)  # fmt: skip
    known = {column.lower() for column in columns} | set(source.added_columns)
    for path, column in _named_columns(source.watermark, source.deduplicate):
        if column.lower() not in known:
            yield Finding(("sources", name, *path), f"{column!r} is not a column of this source", column,
                          (*columns, *source.added_columns), nearest(column, known))  # fmt: skip
    kinds = {column.lower(): kind for column, kind in columns.items()}
    for index, key in enumerate(source.deduplicate.keys if source.deduplicate else ()):
        if "MAP<" in kinds.get(key.lower(), "").upper():
            yield Finding(("sources", name, "deduplicate", "keys", index),
                          f"a map cannot be compared, and {key} is {kinds[key.lower()]}", str(key))  # fmt: skip
    if source.watermark:
        kind = kinds.get(source.watermark.column.lower(), "TIMESTAMP")
        if not kind.upper().startswith("TIMESTAMP"):
            yield Finding(("sources", name, "watermark", "column"),
                          f"a watermark needs a TIMESTAMP column, {source.watermark.column} is {kind}",
                          str(source.watermark.column))  # fmt: skip
        if source.watermark.max_ahead not in (None, "off") and source.connector not in WALL_CLOCK:
            yield Finding(("sources", name, "watermark", "max_ahead"),
                          f"max_ahead compares events with the wall clock, for {' and '.join(WALL_CLOCK)} only; a "
                          f"{source.connector} source can be read long after its events: leave it out",
                          str(source.watermark.max_ahead))  # fmt: skip


def _named_columns(watermark: Any, deduplicate: Any) -> Iterator[tuple[Path_, str]]:
    if watermark:
        yield ("watermark", "column"), str(watermark.column)
    if deduplicate:
        for index, key in enumerate(deduplicate.keys):
            yield ("deduplicate", "keys", index), str(key)


def landed_columns(spec: StreamSpec, facts: SqlFacts | None) -> dict[str, str] | None:
    """Column -> type of the transform's result, in lower case.

    None if the SQL text does not show it. Only `SELECT *` from a single source does.
    """
    source = next(iter(spec.sources.values()))
    if facts is None or len(spec.sources) != 1 or source.declared_columns is None:
        return None
    query = facts.statement
    if not isinstance(query, exp.Select) or any(query.args.get(key) for key in ("joins", "laterals", "with_", "with")):
        return None
    from_ = query.args.get("from_") or query.args.get("from")
    star = query.expressions[0] if len(query.expressions) == 1 else None
    if not isinstance(star, exp.Star) or any(star.args.values()) or not from_ or not isinstance(from_.this, exp.Table):
        return None
    declared = {name.lower(): kind for name, kind in ddl_columns(source.declared_columns).items()}
    return declared | {name: OWN_COLUMNS[name] for name in source.added_columns}


def _partitions(spec: StreamSpec, columns: Mapping[str, str] | None) -> Iterator[Finding]:
    for index, field in enumerate(spec.sink.iceberg.partition_by if spec.sink.iceberg else ()):
        at: Path_ = ("sink", "iceberg", "partition_by", index)
        column = field.column.lower()
        if column in _ICEBERGS_OWN:
            yield Finding(at, f"{field.column} is a name that Iceberg reserves", str(field))
        elif columns is not None and column not in columns:
            yield Finding(at, f"{field.column!r} is not a column of this stream", str(field), tuple(columns),
                          nearest(column, columns))  # fmt: skip
        elif columns is not None and columns[column].startswith(_NESTED) and field.transform == "identity":
            message = f"a table is partitioned by single values; {field.column} is {columns[column]}"
            yield Finding(at, message, str(field))
        elif columns is not None and not columns[column].startswith(_PARTITIONED.get(field.transform, "")):
            types = ", ".join(_PARTITIONED[field.transform])
            yield Finding(at, f"{field.transform} takes a column of {types}; {field.column} is {columns[column]}",
                          str(field))  # fmt: skip


def _delta_names(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Finding]:
    query = facts.statement if facts is not None else None
    if not isinstance(query, exp.Select):
        return
    for select, column in zip(query.selects, query.named_selects, strict=True):
        if select.is_star:
            for name, source in spec.sources.items():
                declared = ddl_columns(source.declared_columns) if source.declared_columns is not None else {}
                for each in filter(_DELTA_REFUSES.search, declared):
                    message = f"Delta takes no column named {each!r}: {_RENAME}"
                    yield Finding(("sources", name, *columns_path(source)), message, each, warning=True)
        elif _DELTA_REFUSES.search(column):
            message = f"Delta takes no column named {column!r}: {_RENAME}"
            yield Finding(("transform", "sql"), message, column, warning=True)


def _delta(spec: StreamSpec, columns: Mapping[str, str] | None, facts: SqlFacts | None = None) -> Iterator[Finding]:
    """Delta partitions by columns without a transform, and a new table refuses some characters in names of columns."""
    if spec.sink.delta is not None:
        yield from _delta_names(spec, facts)
    for index, column in enumerate(spec.sink.delta.partition_by if spec.sink.delta and columns is not None else ()):
        at: Path_ = ("sink", "delta", "partition_by", index)
        kind = (columns or {}).get(column.lower())
        if kind is None:
            yield Finding(at, f"{str(column)!r} is not a column of this stream", str(column), tuple(columns or ()),
                          nearest(column, columns or ()))  # fmt: skip
        elif kind.startswith((*_NESTED, "BINARY")):
            yield Finding(at, f"a table is partitioned by single values; {column} is {kind}", str(column))


def _rules(spec: StreamSpec, columns: Mapping[str, str] | None) -> Iterator[Finding]:
    for name, text in spec.rules.items():
        rule = parse_expression(text)
        if refused := not_of_one_row(rule):
            yield Finding(("rules", name), f"a rule is a condition on one row; {refused} is not allowed", text)
        elif columns is not None and not rule.find(exp.Lambda, exp.Query):
            yield from _unknown(("rules", name), rule, {*columns, *map(str.lower, spec.sources)})


def not_of_one_row(condition: exp.Expr) -> str:
    """What of a condition cannot be computed for one row, e.g. `an aggregate`; empty if all of it can."""
    found = next((what for kind, what in _NOT_OF_ONE_ROW if condition.find(kind)), "")
    return found or ("a generator" if generator(condition) else "")


def _unknown(at: Path_, rule: exp.Expr, known: set[str]) -> Iterator[Finding]:
    for column in rule.find_all(exp.Column):
        first = next(iter(column.parts)).name
        if first.lower() not in known | SPARK_WORDS:
            yield Finding(at, f"{first!r} is not a column of this stream", first, tuple(sorted(known)),
                          nearest(first, known))  # fmt: skip
