"""Converts GX results to check results, and samples failing rows of all failed checks by one job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from lakeward.quality.engine.collecting import collected
from lakeward.quality.results.json_values import plain, sentence
from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import Check, State
from lakeward.spec.model.position_columns import OWN_COLUMNS
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


SAMPLE = 10
"""Maximum number of sample rows of a check."""
SQL = "unexpected_rows_expectation"
_OF_VALUES = "expect_column_distinct_values_"


def as_check(configured: ConfiguredCheck, found: Any) -> Check:
    """A GX result as a check result; None means GX returned no result."""
    blank = configured.blank(State.ERROR)
    if found is None:
        return replace(blank, error="Great Expectations returned no result for this check")
    error = _error(found.exception_info or {})
    if error is not None:
        return replace(blank, error=sentence(error))
    result: dict[str, Any] = found.result or {}
    passed, strict = bool(found.success), configured.strict
    unexpected = result.get("unexpected_count", 0 if passed and strict and "observed_value" not in result else None)
    details: dict[str, Any] = result.get("details") or {}
    sample = result.get("unexpected_rows") or details.get("unexpected_rows") or []
    observed = result.get("observed_value")
    if configured.expectation.type == SQL:
        unexpected = observed
    if str(configured.expectation.type).startswith(_OF_VALUES):
        counts = {"values are not in the set": unexpected, "of the set are missing": result.get("missing_count")}
        observed = ", ".join(f"{count} {words}" for words, count in counts.items() if count is not None)
        unexpected = None  # rows are not counted
    if observed is None and result.get("unexpected_percent") is not None:
        observed = _share(result["unexpected_percent"], result.get("element_count"), result.get("missing_count"))
    return replace(
        blank,
        state=State.PASS if passed else State.FAIL,
        observed=plain(observed),
        rows=result.get("element_count"),
        unexpected_count=unexpected,
        sample=tuple(plain(row) for row in list(sample)[:SAMPLE]),
    )


def _share(percent: float, rows: int | None, missing: int | None) -> str:
    """The failing share, of the rows that are judged: those without a value are not."""
    if not missing or rows is None:
        return f"{percent:.4g}% of {rows} rows fail"
    return f"{percent:.4g}% of {rows - missing} rows with a value fail ({missing} of {rows} rows have none)"


def _error(info: dict[str, Any]) -> str | None:
    """The exception of a GX result. GX uses two shapes: flat, or by the metric that raised."""
    for each in (info, *info.values()):
        if isinstance(each, dict) and each.get("raised_exception"):
            return str(each.get("exception_message") or _cause(str(each.get("exception_traceback") or "")))
    return None


def _cause(traceback: str) -> str:
    """The first exception, if GX kept no message: the last line of the first of the chained tracebacks."""
    lines = traceback.split("\n\n")[0].strip().splitlines()
    return lines[-1].strip() if lines else "the check raised an exception"


_FAILED = "_lakeward_failed"
_MARGIN = 4  # if many rows fail a check, a random share of this many times the requested rows is sampled


_SHOWN = 50
"""Columns of a table up to which samples are whole rows: the registry stores up to ten rows for each failed check."""
_FIRST = 20
"""Columns of a wider table that every sample has, from the left: keys usually come first."""


@dataclass(frozen=True)
class Failing:
    """The condition of a failing row of one check, the number of such rows, and the columns that the check names."""

    rows: Column
    count: int
    columns: frozenset[str] = frozenset()


def columns_of(kwargs: Mapping[str, Any]) -> frozenset[str]:
    """The columns that the arguments of a check name; of a field of a struct also the struct."""
    names = [kwargs.get(key) for key in ("column", "column_A", "column_B")] + list(kwargs.get("column_list") or ())
    plain = [str(name).strip("`") for name in names if name]
    return frozenset(plain) | {name.partition(".")[0] for name in plain}


def shown(columns: Sequence[str], about: frozenset[str]) -> list[str]:
    """The columns of a sample row: of a table with more than 50 the first 20, those of the check, and the position."""
    if len(columns) <= _SHOWN:
        return list(columns)
    kept = {*columns[:_FIRST], *about, *OWN_COLUMNS}
    return [name for name in columns if name in kept]


def samples(frame: DataFrame, failing: Mapping[str, Failing], most: int) -> dict[str, list[dict[str, Any]]]:
    """Up to `most` failing rows of each check, whole unless the table is wide (`shown`).

    If many rows fail a check, only a random share is taken, so that checks with few failing rows get samples too.
    Nothing is sorted or shuffled.
    """
    from pyspark.sql import functions as fn

    if not failing:
        return {}
    flags = []
    for seed, (name, each) in enumerate(failing.items()):
        share = most * _MARGIN / max(each.count, 1)
        taken = each.rows if share >= 1 else each.rows & (fn.rand(seed) < share)
        flags.append(fn.when(taken, fn.lit(name)))
    marked = frame.withColumn(_FAILED, fn.array_compact(fn.array(*flags)))
    chosen = {name: shown(frame.columns, each.columns) for name, each in failing.items()}
    columns = shown(frame.columns, frozenset().union(*chosen.values()))
    sampled = marked.filter(fn.size(_FAILED) > 0).limit(2 * _MARGIN * most * len(failing))
    found = collected(sampled.select(*map(quote, columns), _FAILED), far_as_text=True)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in failing}
    for row in found:
        whole = row.asDict()
        for name in whole.pop(_FAILED):
            if len(rows[name]) < most:
                rows[name].append({column: whole[column] for column in chosen[name]})
    return rows


def repeated(frame: DataFrame, keys: tuple[str, ...], most: int) -> Column | None:
    """A condition for rows of up to `most` combinations of values that occur more than once; None if there are none."""
    from pyspark.sql import functions as fn

    names = [f"k{index}" for index in range(len(keys))]
    chosen = frame.select(*(fn.col(key).alias(name) for key, name in zip(keys, names, strict=True)))
    sizes = chosen.groupBy(*names).agg(fn.count(fn.lit(1)).alias("size"))
    found = sizes.filter(fn.col("size") > 1).limit(most).collect()
    alike = [
        reduce(and_, (fn.col(key).eqNullSafe(fn.lit(row[name])) for key, name in zip(keys, names, strict=True)))
        for row in found
    ]
    return reduce(or_, alike) if alike else None
