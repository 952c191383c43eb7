"""The story of a run, as its log has it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lakeward.quality.ranges.range import decide
from lakeward.quality.ranges.snapshot_chain import Mark
from lakeward.quality.results.records import Result, recorded
from lakeward.quality.results.text import between, describe, lines
from lakeward.quality.verdicts.verdict import Check, State, Verdict
from lakeward.quality.verdicts.waivers import ActiveWaiver

AT = datetime(2026, 11, 21, tzinfo=UTC)
COUNTED = Check("c1", "expect_column_min_to_be_between", "critical", State.PASS, {"column": "a"}, by="metadata")
BAD = Check(
    "c2", "expect_column_values_to_not_be_null", "critical", State.FAIL, {"column": "a"}, rows=20, unexpected_count=2,
    sample=({"a": None},), why="joins break", by="rows",
)  # fmt: skip


def result(line: Any, verdict: Verdict, *checks: Check) -> Result:
    found = decide(line("append", "append"), [Mark(1, 1)])
    made = Result("r1", AT, "ns.t", "digest", "increment", found, verdict, checks, verified=1)
    return replace(made, spark_jobs=2, duration_s=1.5, cpu_s=0.4)


def told(document: dict[str, Any]) -> list[str]:
    return [text for _, text in lines(document)]


def test_a_held_run_is_reported_in_ten_lines(line) -> None:
    story = told(replace(result(line, Verdict.HOLD, COUNTED, BAD), first_bad=2).document())
    assert len(story) <= 10
    assert story[0].startswith("range: snapshots 1 (exclusive) to 2: ")
    assert story[1:] == [
        "decided: 1 from metadata, 1 in one pass over the rows; 20 rows read",
        "critical check expect_column_values_to_not_be_null(a) failed: 2 of 20 rows; joins break",
        "for example {'a': None}",
        "first bad snapshot 2",
        "verdict hold (1 pass, 1 fail)",
        "readers stay on verified snapshot 1",
        "cost: 1.5 s, 0.4 CPU-s of the checking process, 2 Spark jobs",
        story[-1],
    ]
    assert story[-1].startswith("next: ")


def test_a_run_that_opened_no_data_file_says_so(line) -> None:
    story = told(result(line, Verdict.PASS, COUNTED).document())
    assert "decided: 1 from metadata; no row was read to decide" in story
    assert "verified is at snapshot 1" in story


def test_an_error_is_reported_as_neither_pass_nor_failure(line) -> None:
    broken = replace(BAD, state=State.ERROR, error="no such column", unexpected_count=None, sample=())
    document = result(line, Verdict.ERROR, broken).document()
    assert ("error", f"{describe(broken)}") in list(lines(document))
    assert "could not be computed: no such column; joins break" in describe(broken)


def test_what_the_registry_keeps_tells_the_same_but_what_the_range_was_made_of(line) -> None:
    made = result(
        line, Verdict.HOLD, COUNTED, replace(BAD, excuse=ActiveWaiver(AT, "ada", "the feed is being repaired"))
    )
    kept = told(recorded(made.row(), made.check_rows()))
    assert kept[0] == "range: snapshots 1 (exclusive) to 2"
    assert kept[1:] == told(made.document())[1:]
    assert any("waived until 2026-11-21 00:00 UTC by ada: the feed is being repaired" in each for each in kept)


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        ({"f": '{"f":{"0":7,"1":2}}'}, {"f": '{"f":{"0":9,"1":2}}'}, "f/0 7 to 9, f/1 2 to 2"),
        ({"a": {"t": {"0": 1}}}, {"a": {"t": {"0": 5}}}, "a/t/0 1 to 5"),
        ({"source": {"t": {"0": 1}}}, {"source": '{"t":{"0":5}}'}, "t/0 1 to 5"),
        ({"t-0": 10}, {"t-0": 20}, "t-0 10 to 20"),
        (None, {"t": {"0": 5}}, "null to {t: {0: 5}}"),
        ({"t": {"0": 1}}, {"t": {"0": 5, "1": 3}}, "t/0 1 to 5, t/1 its beginning to 3"),
        ({"files": "part-1"}, {"files": "part-2"}, "{files: part-1} to {files: part-2}"),
        ({}, {}, "{} to {}"),
        (
            {"t": {str(n): n for n in range(9)}},
            {"t": {str(n): n + 1 for n in range(9)}},
            "t/0 0 to 1, t/1 1 to 2, t/2 2 to 3, t/3 3 to 4, t/4 4 to 5, t/5 5 to 6 and 3 more partitions",
        ),
    ],
)
def test_offsets_are_reported_by_partition(start: Any, end: Any, words: str) -> None:
    assert between(start, end) == words


@pytest.mark.parametrize(
    ("kind", "kwargs", "name"),
    [
        ("expect_keys_to_be_in_reference", {"columns": ["carrier"], "reference": "a.b"}, "(carrier) failed"),
        ("expect_keys_to_be_in_reference", {"columns": {"origin": "faa"}, "reference": "a.b"}, "(origin) failed"),
        ("expect_compound_columns_to_be_unique", {"column_list": ["a", "b"]}, "(a, b) failed"),
        ("expect_column_pair_values_to_be_equal", {"column_A": "a", "column_B": "b"}, "(a, b) failed"),
        ("expect_table_row_count_to_be_between", {"min_value": 1}, "between failed"),
    ],
)
def test_a_failed_check_names_its_columns(kind: str, kwargs: dict[str, Any], name: str) -> None:
    assert f"{kind.removesuffix('between')}{name}" in describe(replace(BAD, expectation=kind, kwargs=kwargs))
