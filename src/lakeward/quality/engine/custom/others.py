"""Checks against another table: one statement, and a second one for examples of a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeward.quality.engine.custom.base import SAMPLE, CheckContext, enough, result
from lakeward.quality.results.json_values import plain
from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import Check
from lakeward.spec.model.custom_expectations import KeysPresent, TotalsEqual

if TYPE_CHECKING:
    pass


def keys_present(kwargs: KeysPresent, configured: ConfiguredCheck, context: CheckContext) -> Check:
    """Rows whose key is not in the reference table."""
    from pyspark.sql.connect import functions as f

    columns = [str(column) for column in kwargs.columns]
    theirs = [str(key) for key in kwargs.keys or kwargs.columns]
    marks = [f"_key_{index}" for index in range(len(columns))]
    known = context.table(str(kwargs.reference)).select(
        *(_of(f, a).alias(b) for a, b in zip(theirs, marks, strict=True))
    )
    rows = context.frame()
    keyed = rows.where(_all([_of(f, column).isNotNull() for column in columns]))
    # Grouped by key first: a join of keys is smaller than a join of rows.
    counted = keyed.groupBy(*(_of(f, a).alias(b) for a, b in zip(columns, marks, strict=True))).agg(
        f.count(f.lit(1)).alias("_rows")
    )
    found = counted.join(known.distinct().withColumn("_known", f.lit(True)), on=marks, how="left")
    unknown = f.col("_known").isNull()
    summed = found.agg(f.sum("_rows").alias("judged"), f.sum(f.when(unknown, f.col("_rows"))).alias("missing"))
    judged, missing = (each or 0 for each in summed.collect()[0])
    worst = found.where(unknown).orderBy(f.desc("_rows")).limit(SAMPLE).collect() if missing else []
    key = f"key ({', '.join(columns)})"
    sample = [
        {**{name: plain(row[mark]) for name, mark in zip(columns, marks, strict=True)}, "rows": row["_rows"]}
        for row in worst
    ]
    return result(
        configured,
        enough(missing, judged, kwargs.mostly),
        rows=judged,
        unexpected_count=missing,
        observed=f"{missing:,} of {judged:,} rows have a {key} that {kwargs.reference} does not have",
        sample=tuple(sample),
    )


def totals_equal(kwargs: TotalsEqual, configured: ConfiguredCheck, context: CheckContext) -> Check:
    """Groups whose totals differ, including groups that are missing on one side."""
    from pyspark.sql.connect import functions as f

    names = [str(each) for each in kwargs.by]
    marks = [f"_by_{index}" for index in range(len(names))]
    keyed = context.together().where(_all([_of(f, name).isNotNull() for name in names]))
    ours = keyed.groupBy(*(_of(f, a).alias(b) for a, b in zip(names, marks, strict=True)))
    mine = ours.agg(f.expr(kwargs.total).cast("double").alias("_ours"))
    span = mine.agg(f.min(marks[0]).alias("low"), f.max(marks[0]).alias("high")).collect()[0]
    if span["low"] is None:
        return result(configured, True, rows=0, unexpected_count=0, observed="the range has no groups")
    expressions = [f.expr(each).alias(mark) for each, mark in zip(kwargs.by.values(), marks, strict=True)]
    grouped = context.table(str(kwargs.other)).groupBy(*expressions)
    raw = grouped.agg(f.expr(kwargs.other_total).cast("double").alias("_theirs")).where(
        f.col(marks[0]).between(f.lit(span["low"]), f.lit(span["high"]))
    )
    both = mine.join(raw, on=marks, how="full")
    a, b = f.coalesce(f.col("_ours"), f.lit(0.0)), f.coalesce(f.col("_theirs"), f.lit(0.0))
    differs = f.abs(a - b) > f.greatest(f.abs(b) * kwargs.tolerance, f.lit(1e-9))
    summed = both.agg(
        f.count(f.lit(1)).alias("groups"), f.count_if(differs).alias("differ"), f.sum(a).alias("ours"),
        f.sum(b).alias("theirs"),
    ).collect()[0]  # fmt: skip
    worst = both.where(differs).orderBy(f.desc(f.abs(a - b))).limit(SAMPLE).collect() if summed["differ"] else []
    sample = [
        {**{name: plain(row[mark]) for name, mark in zip(names, marks, strict=True)},
         "total": row["_ours"], str(kwargs.other): row["_theirs"]}
        for row in worst
    ]  # fmt: skip
    groups, differ = summed["groups"], summed["differ"]
    return result(
        configured,
        enough(differ, groups, kwargs.mostly),
        rows=groups,
        unexpected_count=differ,
        observed=f"{differ:,} of {groups:,} groups differ; together {summed['ours']:,.10g} here, "
        f"{summed['theirs']:,.10g} in {kwargs.other}",
        sample=tuple(sample),
    )


def _of(f: Any, column: str) -> Any:
    """The column of exactly this name: a dot in it is not a path."""
    from lakeward.spec.sql.statements import quote

    return f.col(quote(column))


def _all(conditions: list[Any]) -> Any:
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return whole
