"""Column profile of a table: from metadata where that is exact, and one aggregate over the rows for the rest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakeward.platform.errors import expect
from lakeward.quality.ranges import frames
from lakeward.quality.ranges.range import Read, changes_rows
from lakeward.quality.ranges.snapshot_chain import History, Snapshot
from lakeward.quality.suite.propose import SET_MOST, ColumnProfile, TableProfile, unique_candidates, unreadable
from lakeward.spec.model.position_columns import OWN_COLUMNS
from lakeward.spec.sql.names import dotted
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

MOST_ROWS = 5_000_000  # about 20 CPU-seconds; of a larger table only the newest commits are read
_TRACKED = 1000  # capacity of the sketch: far more than a closed set has, so that counts of a small set are exact


@dataclass
class Metrics:
    """Metrics of one column over all data files; None if a file does not state them."""

    nulls: int | None = 0
    nan: int | None = 0
    low: Any = None
    high: Any = None
    bounded: bool = True


def profile_columns(table: Table, history: History, session: SparkSession) -> tuple[TableProfile, DataFrame]:
    """The column profile a suite is proposed from, and the rows that were read for it.

    Args:
        table: loaded with PyIceberg; has a snapshot.
        history: the metadata of the same table.
        session: a Spark Connect session.
    """
    head = expect(table.current_snapshot(), "a snapshot")
    total, metrics = from_metadata(table)
    columns = [
        _known(field, metrics.get(field.field_id), _partitioned(table))
        for field in table.schema().fields
        if field.name not in OWN_COLUMNS
    ]
    frame = frames.rows(session, dotted(table.name()), recent(history, head.snapshot_id))
    count, columns = aggregate(frame, columns)
    appends = tuple(
        (snapshot.at, snapshot.added)
        for snapshot in history.ancestry(head.snapshot_id)
        if snapshot.operation == "append"
    )
    seen = TableProfile(dotted(table.name()), total or count, count, head.snapshot_id, tuple(columns), appends)
    return with_unique(frame, seen), frame


def recent(history: History, head: int) -> Read:
    """The newest commits up to `MOST_ROWS` rows, and at least one; the whole table if it is not larger, or if rows were
    rewritten in place.
    """
    gathered = 0
    passed: list[Snapshot] = []
    for snapshot in history.ancestry(head):
        passed.append(snapshot)
        gathered += snapshot.added if snapshot.operation == "append" else 0
        if gathered >= MOST_ROWS:
            return Read(None if changes_rows(passed[::-1], None) else snapshot.parent, head)
    return Read(None, head)


def from_metadata(table: Table) -> tuple[int | None, dict[int, Metrics]]:
    """The row count and the metrics of each column, from manifests; nothing if delete files make them upper bounds."""
    from pyiceberg.manifest import DataFileContent

    head = table.current_snapshot()
    total, found = 0, {field.field_id: Metrics() for field in table.schema().fields}
    for manifest in head.manifests(table.io) if head else ():
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            if entry.data_file.content != DataFileContent.DATA:
                return None, {}
            total += entry.data_file.record_count
            _add(found, entry.data_file, table.schema())
    return total, found


def _add(found: Mapping[int, Metrics], file: Any, schema: Schema) -> None:
    from pyiceberg.conversions import from_bytes
    from pyiceberg.types import PrimitiveType

    for field in schema.fields:
        total, field_id = found[field.field_id], field.field_id
        nulls, nan = (file.null_value_counts or {}).get(field_id), (file.nan_value_counts or {}).get(field_id)
        total.nulls = None if nulls is None or total.nulls is None else total.nulls + nulls
        total.nan = (total.nan or 0) + (nan or 0)
        low, high = (file.lower_bounds or {}).get(field_id), (file.upper_bounds or {}).get(field_id)
        if low is None or high is None or not isinstance(field.field_type, PrimitiveType):
            total.bounded = total.bounded and nulls is not None and nulls == file.record_count
            continue
        low, high = from_bytes(field.field_type, low), from_bytes(field.field_type, high)
        total.low = low if total.low is None else min(total.low, low)
        total.high = high if total.high is None else max(total.high, high)


def _partitioned(table: Table) -> set[int]:
    return {field.source_id for field in table.spec().fields}


def _known(field: NestedField, metrics: Metrics | None, partitioned: set[int]) -> ColumnProfile:
    kind = _kind(field)
    known = ColumnProfile(field.name, kind, required=field.required, partition=field.field_id in partitioned)
    if metrics is None:
        return known
    known = replace(known, nulls=metrics.nulls, nan=bool(metrics.nan))
    if kind in ("integer", "number") and metrics.bounded and metrics.low is not None:
        known = replace(known, low=metrics.low, high=metrics.high)
    if _timestamp(field) and metrics.high is not None:
        known = replace(known, newest=time_of(metrics.high))
    return known


def time_of(microseconds: int) -> datetime | None:
    """A time since 1970; None in a year before 1 or after 9999, which no time of an event is."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    except OverflowError:
        return None


