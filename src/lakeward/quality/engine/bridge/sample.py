"""Failing rows of all failed checks by one job that brings few rows home, however many fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_FAILED = "_lakeward_failed"
_MARGIN = 4  # of a check that many rows fail, as many times the rows asked for are let through, by chance


@dataclass(frozen=True)
class Failing:
    """What a failing row of one check is, and how many there are."""

    rows: Column
    count: int


def samples(frame: DataFrame, failing: Mapping[str, Failing], most: int) -> dict[str, list[dict[str, Any]]]:
    """Up to `most` whole failing rows of each check.

    Of a check that many rows fail only a random share is let through, so that a check few rows fail is not crowded out,
    and nothing is sorted or shuffled for it.
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
    found = marked.filter(fn.size(_FAILED) > 0).limit(2 * _MARGIN * most * len(failing)).collect()
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in failing}
    for row in found:
        whole = row.asDict()
        for name in whole.pop(_FAILED):
            if len(rows[name]) < most:
                rows[name].append(whole)
    return rows


def repeated(frame: DataFrame, keys: tuple[str, ...], most: int) -> Column | None:
    """A condition for rows of up to `most` combinations of values that are there more than once; None when none is."""
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
