"""What a suite proposes from what was seen, and what it leaves alone."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from lakeward.quality.arguments.literals import literal
from lakeward.quality.ranges.range import Read
from lakeward.quality.ranges.snapshot_chain import History
from lakeward.quality.suite.column_facts import MOST_ROWS, recent
from lakeward.quality.suite.propose import (
    ColumnProfile,
    Proposal,
    TableProfile,
    head_lines,
    propose,
    unique_candidates,
    without,
)
from lakeward.quality.suite.trial import connect_mode
from lakeward.quality.suite.yaml_text import suite_text
from lakeward.spec.read.document import read_document

SEEN = TableProfile("ns.t", 1000, 1000, 7, ())
ONE = ColumnProfile("c", "integer", nulls=0, low=1, high=90, distinct=40)


def of(column: ColumnProfile, seen: TableProfile = SEEN) -> Proposal:
    return propose(replace(seen, columns=(column,)))


def kinds(made: Proposal) -> list[str]:
    return [each["type"].removeprefix("expect_column_") for each in made.expectations[1:]]


@pytest.mark.parametrize(
    ("column", "wanted", "left"),
    [
        (ONE, ["values_to_not_be_null", "values_to_be_between"], None),
        (replace(ONE, nulls=600), ["values_to_be_between"], None),
        (replace(ONE, nulls=600, nan=True, kind="number"), [], "60% of its rows are null; it has NaN"),
        (replace(ONE, nulls=600, low=3, high=3), [], "one value, 3"),
        (replace(ONE, nulls=600, distinct=990), [], "probably a growing id"),
        (replace(ONE, nulls=600, low=None), [], "bounds are unknown"),
        (replace(ONE, kind="time", nulls=600), [], "becomes outdated"),
        (replace(ONE, kind="struct", nulls=600), [], "it is struct"),
        (ColumnProfile("c", "text", nulls=0, shortest=1, longest=3, values=("A", "BBB")),
         ["values_to_not_be_null", "values_to_be_in_set"], None),
        (ColumnProfile("c", "text", nulls=600, shortest=3, longest=3, values=tuple(map(str, range(100, 160)))),
         ["value_lengths_to_equal"], None),
        (ColumnProfile("c", "text", nulls=600, shortest=3, longest=200, values=("abc", "d" * 200)),
         [], "no common form"),
        (ColumnProfile("c", "text", nulls=0, shortest=3, longest=9, unique=True),
         ["values_to_not_be_null", "values_to_be_unique"], None),
    ],
)  # fmt: skip
def test_what_a_column_is_worth(column: ColumnProfile, wanted: list[str], left: str | None) -> None:
    made = of(column)
    assert kinds(made) == wanted
    assert (left or "") in made.left.get("c", ""), made.left
    assert set(made.comments) == set(range(len(made.expectations))), "each says what it rests on"
    assert bool(made.left) == (not wanted)


def test_a_name_with_a_backtick_is_left_alone_and_one_with_a_dot_is_not() -> None:
    made = propose(replace(SEEN, columns=(replace(ONE, name="a`b"), replace(ONE, name="a.b"), ONE)))
    assert made.left == {"a`b": "Great Expectations cannot read a name with a backtick"}
    assert made.expectations[0]["kwargs"]["column_set"] == ["a.b", "c"]
    assert of(replace(ONE, name="a`b")).expectations == []


@pytest.mark.parametrize(
    ("name", "words"),
    [("Id", "does not tell it from id"), ("a\x00b", "cannot hold"), ("\ud800", "cannot hold"), ("", "no name")],
)
def test_a_column_that_no_check_can_name_is_left_out(name: str, words: str) -> None:
    made = propose(replace(SEEN, columns=(replace(ONE, name=name), replace(ONE, name="id"), ONE)))
    assert words in made.left[name]
    assert {each["kwargs"].get("column", "c") for each in made.expectations} <= {"id", "c"}
    assert made.expectations[0]["kwargs"]["column_set"] == ([] if name == "Id" else ["id"]) + ["c"]


@pytest.mark.parametrize("value", ["a\x00b", "a\x1bb", "\ud800"])
def test_a_value_that_a_file_cannot_hold_is_not_proposed(value: str) -> None:
    made = of(ColumnProfile("c", "text", nulls=600, shortest=3, longest=3, values=("abc", value)))
    assert made.expectations[1:] == [] and "cannot hold" in made.left["c"]


def test_a_column_without_values_and_a_table_without_rows_have_one_reason() -> None:
    assert of(replace(ONE, nulls=1000, low=None, high=None)).left["c"] == "100% of its rows are null"
    assert of(replace(ONE, nulls=None), replace(SEEN, rows=0, read=0)).left["c"] == "the table has no rows"


def test_few_rows_say_nothing_about_values() -> None:
    assert kinds(of(ONE, replace(SEEN, rows=99, read=99))) == ["values_to_not_be_null"]


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(80, 4983, (0, 7500)), (-43, 1301, (-800, 2000)), (0, 0.5, (0, 0.75)), (-9, -4, (-11.5, 0)), (1e9, 1e9 + 1, None)],
)
def test_bounds_hold_what_was_seen_and_half_as_much_again(low: float, high: float, wanted: object) -> None:
    kwargs = of(replace(ONE, low=low, high=high)).expectations[2]["kwargs"]
    assert kwargs["min_value"] <= low and kwargs["max_value"] >= high
    if wanted:
        assert (kwargs["min_value"], kwargs["max_value"]) == wanted


@pytest.mark.parametrize(
    ("column", "severity", "on_fail", "mostly"),
    [
        (ONE, "warning", "warn", None),
        (replace(ONE, required=True), "critical", "hold", None),
        (replace(ONE, partition=True), "critical", "hold", None),
        (replace(ONE, nulls=20), "info", "record", 0.96),
    ],
)
def test_only_what_the_table_itself_says_is_critical(
    column: ColumnProfile, severity: str, on_fail: str, mostly: object
) -> None:
    found = of(column).expectations[1]
    assert (found["severity"], found["on_fail"], found["kwargs"].get("mostly")) == (severity, on_fail, mostly)


def test_an_exact_count_is_worth_its_shuffle_for_keys_alone() -> None:
    columns = [
        ColumnProfile("order_id", "integer", distinct=970),
        ColumnProfile("id", "text", distinct=500),
        ColumnProfile("comment", "text", distinct=1000),
        ColumnProfile("paid", "integer", distinct=1000),
    ]
    assert unique_candidates(replace(SEEN, columns=tuple(columns))) == ["order_id"]


def test_the_head_says_how_much_was_read_and_what_was_left() -> None:
    made = of(replace(ONE, kind="time", nulls=600))
    told = " ".join(head_lines(replace(SEEN, rows=9000), made))
    assert "9,000 rows of ns.t at snapshot 7; values from the newest 1,000" in told
    assert "No check of c: 60% of its rows are null; a fixed bound on a time becomes outdated." in told


def test_of_a_large_table_the_newest_commits_are_read(line) -> None:
    history: History = line("append", "append", "replace", "append")
    big = {key: replace(each, added=each.added * MOST_ROWS // 15) for key, each in history.snapshots.items()}
    assert recent(history, 4) == Read(None, 4), "small: all of it"
    assert recent(replace(history, snapshots=big), 4) == Read(1, 4)
    changed = {key: replace(each, operation="overwrite") if key == 3 else each for key, each in big.items()}
    assert recent(replace(history, snapshots=changed), 4) == Read(None, 4), "an incremental read would miss rows"


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
GROWING = replace(SEEN, appends=tuple((NOW - timedelta(minutes=5 * n), 100) for n in range(13)))
EVENT = ColumnProfile("at", "time", nulls=600, newest=NOW - timedelta(minutes=3))


def usual(made: Proposal) -> dict[str, dict[str, str]]:
    return {each["type"]: each["kwargs"] for each in made.expectations if each["type"].endswith("_as_usual")}


def test_a_table_that_grows_by_itself_is_compared_with_itself() -> None:
    made = of(EVENT, GROWING)
    assert usual(made) == {"expect_volume_as_usual": {}, "expect_freshness_as_usual": {"column": "at"}}
    assert {each["severity"] for each in made.expectations[1:]} == {"warning"}
    assert made.left == {}
    volume, fresh = (made.comments[index][0] for index in (1, 2))
    assert volume.startswith("13 commits with about 1,300 rows an hour")
    assert fresh.startswith("at: its newest is 3 minutes older than the newest commit")


@pytest.mark.parametrize(
    ("column", "seen", "wanted"),
    [
        (EVENT, replace(GROWING, appends=GROWING.appends[:9]), set()),
        (EVENT, replace(GROWING, appends=((NOW, 5),) * 13), set()),
        (EVENT, replace(GROWING, appends=tuple((at, 0) for at, _ in GROWING.appends)), set()),
        (replace(EVENT, newest=NOW - timedelta(days=2)), GROWING, {"expect_volume_as_usual"}),
        (replace(EVENT, newest=NOW + timedelta(hours=1)), GROWING, {"expect_volume_as_usual"}),
        (ONE, GROWING, {"expect_volume_as_usual"}),
    ],
)
def test_what_has_no_habit_yet_is_not_compared(column: ColumnProfile, seen: TableProfile, wanted: set[str]) -> None:
    assert set(usual(of(column, seen))) == wanted


def test_of_two_times_the_one_that_follows_the_commits_is_the_event() -> None:
    late = replace(EVENT, name="ordered", newest=NOW - timedelta(hours=8))
    made = propose(replace(GROWING, columns=(late, EVENT)))
    assert usual(made)["expect_freshness_as_usual"] == {"column": "at"}


WIDE = 12345678901234567890123456789012345678


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (Decimal(1), Decimal(WIDE)),
        (Decimal(-WIDE), Decimal(WIDE)),
        (Decimal(10**38 - 2), Decimal(10**38 - 1)),
        (Decimal("0.1000000000000000000000000001"), Decimal("0.1000000000000000000000000002")),
        (2**53 + 1, 2**53 + 3),
        (-(2**63), 2**63 - 1),
        (-1.7e308, 1.7e308),
        (5e-324, 1e-323),
        (0.1, 0.30000000000000004),
    ],
)
def test_bounds_are_exact_for_any_number(low: Any, high: Any) -> None:
    kind = "integer" if isinstance(low, int) else "number"
    made = of(replace(ONE, kind=kind, nulls=600, low=low, high=high)).expectations
    kwargs = next(each["kwargs"] for each in made if "min_value" in each["kwargs"])
    least, greatest = (literal(kwargs[key], "DECIMAL(38,28)", bound=True) if not isinstance(low, float) else kwargs[key]
                       for key in ("min_value", "max_value"))  # fmt: skip
    assert least <= low and high <= greatest
    text = suite_text({"table": "n.t", "owner": "me", "expectations": made}, [], {})
    assert read_document(text).data["expectations"] == made


@pytest.mark.parametrize(
    ("low", "high", "nan", "words"),
    [
        (1.0, math.inf, False, "infinite values"),
        (-math.inf, 1.0, False, "infinite values"),
        (math.nan, math.nan, False, "NaN"),
        (1.0, math.nan, False, "NaN"),
        (1.0, 2.0, True, "NaN"),
        (None, None, True, "NaN"),
    ],
)
def test_values_without_bounds_are_reported(low: Any, high: Any, nan: bool, words: str) -> None:
    made = of(replace(ONE, kind="number", nulls=600, low=low, high=high, nan=nan))
    assert words in made.left["c"]


def test_what_its_own_rows_fail_is_left_out_with_the_reason() -> None:
    made = of(ONE)
    kinds = [each["type"] for each in made.expectations]
    last = len(kinds) - 1
    kept = without(made, {last: "2% of 100 rows fail"})
    assert [each["type"] for each in kept.expectations] == kinds[:-1]
    assert list(kept.comments) == list(range(last))
    alone = without(made, dict.fromkeys(range(len(kinds)), "it failed"))
    assert alone.expectations == [] and "its own rows failed" in alone.left["c"]


def test_the_mode_of_spark_is_as_before_after_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
    monkeypatch.setenv("SPARK_REMOTE", "before")
    with pytest.raises(RuntimeError), connect_mode():
        assert os.environ["SPARK_CONNECT_MODE_ENABLED"] == "1"
        os.environ["SPARK_REMOTE"] = "sc://x"
        raise RuntimeError
    assert (os.environ.get("SPARK_CONNECT_MODE_ENABLED"), os.environ["SPARK_REMOTE"]) == (None, "before")
