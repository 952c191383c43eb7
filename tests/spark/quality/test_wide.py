"""Tables with very many columns and eight levels of nesting: hundreds of checks are one run, samples stay small."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import wide

from lakeward.cli.app import main

pytestmark = pytest.mark.timeout(1800)  # a bound for a hang; a busy machine may need minutes


def profiled(capsys: pytest.CaptureFixture[str], home: Path, table: Any, *more: str) -> str:
    """What `quality profile` prints; it must succeed."""
    with pytest.raises(SystemExit) as ended:
        main(["quality", "profile", *more, table.name, "--home", str(home), "--project", str(table.project)])
    said = capsys.readouterr()
    assert not ended.value.code, said.err
    return said.out


@pytest.mark.campaign
@pytest.mark.parametrize(("number", "most"), [(120, 100), (1000, 300)])
def test_many_checks_of_a_wide_table_have_their_verdicts_and_short_samples(
    table: Any, home: Path, capsys: pytest.CaptureFixture[str], number: int, most: int
) -> None:
    table.sql(f"ALTER TABLE {{t}} ADD COLUMNS ({wide.sql_types(number)})")
    table.sql(f"INSERT INTO {{t}} SELECT id, 'AA', 1D, 0, id, {wide.sql_values(number)} FROM range(0, 200, 1, 1)")
    table.suite(*wide.expectations(number, most))
    result = table.check()
    assert len(result["checks"]) == most
    assert {each["state"] for each in result["checks"]} == {"pass", "fail"}
    [failed] = [each for each in result["checks"] if each["state"] == "fail"]
    assert failed["unexpected_count"] == 20
    names = set(failed["sample"][0])
    assert {"id", "carrier", "c0000", "c0001", "_kafka_partition", "_kafka_offset"} <= names
    assert len(names) < 30, "a sample of a wide table has the columns that identify a row and those of the check"
    if number < 1000:
        return
    said = json.loads(profiled(capsys, home, table, "--force", "-o", "json"))
    assert len(said["expectations"]) > number / 2
    assert [each for each in table.check(scope="table")["checks"] if each["state"] != "pass"] == []


def test_times_that_python_cannot_hold_are_judged_and_profiled(
    table: Any, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    far_times(table)
    assert "not_be_null" in profiled(capsys, home, table, "--dry-run")


@pytest.mark.campaign
def test_times_of_a_delta_table_that_python_cannot_hold_are_judged(delta_table: Any) -> None:
    far_times(delta_table)


def far_times(table: Any) -> None:
    """Check years 57971 and -1199 beside one of today."""
    table.sql("ALTER TABLE {t} ADD COLUMNS (at TIMESTAMP, day DATE, deep STRUCT<at: TIMESTAMP>)")
    far = "timestamp_millis(1767225600000000)", "date_from_unix_date(20819000)"
    old = "timestamp_seconds(-100000000000)", "date_from_unix_date(-2000000)"
    for at, day in (("TIMESTAMP'2026-01-01 00:00:00'", "DATE'2026-01-01'"), far, old):
        table.sql(f"INSERT INTO {{t}} SELECT id, 'AA', 1D, 0, id, {at}, {day}, named_struct('at', {at}) FROM range(1)")
    limits = "min_value: '2000-01-01', max_value: '2030-01-01'"
    table.suite(
        "{type: expect_column_values_to_not_be_null, kwargs: {column: at}}",
        f"{{type: expect_column_values_to_be_between, kwargs: {{column: at, {limits}}}}}",
        f"{{type: expect_column_values_to_be_between, kwargs: {{column: day, {limits}}}}}",
        f"{{type: expect_column_max_to_be_between, kwargs: {{column: at, {limits}}}}}",
        f"{{type: expect_column_min_to_be_between, kwargs: {{column: day, {limits}}}}}",
    )
    result = table.check()
    assert [(each["state"], each["unexpected_count"]) for each in result["checks"]] == [
        ("pass", 0), ("fail", 2), ("fail", 2), ("fail", None), ("fail", None),
    ], result["checks"]  # fmt: skip
    [between, *_] = [each for each in result["checks"] if each["state"] == "fail"]
    assert {row["at"][:7] for row in between["sample"]} == {"+57971-", "-1199-0"}, "the values as Spark writes them"