def _timestamp(field: NestedField) -> bool:
    from pyiceberg.types import TimestampType, TimestamptzType

    return isinstance(field.field_type, TimestampType | TimestamptzType)


def _kind(field: NestedField) -> str:
    from pyiceberg import types

    kinds: dict[str, tuple[type, ...]] = {
        "text": (types.StringType,),
        "integer": (types.IntegerType, types.LongType),
        "number": (types.FloatType, types.DoubleType, types.DecimalType),
        "time": (types.DateType, types.TimestampType, types.TimestamptzType),
    }
    found = next((kind for kind, each in kinds.items() if isinstance(field.field_type, each)), None)
    return found or str(field.field_type).partition("<")[0]


def aggregate(
    frame: DataFrame, columns: list[ColumnProfile], times: Collection[str] = ()
) -> tuple[int, list[ColumnProfile]]:
    """One statement over the rows for the facts that metadata lacks.

    Args:
        times: names of columns whose newest time is read too.
    """
    aggregates = {"rows": "count(1)"}
    names = [column.name for column in columns]
    facts = {
        index: {} if unreadable(column.name, names) else _facts(column, newest=column.name in times)
        for index, column in enumerate(columns)
    }  # a name that Spark cannot read either would fail the statement
    for index, aggregate_of_fact in facts.items():
        aggregates |= {f"c{index}_{fact}": sql for fact, sql in aggregate_of_fact.items()}
    row = frame.selectExpr(*(f"{sql} AS {quote(name)}" for name, sql in aggregates.items())).collect()[0]
    return row["rows"], [
        _described(column, {fact: row[f"c{index}_{fact}"] for fact in facts[index]})
        for index, column in enumerate(columns)
    ]


def _facts(column: ColumnProfile, *, newest: bool) -> dict[str, str]:
    """Fact -> the aggregate that computes it."""
    name = quote(column.name)
    aggregates: dict[str, str] = {}
    if column.nulls is None:
        aggregates["nulls"] = f"count_if({name} IS NULL)"
    if column.kind == "text":
        aggregates["shortest"], aggregates["longest"] = f"min(length({name}))", f"max(length({name}))"
        aggregates["common"] = f"approx_top_k({name}, {SET_MOST + 1}, {_TRACKED})"
    if column.kind in ("text", "integer"):
        aggregates["distinct"] = f"approx_count_distinct({name})"
    if column.kind in ("integer", "number") and column.low is None:
        aggregates["low"], aggregates["high"] = f"min({name})", f"max({name})"
        if column.kind == "number":
            aggregates["nan"] = f"bool_or(isnan({name}))"
    if newest:
        aggregates["newest"] = f"max(unix_micros(CAST({name} AS TIMESTAMP)))"
    return aggregates


def _described(column: ColumnProfile, found: dict[str, Any]) -> ColumnProfile:
    common = found.pop("common", None)
    if "nan" in found:
        found["nan"] = bool(found["nan"])
    if found.get("newest") is not None:
        found["newest"] = time_of(found["newest"])
    values = None
    if common is not None and len(common) <= SET_MOST and found["distinct"] <= 2 * SET_MOST:
        values = tuple(sorted(each["item"] for each in common if each["item"] is not None))
    return replace(column, **found, values=values)


def with_unique(frame: DataFrame, seen: TableProfile) -> TableProfile:
    """The profile with the columns whose values are all different, counted exactly."""
    names = unique_candidates(seen)
    if not names:
        return seen
    aggregates = [f"count(DISTINCT {quote(name)}) = count({quote(name)})" for name in names]  # nulls do not count
    row = frame.selectExpr(*aggregates).collect()[0]
    exact = dict(zip(names, row, strict=True))
    return replace(seen, columns=tuple(replace(column, unique=exact.get(column.name)) for column in seen.columns))
