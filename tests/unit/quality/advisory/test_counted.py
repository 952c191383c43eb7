"""Which checks rows are counted by while they land, and which warnings stand until the check has decided."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakeward.quality.advisory.counted import Counters, counters, of
from lakeward.quality.advisory.status import Decided, fails, standing
from lakeward.spec.model.suite import Suite

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
NULLS, BETWEEN = "expect_column_values_to_not_be_null", "expect_column_values_to_be_between"


def suite(*expectations: tuple[str, dict[str, Any]], **more: Any) -> Suite:
    checks = [{"type": kind, "kwargs": kwargs} for kind, kwargs in expectations]
    return Suite.model_validate({"table": "ns.t", "owner": "me", "expectations": checks, **more})


MADE = counters(suite((NULLS, {"column": "a"}), (BETWEEN, {"column": "b", "min_value": 0, "mostly": 0.9})))
A, B = (each.check for each in MADE.counted)


def batch(
    seq: int, counts: dict[str, tuple[int, int]] | None, *, stream: str = "s", landed: int = 100
) -> dict[str, Any]:
    at = NOW + timedelta(seconds=10 * seq)
    found = None if counts is None else {name: list(each) for name, each in counts.items()}
    return {
        "stream": stream, "batch_id": seq - 1, "seq": seq, "landed": landed, "advisory": found, "committed_at": at,
    }  # fmt: skip


def run(to_seq: int | None, states: dict[str, str], *, stream: str = "s", at: datetime | None = None) -> Decided:
    batches = [{"stream": stream, "from_seq": 1, "to_seq": to_seq}]
    when = at or NOW + timedelta(seconds=10 * (to_seq or 0) + 5)
    return Decided.of({"at": when, "batches": batches}, [{"check": key, "state": each} for key, each in states.items()])


@pytest.mark.parametrize(
    ("kind", "kwargs", "why"),
    [
        ("expect_column_values_to_be_unique", {"column": "a"}, "not decided row by row"),
        ("expect_freshness_as_usual", {"column": "a"}, "not decided row by row"),
        (BETWEEN, {"column": "a", "min_value": {"$PARAMETER": "p"}}, "filled in"),
        (
            NULLS,
            {"column": "a", "row_condition": 'col("b") > 3', "condition_parser": "great_expectations"},
            "Spark SQL",
        ),
        (NULLS, {"column": "a", "row_condition": "b > 3"}, "Spark SQL"),
        (NULLS, {"column": "a", "of_tomorrow": 1}, "of_tomorrow is not known here"),
    ],
)
def test_what_is_not_counted_by_is_named_with_its_reason(kind: str, kwargs: dict[str, Any], why: str) -> None:
    made = counters(suite((kind, kwargs)))
    assert made.counted == ()
    assert why in next(iter(made.left.values()))


def test_a_share_of_all_rows_is_not_judged_by_the_new_ones() -> None:
    share = {"type": NULLS, "kwargs": {"column": "a", "mostly": 0.9}, "scope": "table"}
    made = counters(Suite.model_validate({"table": "ns.t", "owner": "me", "expectations": [share]}))
    assert not made.counted
    strict = {**share, "kwargs": {"column": "a"}}
    assert counters(Suite.model_validate({"table": "ns.t", "owner": "me", "expectations": [strict]})).counted


def test_advisory_false_counts_nothing() -> None:
    assert counters(suite((NULLS, {"column": "a"}), advisory=False)) == Counters()


def test_what_is_told_reads_as_it_was_and_as_a_later_version_tells_it() -> None:
    assert of(MADE.text) == MADE
    later = MADE.text.replace('"severity":', '"of_tomorrow": 1, "severity":')
    assert of(later) == MADE
    assert MADE.digest != counters(suite((NULLS, {"column": "b"}))).digest


def test_failing_rows_stand_with_the_batches_they_are_of() -> None:
    [found] = standing(MADE, [batch(811, {}), batch(812, {A: (40, 100)}), batch(813, {A: (2, 100)})], [])
    assert (found.counted.check, found.failing, found.rows) == (A, 42, 300)
    assert (found.first, found.newest) == (810, 812)
    assert (found.since_batch, found.since_seq, found.since) == (811, 812, NOW + timedelta(seconds=8120))


def test_a_share_is_judged_over_all_batches_the_check_has_not_seen() -> None:
    noisy = [batch(1, {B: (9, 80)}), batch(2, {B: (9, 100)})]
    assert standing(MADE, noisy, []) == [], "18 of 180 is the tenth that may fail"
    [found] = standing(MADE, [*noisy, batch(3, {B: (11, 100)})], [])
    assert (found.failing, found.rows) == (29, 280)
    assert fails(29, 280, 0.9)
    assert not fails(0, 0, 1.0), "of no rows none fails"


@pytest.mark.parametrize("state", ["pass", "fail"])
def test_the_checks_answer_takes_the_place_of_the_warning(state: str) -> None:
    landed = [batch(1, {A: (1, 100)}), batch(2, {A: (1, 100)})]
    assert standing(MADE, landed, [run(2, {A: state})]) == []
    [found] = standing(MADE, landed, [run(1, {A: state})])
    assert (found.failing, found.since_seq) == (1, 2), "what landed after the run stands"


def test_only_an_answer_about_these_rows_does() -> None:
    landed = [batch(5, {A: (1, 100)})]
    for other in (
        run(5, {A: "error"}), run(5, {A: "skipped"}), run(5, {B: "pass"}), run(5, {A: "pass"}, stream="other"),
        run(None, {A: "pass"}),
    ):  # fmt: skip
        assert standing(MADE, landed, [other])
    earlier = run(9, {A: "pass"}, at=NOW - timedelta(hours=1))
    assert standing(MADE, landed, [earlier]), "a table that went back counts its batches from there again"


def test_what_was_not_counted_and_what_another_suite_counted_says_nothing() -> None:
    assert standing(MADE, [batch(1, None), batch(2, {"gone": (7, 100)})], []) == []


def test_streams_of_one_table_are_told_apart() -> None:
    found = standing(MADE, [batch(1, {A: (1, 100)}, stream="x"), batch(1, {A: (2, 100)}, stream="y")], [])
    assert [(each.stream, each.failing) for each in found] == [("x", 1), ("y", 2)]


def test_a_driver_gets_no_great_expectations_by_it() -> None:
    code = (
        "import sys, lakeward.driver.main, lakeward.engine.sinks.counting, lakeward.quality.advisory.conditions; "
        "sys.exit('great_expectations' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
