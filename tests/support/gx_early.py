"""Every condition a stream counts by, counted as a stream does, and Great Expectations' own answer from the bridge.

On the data of `gx_matrix`, and on edges drawn by a seed: NaN, infinities, nulls, numbers a double cannot hold, text
that is empty or not Latin. Part of `gx_matrix.py`'s process, which has Great Expectations already.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lakeward.quality.advisory.conditions import NotCountable, condition
from lakeward.quality.advisory.counted import TAKES, Counted, counters
from lakeward.quality.advisory.status import fails
from lakeward.quality.suite.configured import Asked
from lakeward.spec.model.suite import Expectation, Suite

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame

EDGES = (
    "SELECT id, int(nullif(pmod(hash(id, {seed}), 12), 11)) n, int(nullif(pmod(hash({seed}, id), 12), 0)) m, "
    "element_at(array(double('NaN'), double('inf'), -double('inf'), 0D, -0D, 19.5D, 20D, null), "
    "int(pmod(hash(id, 1, {seed}), 8)) + 1) x, decimal(nullif(pmod(hash(id, 2, {seed}), 120), 7)) price, "
    "element_at(array('A1', 'A', '', 'ÄÖ', 'a1', 'A1\\n', 'A12', null), int(pmod(hash(id, 3, {seed}), 8)) + 1) code, "
    "element_at(array('', 'text', 'täxt', '文字です', '😀😀😀', null), int(pmod(hash(id, 4, {seed}), 6)) + 1) text, "
    "if(pmod(hash(id, 5, {seed}), 9) = 0, null, date_add(DATE'2025-12-20', int(pmod(hash(id, 6, {seed}), 400)))) day, "
    "if(pmod(hash(id, 7, {seed}), 9) = 0, null, timestamp_seconds(1767225600 - 40 + pmod(hash(id, {seed}), 80))) at, "
    "element_at(array(true, false, null), int(pmod(hash(id, 8, {seed}), 3)) + 1) flag, string(null) blank, "
    "string(null) js, 9007199254740992 + pmod(hash(id, 9, {seed}), 3) big FROM range(1, 101)"
)
MORE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("expect_column_values_to_be_between", {"column": "big", "max_value": 9007199254740992}),
    ("expect_column_values_to_be_between", {"column": "n", "min_value": 3, "strict_min": True}),
    ("expect_column_values_to_be_between", {"column": "x", "max_value": 20, "strict_max": True}),
    ("expect_column_values_to_be_between", {"column": "price", "min_value": "7.5", "max_value": 60}),
    ("expect_column_values_to_be_between", {"column": "day", "max_value": "2026-01-01", "strict_max": True}),
    ("expect_column_values_to_be_between", {"column": "at", "min_value": "2026-01-01", "max_value": "2026-01-02"}),
    ("expect_column_values_to_be_in_set", {"column": "n", "value_set": [1, 2, None]}),
    ("expect_column_values_to_be_in_set", {"column": "x", "value_set": [0, 20.0]}),
    ("expect_column_values_to_be_in_set", {"column": "price", "value_set": [1, 2.5, 40]}),
    ("expect_column_values_to_be_in_set", {"column": "day", "value_set": ["2026-01-01", "2026-02-02"]}),
    ("expect_column_values_to_not_be_in_set", {"column": "code", "value_set": ["A1", ""]}),
    ("expect_column_values_to_match_regex", {"column": "text", "regex": r"^\w+$"}),
    ("expect_column_values_to_match_regex", {"column": "n", "regex": "^[0-5]$"}),
    ("expect_column_value_lengths_to_be_between",
     {"column": "text", "min_value": 1, "max_value": 4, "strict_max": True}),
    ("expect_column_value_lengths_to_be_between", {"column": "code", "min_value": 2}),
    ("expect_column_pair_values_a_to_be_greater_than_b",
     {"column_A": "m", "column_B": "x", "ignore_row_if": "neither"}),
    ("expect_column_pair_values_a_to_be_greater_than_b", {"column_A": "n", "column_B": "m", "or_equal": True}),
    ("expect_column_pair_values_to_be_equal", {"column_A": "n", "column_B": "m"}),
    ("expect_column_pair_values_to_be_equal",
     {"column_A": "code", "column_B": "text", "ignore_row_if": "either_value_is_missing"}),
)  # fmt: skip
WITH: tuple[Mapping[str, Any], ...] = (
    {}, {"mostly": 0.7}, {"row_condition": "n > 3", "condition_parser": "spark"},
    {"row_condition": "n > 3 OR code IS NULL", "condition_parser": "spark", "mostly": 0.5},
)  # fmt: skip


def cells(
    frames: Mapping[str, DataFrame], cases: tuple[tuple[str, dict[str, Any]], ...], seed: int | None
) -> Iterator[dict[str, Any]]:
    """Both answers to every expectation that is counted by, on every frame: with one of `WITH` that the seed draws, or
    with each of them where there is no seed."""
    from lakeward.quality.engine.bridge import checks as bridge

    chance = random.Random(seed)
    for name, rows in frames.items():
        wanted = [
            Expectation(type=kind, kwargs={**kwargs, **more})
            for kind, kwargs in (*cases, *MORE)
            if kind in TAKES and {kwargs.get("column"), kwargs.get("column_A")} & {*rows.columns}
            for more in (WITH if seed is None else [chance.choice(WITH)])
        ]
        made = counters(Suite(table="a.b", owner="tests", expectations=tuple(wanted)))
        ours = counts(rows, made.counted)
        asked = [Asked(each.check, every, "increment") for each, every in zip(made.counted, wanted, strict=True)]
        theirs = bridge.check(rows, asked, sampled=False)
        for each in made.counted:
            yield {
                "early": each.type,
                "data": name,
                "kwargs": each.kwargs,
                "stream": ours[each.check],
                "check": {"state": theirs[each.check].state, "failing": theirs[each.check].unexpected_count or 0},
            }


def counts(rows: DataFrame, counted: Any) -> dict[str, Any]:
    """What a stream counts of these rows and says of them, or why it does not."""
    from pyspark.sql import functions as fn

    found: dict[str, Any] = {}
    made = {}
    for each in counted:
        try:
            made[each.check] = condition(each, rows)
        except NotCountable as error:
            found[each.check] = {"left": str(error)}
    columns = []
    for each in made.values():
        looked_at = fn.lit(True) if each.looked_at is None else each.looked_at
        columns += [fn.count(fn.when(each.fails, 1)), fn.count(fn.when(looked_at, 1))]
    totals = list(rows.agg(*columns).collect()[0])
    by_id: dict[str, Counted] = {each.check: each for each in counted}
    for number, check in enumerate(made):
        failing, looked = totals[2 * number : 2 * number + 2]
        state = "fail" if fails(failing, looked, by_id[check].mostly) else "pass"
        found[check] = {"state": state, "failing": failing}
    return found
