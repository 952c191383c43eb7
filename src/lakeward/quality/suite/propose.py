"""Proposes a first suite for a table from its column profile. Pure.

Observations are not rules: each proposal has the severity of a guess, and its evidence as a comment, for a person to
correct. Critical are only facts of the table's schema: its columns, required columns, its partitions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Any

SET_MOST = 20  # maximum distinct values of a closed set
SET_SEEN = 20  # minimum rows per value, on average, to propose a set
SET_LONGEST = 60  # maximum characters of a value in a set
FEW_ROWS = 100  # with fewer rows no check of values is proposed
NULLS_MOST = 0.05  # with a larger share of nulls no check of nulls is proposed
APPENDS_LEAST = 10  # with fewer commits no comparison with history is proposed
AGE_MOST = timedelta(days=1)  # a time column that lags further behind the commits is not the event time
AHEAD_MOST = timedelta(minutes=-10)  # tolerance for clock differences
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
NAMED_UNIQUE = ("id", "key", "uuid", "guid")
_WIDE = 2**53  # from here on a double cannot hold every whole number
_DIGITS = 700  # digits of a calculation: a double has up to 309 before the point and 324 behind it
_MOST_DOUBLE, _MOST_DECIMAL = Decimal("1.7e308"), Decimal(10**38 - 1)  # the largest bound of each kind

Bound = int | float | str


Number = int | Decimal | float


@dataclass(frozen=True)
class ColumnProfile:
    """The profile of one column; None where a fact was not read or has no meaning for the type.

    Attributes:
        kind: `text`, `integer`, `number`, `time`, or `other`.
        nulls: rows without a value, of all rows of the table.
        low, high: its smallest and largest number, exact: whole, decimal, or a double, which may be infinite.
        newest: its largest timestamp, UTC.
        nan: whether it has NaN values.
        shortest, longest: length in characters.
        distinct: approximate number of distinct values.
        values: every distinct value, if they are few.
        unique: whether no value occurs twice, counted exactly.
        required: whether the schema forbids nulls.
        partition: whether the table is partitioned by it.
    """

    name: str
    kind: str
    nulls: int | None = None
    low: Number | None = None
    high: Number | None = None
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
class TableProfile:
    """The column profiles of a table.

    Attributes:
        rows: row count of the whole table, from metadata.
        read: number of rows that were read for facts that metadata lacks.
        columns: in the table's order, without those Lakeward adds.
        appends: commit time and added rows of each retained append, newest first.
    """

    table: str
    rows: int
    read: int
    snapshot: int
    columns: tuple[ColumnProfile, ...]
    appends: tuple[tuple[datetime, int], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)


@dataclass
class Proposal:
    """Expectations in the form of a suite file, a comment for each, and the columns without a check, with the
    reason."""

    expectations: list[dict[str, Any]] = field(default_factory=list)
    comments: dict[int, list[str]] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def add(self, comment: str, kind: str, kwargs: dict[str, Any], severity: str, why: str, **more: str) -> None:
        """Add one expectation; its `on_fail` follows from the severity."""
        on_fail = {"critical": "hold", "warning": "warn", "info": "record"}[severity]
        self.comments[len(self.expectations)] = [comment]
        self.expectations.append(
            {"type": kind, "kwargs": kwargs, "severity": severity, "on_fail": on_fail, **more, "why": why}
        )


def without(made: Proposal, failed: Mapping[int, str]) -> Proposal:
    """The proposal without what its own rows failed.

    Args:
        failed: index of an expectation -> what was found.
    """
    remaining = [index for index in range(len(made.expectations)) if index not in failed]
    left = dict(made.left)
    for index, found in failed.items():
        kwargs = made.expectations[index]["kwargs"]
        name = str(kwargs.get("column", made.expectations[index]["type"]))
        if not any(made.expectations[each]["kwargs"].get("column") == name for each in remaining):
            left[name] = f"its own rows failed {made.expectations[index]['type']}: {found}"
    expectations = [made.expectations[index] for index in remaining]
    return Proposal(expectations, {new: made.comments[old] for new, old in enumerate(remaining)}, left)


def propose(seen: TableProfile) -> Proposal:
    """The suite that the profile suggests."""
    made = Proposal()
    unread = {column.name: why for column in seen.columns if (why := unreadable(column.name, seen.names))}
    made.left |= unread
    known = [column for column in seen.columns if column.name not in unread]
    if known:
        made.add(
            f"the table has {len(known)} columns of its own; more may be added, none may be removed",
            "expect_table_columns_to_match_set",
            {"column_set": [each.name for each in known], "exact_match": False},
            "critical",
            "queries name these columns and fail without one",
        )
    for column in known:
        before = len(made.expectations)
        reason = "; ".join(each for each in (_nulls(made, seen, column), _values(made, seen, column)) if each)
        if len(made.expectations) == before:
            made.left[column.name] = reason or "it has no pattern to check"
    _usual(made, seen, known)
    return made


def unreadable(name: str, names: Collection[str]) -> str:
    """Why no check can name a column; empty if one can.

    Args:
        name: of the column.
        names: of all columns of the table.
    """
    alike = sorted(each for each in names if each != name and each.lower() == name.lower())
    if alike:
        return f"Spark does not tell it from {', '.join(alike)}: case does not matter"
    if not name:
        return "it has no name"
    if "`" in name:
        return "Great Expectations cannot read a name with a backtick"
    return "" if _writable(name) else "its name has a character that a YAML file cannot hold"


_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")


def _writable(text: str) -> bool:
    """Whether a YAML file can hold the text."""
    return _UNWRITABLE.search(text) is None


def _usual(made: Proposal, seen: TableProfile, columns: list[ColumnProfile]) -> None:
    """Checks that compare with earlier runs, for a table that grows; without a verdict until they have enough
    history."""
    if len(seen.appends) < APPENDS_LEAST:
        return
    (last, _), (first, _) = seen.appends[0], seen.appends[-1]
    rows, hours = sum(count for _, count in seen.appends), (last - first) / HOUR
    if not rows or hours <= 0:
        return
    made.add(
        f"{len(seen.appends)} commits with about {rows / hours:,.0f} rows an hour; no verdict in its first ten runs",
        "expect_volume_as_usual",
        {},
        "warning",
        "a producer that stops, or sends everything twice, breaks no rule about a single row",
    )
    ages = {column.name: last - column.newest for column in columns if column.newest is not None}
    fresh = {name: age for name, age in ages.items() if AHEAD_MOST <= age <= AGE_MOST}
    if not fresh:
        return
    column = min(fresh, key=lambda name: fresh[name])
    made.left.pop(column, None)
    made.add(
        f"{column}: its newest is {fresh[column] / MINUTE:,.0f} minutes older than the newest commit; "
        "no verdict in its first ten runs",
        "expect_freshness_as_usual",
        {"column": column},
        "warning",
        "many late rows at once: a system before the table stopped, or catches up",
    )


def unique_candidates(seen: TableProfile, most: int = 3) -> list[str]:
    """Columns whose distinct values are counted exactly, which costs a shuffle: named like a key, and nearly unique."""
    likely = [
        column.name
        for column in seen.columns
        if column.distinct is not None and column.distinct >= 0.9 * seen.read >= FEW_ROWS and _named_unique(column.name)
    ]
    return likely[:most]


def _named_unique(name: str) -> bool:
    return name.lower().rpartition("_")[2] in NAMED_UNIQUE


def _nulls(made: Proposal, seen: TableProfile, column: ColumnProfile) -> str | None:
    if not seen.rows:
        return "the table has no rows"
    if column.nulls is None:
        return "its nulls are not counted"
    kind, kwargs = "expect_column_values_to_not_be_null", {"column": column.name}
    if column.nulls == 0:
        certain = column.required or column.partition
        source = "required by the schema" if column.required else "the table is partitioned by it"
        made.add(
            f"{column.name}: no null in {seen.rows:,} rows" + (f"; {source}" if certain else ""),
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


def _values(made: Proposal, seen: TableProfile, column: ColumnProfile) -> str | None:
    if column.unique:
        made.add(
            f"{column.name}: {seen.read:,} rows, no value twice; checked within the new rows, by a shuffle a run",
            "expect_column_values_to_be_unique",
            {"column": column.name},
            "warning",
            f"{column.name} looks like the key of a row",
        )
    if not seen.rows or column.nulls == seen.rows:
        return None  # said already
    if seen.read < FEW_ROWS:
        return f"{seen.read:,} rows are too few for a check of values"
    if column.kind == "text":
        return _text(made, seen, column)
    if column.kind in ("integer", "number"):
        return _number(made, seen, column)
    return "a fixed bound on a time becomes outdated" if column.kind == "time" else f"it is {column.kind}"


def _text(made: Proposal, seen: TableProfile, column: ColumnProfile) -> str | None:
    listed = column.values and (column.longest or 0) <= SET_LONGEST
    if column.values and not all(map(_writable, column.values)):
        return "its values have a character that a YAML file cannot hold"
    if column.values and listed and len(column.values) * SET_SEEN <= seen.read:
        made.add(
            f"{column.name}: only these {len(column.values)} values in {seen.read:,} rows",
            "expect_column_values_to_be_in_set",
            {"column": column.name, "value_set": list(column.values)},
            "warning",
            f"a new value of {column.name} is a new case, or a broken producer",
        )
        return None
    if column.shortest and column.shortest == column.longest:
        made.add(
            f"{column.name}: {column.longest} characters in each of {seen.read:,} rows",
            "expect_column_value_lengths_to_equal",
            {"column": column.name, "value": column.longest},
            "warning",
            f"{column.name} looks like a code of {column.longest} characters",
        )
        return None
    return "its values have no common form"


def _number(made: Proposal, seen: TableProfile, column: ColumnProfile) -> str | None:
    if column.low is None or column.high is None:
        return "its values are NaN" if column.nan else "its bounds are unknown"
    if column.nan or math.isnan(column.low) or math.isnan(column.high):
        return "it has NaN values, which are outside of any bounds"
    if math.isinf(column.low) or math.isinf(column.high):
        return "it has infinite values, which have no bounds"
    if column.low == column.high:
        return f"it has one value, {_tidy(column.low)}: the meaning of another value is unknown"
    if column.kind == "integer" and column.distinct is not None and column.distinct >= 0.9 * seen.read:
        return "nearly every value is different: probably a growing id"
    low, high = _around(column.low, column.high)
    made.add(
        f"{column.name}: {_tidy(column.low)} to {_tidy(column.high)} in {seen.rows:,} rows; "
        "half of that range more is accepted on each side",
        "expect_column_values_to_be_between",
        {"column": column.name, "min_value": low, "max_value": high},
        "info",
        f"a value of {column.name} far outside of its range: a unit or a producer changed",
    )
    return None


def _around(low: Number, high: Number) -> tuple[Bound, Bound]:
    """Bounds widened by half the range on each side, at two digits; never below zero if no value was."""
    least, greatest = _exact(low), _exact(high)
    with localcontext(prec=_DIGITS):
        width = greatest - least
        step = Decimal(1).scaleb(width.adjusted() - 1)
        below = 0 if least >= 0 else ((least - width / 2) / step).to_integral_value(ROUND_FLOOR) * step
        above = 0 if greatest <= 0 else ((greatest + width / 2) / step).to_integral_value(ROUND_CEILING) * step
        if isinstance(low, float):
            return _tidy(float(max(Decimal(below), -_MOST_DOUBLE))), _tidy(float(min(Decimal(above), _MOST_DOUBLE)))
        return _tidy(max(Decimal(below), -_MOST_DECIMAL)), _tidy(min(Decimal(above), _MOST_DECIMAL))


def _exact(value: Number) -> Decimal:
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _tidy(value: Number) -> Bound:
    """As a suite has it: a whole number, a number with a point, or its digits as text where a double would round it."""
    exact = _exact(value)
    if exact == exact.to_integral_value() and -(2**63) <= exact < 2**63:
        return int(exact)
    as_double = float(exact)
    rounds = abs(exact) >= _WIDE or _exact(as_double) != exact
    return format(exact, "f") if rounds and not isinstance(value, float) else as_double


def head_lines(seen: TableProfile, made: Proposal) -> Iterator[str]:
    """The comment at the top of the file."""
    whole = "" if seen.read == seen.rows else f"; values from the newest {seen.read:,}"
    yield f"Proposed from {seen.rows:,} rows of {seen.table} at snapshot {seen.snapshot}{whole}."
    yield "Review each check: correct it, set important ones to critical with on_fail: hold, delete the rest."
    for column, why in made.left.items():
        yield f"No check of {column}: {why}."
