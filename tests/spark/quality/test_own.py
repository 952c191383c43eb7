"""Checks Great Expectations does not have, on real tables: history, other tables, and the results in the lake."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from lakeward.quality.results_table import TABLE
from lakeward.registry import verifications


def by_type(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["expectation"]: each for each in result["checks"]}


def test_volume_and_freshness_against_the_tables_own_history(table) -> None:
    usual = "kwargs: {column: at, at_least: 3}"
    table.suite(
        "{type: expect_volume_as_usual, kwargs: {at_least: 3, only: less}, severity: warning, on_fail: warn}",
        f"{{type: expect_freshness_as_usual, {usual}, severity: critical}}",
    )
    table.sql("ALTER TABLE {t} ADD COLUMN at TIMESTAMP")
    land = "INSERT INTO {{t}} SELECT id, 'A', 1D, 0, id, current_timestamp() - INTERVAL {} FROM range({})"
    table.sql(land.format("10 SECONDS", 1000))
    first = table.check()
    assert by_type(first)["expect_volume_as_usual"]["state"] == "skipped", first
    fresh = by_type(first)["expect_freshness_as_usual"]
    assert fresh["state"] == "pass" and "0 of 3 runs" in fresh["observed"]["text"]
    assert 9 < fresh["observed"]["value"] < 60
    ids = {each["expectation"]: each["id"] for each in first["checks"]}
    usual_values = {"expect_volume_as_usual": 60000.0, "expect_freshness_as_usual": 12.0}
    with table.registry() as connection:  # three runs of an hour each, as the registry would hold them
        for hours in (1, 2, 3):
            run = {"run": f"{table.name}-{hours}", "table": table.name, "suite": "s", "scope": "increment",
                   "verdict": "pass", "at": datetime.now(UTC) - timedelta(hours=hours)}  # fmt: skip
            rows = [{"check": ids[name], "expectation": name, "severity": "info", "state": "pass", "sample": [],
                     "observed": {"value": {"value": value}}, "unexpected_count": None}
                    for name, value in usual_values.items()]  # fmt: skip
            verifications.record(connection, run, rows)
    table.sql(land.format("2 HOURS", 3))
    found = table.check()
    assert found["verdict"] == "hold" and found["spark_jobs"] <= 2, found
    volume, fresh = by_type(found)["expect_volume_as_usual"], by_type(found)["expect_freshness_as_usual"]
    assert (volume["state"], fresh["state"]) == ("fail", "fail")
    assert "usual is 60,000 ± 3,000 (3 runs)" in volume["observed"]["text"], volume
    assert " old when it was committed; usual is 0:00:12 ± 0:00:01 (4 runs)" in fresh["observed"]["text"], fresh
    told = " ".join(table.told)
    assert "limit 6" in told and "Great Expectations is ready" not in told.split(table.name)[-1]


def test_checks_against_other_tables_and_a_row_of_each_result_in_the_lake(make_table) -> None:
    table, other = make_table(), make_table()
    other.append(20)
    other.sql("INSERT INTO {t} VALUES (99, 'XX', 1D, 0, 99), (98, 'BB', 5D, 0, 98)")
    table.suite(
        f"{{type: expect_keys_to_be_in_reference, kwargs: {{columns: [carrier], reference: {other.name}}}}}",
        f"{{type: expect_totals_to_equal_other_table, severity: critical, scope: table, kwargs: {{total: sum(delay), "
        f"other: {other.name}, other_total: sum(delay), by: {{carrier: upper(carrier)}}}}}}",
        f"{{type: expect_keys_to_be_in_reference, kwargs: {{columns: [id], reference: {other.name}, keys: [gone]}}}}",
    )
    table.append(20, bad=2)
    table.sql(
        "INSERT INTO {t} VALUES (21, 'ZZ', 1D, 0, 21), (22, 'ZZ', 1D, 0, 22), "
        "(23, 'YY', 1D, 0, 23), (24, 'BB', 5D, 0, 24)"
    )
    result = table.check()
    keys, totals, broken = result["checks"]
    assert (keys["state"], keys["unexpected_count"], keys["rows"]) == ("fail", 3, 22), "a null is no key"
    assert keys["sample"] == [{"carrier": "ZZ", "rows": 2}, {"carrier": "YY", "rows": 1}]
    # AA differs by what the two rows without a carrier had; YY and ZZ are not there; XX is not here.
    assert (totals["state"], totals["unexpected_count"], totals["rows"]) == ("fail", 4, 5), totals
    assert (broken["state"], "gone" in broken["error"], result["verdict"]) == ("error", True, "error")

    text = f"SELECT * FROM lake.{TABLE} WHERE run = '{result['run']}'"
    rows = {row["check"]: row.asDict() for row in table.spark.sql(text).collect()}
    assert set(rows) == {each["id"] for each in result["checks"]}
    row = rows[totals["id"]]
    wanted = {"table": table.name, "verdict": "error", "state": "fail", "severity": "critical", "rows": 5,
              "unexpected_count": 4, "run_checks": 3, "spark_jobs": result["spark_jobs"]}  # fmt: skip
    assert {name: row[name] for name in wanted} == wanted
    assert json.loads(row["kwargs"])["other"] == other.name and row["cpu_s"] > 0
    table.check()
    assert table.spark.sql(text).count() == 3, "once"
