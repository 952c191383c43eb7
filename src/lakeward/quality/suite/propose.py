"""A first suite for a table, from what its columns hold today. Pure.

What was seen is no law: it is proposed at the severity a guess deserves, with what it rests on as a comment, for a
person to correct. Critical is only what the table itself says: its columns, required columns, its partitions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

SET_MOST = 20  # distinct values that still look like a closed set
SET_SEEN = 20  # rows for each of them on average, before the set is believed
SET_LONGEST = 60  # characters of a value that still names something
FEW_ROWS = 100  # below, nothing is proposed from values
NULLS_MOST = 0.05  # a larger share of nulls is no exception any more
APPENDS_LEAST = 10  # fewer commits are no habit yet
AGE_MOST = timedelta(days=1)  # a time that lags further behind the commits is not when the row came about
AHEAD_MOST = timedelta(minutes=-10)  # clocks differ
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
NAMED_UNIQUE = ("id", "key", "uuid", "guid")


@dataclass(frozen=True)
class Column:
    """What is known of one column; None where nobody looked or it means nothing for the type.

    Attributes:
        kind: `text`, `integer`, `number`, `time`, or `other`.
        nulls: rows without a value, of all rows of the table.
        low, high: its smallest and largest number.
        newest: its largest timestamp, UTC.
        nan: whether it holds NaN.
        shortest, longest: characters.
        distinct: about how many values.
        values: every value, where they are few.
        unique: whether no value comes twice, counted exactly.
        required: the schema says that it has a value.
        partition: the table is partitioned by it.
    """

    name: str
    kind: str
    nulls: int | None = None
    low: float | None = None
    high: float | None = None
    newest: datetime | None = None
    nan: bool = False
    shortest: int | None = None
    longest: int | None = None
    distinct: int | None = None
    values: tuple[str, ...] | None = None
    unique: bool | None = None
    required: bool = False
    partition: bool = False


@dataclass(frozen=True)
class ObservedColumn:
    """What was looked at.

    Attributes:
        rows: of the whole table, whose nulls and numbers are in its metadata.
        read: rows that were read for what metadata does not tell.
        columns: in the table's order, without those Lakeward adds.
        appends: when its kept commits that only added rows were made, newest first, and how many rows each added.
    """

    table: str
    rows: int
    read: int
    snapshot: int
    columns: tuple[Column, ...]
    appends: tuple[tuple[datetime, int], ...] = ()


@dataclass
class Proposal:
    """Expectations as they stand in a suite file, a comment for each, and the columns left alone with the reason."""

    expectations: list[dict[str, Any]] = field(default_factory=list)
    comments: dict[int, list[str]] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def add(self, comment: str, kind: str, kwargs: dict[str, Any], severity: str, why: str, **more: str) -> None:
        """One expectation; its `on_fail` follows from the severity."""
        on_fail = {"critical": "hold", "warning": "warn", "info": "record"}[severity]
        self.comments[len(self.expectations)] = [comment]
        self.expectations.append(
            {"type": kind, "kwargs": kwargs, "severity": severity, "on_fail": on_fail, **more, "why": why}
        )


def propose(seen: ObservedColumn) -> Proposal:
    """The suite the data suggests."""
    made = Proposal()
    known = [each for each in seen.columns if not set(".`") & set(each.name)]
    for each in seen.columns:
        if each not in known:
            made.left[each.name] = "Great Expectations takes its name for a path"
    if known:
        made.add(
            f"the table has {len(known)} columns of its own; more may come, none may go",
            "expect_table_columns_to_match_set",
            {"column_set": [each.name for each in known], "exact_match": False},
            "critical",
            "queries name these columns and fail without one",
        )
    for column in known:
        before = len(made.expectations)
        reason = "; ".join(each for each in (_nulls(made, seen, column), _values(made, seen, column)) if each)
        if len(made.expectations) == before:
            made.left[column.name] = reason or "nothing about it stands out"
    _usual(made, seen, known)
    return made


def _usual(made: Proposal, seen: ObservedColumn, columns: list[Column]) -> None:
    """Checks that compare with earlier runs, for a table that grows by itself; silent until they know enough."""
    if len(seen.appends) < APPENDS_LEAST:
        return
    (last, _), (first, _) = seen.appends[0], seen.appends[-1]
    rows, hours = sum(count for _, count in seen.appends), (last - first) / HOUR
    if not rows or hours <= 0:
        return
    made.add(
        f"{len(seen.appends)} commits with about {rows / hours:,.0f} rows an hour; silent for its first ten runs",
        "expect_volume_as_usual",
        {},
        "warning",
        "a producer that goes silent, or says everything twice, breaks no rule of a single row",
    )
    ages = {each.name: last - each.newest for each in columns if each.newest is not None}
    fresh = {name: age for name, age in ages.items() if AHEAD_MOST <= age <= AGE_MOST}
    if not fresh:
        return
    column = min(fresh, key=lambda name: fresh[name])
    made.left.pop(column, None)
    made.add(
        f"{column}: its newest is {fresh[column] / MINUTE:,.0f} minutes older than the newest commit; "
        "silent for its first ten runs",
        "expect_freshness_as_usual",
        {"column": column},
        "warning",
        "rows that come late all at once: something before the table stands still, or catches up",
    )


def unique_candidates(seen: ObservedColumn, most: int = 3) -> list[str]:
    """Columns worth an exact count of their values, which costs a shuffle: named like a key, and rarely the same."""
    likely = [
        each.name
        for each in seen.columns
        if each.distinct is not None and each.distinct >= 0.9 * seen.read >= FEW_ROWS and _named_unique(each.name)
    ]
    return likely[:most]


def _named_unique(name: str) -> bool:
    return name.lower().rpartition("_")[2] in NAMED_UNIQUE


def _nulls(made: Proposal, seen: ObservedColumn, column: Column) -> str | None:
    if column.nulls is None or not seen.rows:
        return "its nulls are not counted"
    kind, kwargs = "expect_column_values_to_not_be_null", {"column": column.name}
    if column.nulls == 0:
        certain = column.required or column.partition
        said = "required by the schema" if column.required else "the table is partitioned by it"
        made.add(
            f"{column.name}: no null in {seen.rows:,} rows" + (f"; {said}" if certain else ""),
            kind,
            kwargs,
            "critical" if certain else "warning",
            f"{column.name} had a value in every row when this was proposed",
        )
        return None
    share = column.nulls / seen.rows
    if share > NULLS_MOST:
        return f"{share:.0%} of its rows are null"
    made.add(
        f"{column.name}: {column.nulls:,} nulls in {seen.rows:,} rows; twice as many are accepted",
        kind,
        {**kwargs, "mostly": math.floor((1 - 2 * share) * 1000) / 1000},
        "info",
        f"{column.name} is rarely null",
    )
    return None


def _values(made: Proposal, seen: ObservedColumn, column: Column) -> str | None:
    if column.unique:
        made.add(
            f"{column.name}: {seen.read:,} rows, no value twice; told within the new rows, which costs a shuffle a run",
            "expect_column_values_to_be_unique",
            {"column": column.name},
            "warning",
            f"{column.name} looks like the key of a row",
        )
    if seen.read < FEW_ROWS:
        return f"{seen.read:,} rows say nothing about values yet"
    if column.kind == "text":
        return _text(made, seen, column)
    if column.kind in ("integer", "number"):
        return _number(made, seen, column)
    return "what a fixed bound says of a time grows old" if column.kind == "time" else f"it is {column.kind}"


def _text(made: Proposal, seen: ObservedColumn, column: Column) -> str | None:
    listed = column.values and (column.longest or 0) <= SET_LONGEST
    if column.values and listed and len(column.values) * SET_SEEN <= seen.read:
        made.add(
            f"{column.name}: these {len(column.values)} values alone in {seen.read:,} rows",
            "expect_column_values_to_be_in_set",
            {"column": column.name, "value_set": list(column.values)},
            "warning",
            f"a value of {column.name} nobody saw before is a new case, or a broken producer",
        )
        return None
    if column.shortest and column.shortest == column.longest:
        made.add(
            f"{column.name}: {column.longest} characters in each of {seen.read:,} rows",
            "expect_column_value_lengths_to_equal",
            {"column": column.name, "value": column.longest},
            "warning",
            f"{column.name} has looked like a code of {column.longest} characters",
        )
        return None
    return "its texts have no common form"


def _number(made: Proposal, seen: ObservedColumn, column: Column) -> str | None:
    if column.nan:
        return "it holds NaN, which lies between nothing"
    if column.low is None or column.high is None:
        return "its bounds are not known"
    if column.low == column.high:
        return f"it has one value, {_tidy(column.low)}: nothing tells what another would mean"
    if column.kind == "integer" and column.distinct is not None and column.distinct >= 0.9 * seen.read:
        return "nearly every row has another value: a number that names something, and grows"
    low, high = _around(column.low, column.high)
    made.add(
        f"{column.name}: {_tidy(column.low)} to {_tidy(column.high)} in {seen.rows:,} rows; "
        "half as much again is accepted",
        "expect_column_values_to_be_between",
        {"column": column.name, "min_value": low, "max_value": high},
        "info",
        f"far outside of what {column.name} ever was: a unit or a producer changed",
    )
    return None


def _around(low: float, high: float) -> tuple[float | int, float | int]:
    """Bounds half a span further out, at two digits of the span; never below zero for what never was."""
    slack = (high - low) / 2
    step = 10.0 ** math.floor(math.log10(high - low) - 1)
    below = 0.0 if low >= 0 else math.floor((low - slack) / step) * step
    if high <= 0:
        return _tidy(below), 0
    return _tidy(below), _tidy(math.ceil((high + slack) / step) * step)


def _tidy(value: float) -> float | int:
    """Without the dust of binary fractions; whole numbers as such."""
    rounded = float(f"{value:.12g}")
    return int(rounded) if rounded.is_integer() else rounded


def head_lines(seen: ObservedColumn, made: Proposal) -> Iterator[str]:
    """What a reader of the file should know first."""
    whole = "" if seen.read == seen.rows else f"; values from the newest {seen.read:,}"
    yield f"Proposed from {seen.rows:,} rows of {seen.table} at snapshot {seen.snapshot}{whole}."
    yield "What was seen is no law: correct it, raise what matters to critical with on_fail: hold, delete the rest."
    for column, why in made.left.items():
        yield f"Nothing for {column}: {why}."
