"""Checks Great Expectations does not have, on real tables: history, other tables, and the results in the lake."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from lakeward.quality.results.results_table import TABLE
from lakeward.registry import batches, generations, streams, verifications


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
    assert "limit 6" in told and "Great Expectations imported" not in told.split(table.name)[-1]


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


def test_records_of_the_offsets_are_there_once_or_the_check_says_how_many_are_not(make_table) -> None:
    table, aside = make_table(), make_table()
    for each in (table, aside):
        each.sql("ALTER TABLE {t} ADD COLUMN _kafka_topic STRING")
    aside.sql("ALTER TABLE {t} ADD COLUMN stream STRING")
    stream, topic = f"s_{table.name[-6:]}", "flights"
    check = "expect_landed_to_equal_offsets"
    table.suite(f"{{type: {check}, severity: critical}}")
    spec = {"lineage": "rows", "quarantine": {"table": aside.name}, "sink": {"iceberg": {"table": table.name}}}

    def land(seq: int, start: int, end: int, rows: str, *, told: bool = True, filtered: int = 0) -> None:
        frame = table.spark.sql(
            f"SELECT o AS id, 'AA' AS carrier, 1D AS delay, 0 AS _kafka_partition, o AS _kafka_offset, "
            f"'{topic}' AS _kafka_topic FROM (SELECT explode({rows}) AS o)"
        )
        writer = frame.writeTo(f"lake.{table.name}")
        writer.option("snapshot-property.published-wap-id", f"{stream}/{seq}/n").append()
        at = [{"source": json.dumps({topic: {"0": each}})} for each in (start, end)]
        if told:
            with table.registry() as connection:
                batches.record(
                    connection, stream=stream, query_id="q", batch_id=seq, seq=seq, generation=1,
                    snapshot_id=table.head, start_offsets=at[0], end_offsets=at[1], consumed=end - start,
                    filtered=filtered, committed_at=datetime.now(UTC),
                )  # fmt: skip

    def checked() -> dict[str, Any]:
        return by_type(table.check())[check]

    with table.registry() as connection:
        streams.accept(connection, stream, generation=1, driver="none", desired="stopped")
        generations.add(
            connection, stream=stream, generation=1, spec=spec, digest="d", sql=None, code={}, versions={},
            author="tests", checkpoint=f"/none/{stream}",
        )  # fmt: skip
    aside.sql(f"INSERT INTO {{t}} SELECT id, null, null, 0, id, '{topic}', '{stream}' FROM range(17, 19)")
    land(1, 0, 10, "sequence(0L, 9L)")
    land(2, 10, 20, "sequence(10L, 16L)", filtered=1)
    found = checked()
    assert found["state"] == "pass" and "17 landed, 2 in quarantine, 1 filtered" in found["observed"], found
    land(3, 20, 25, "array_remove(array(1L), 1L)")
    found = checked()
    assert (found["state"], found["unexpected_count"]) == ("fail", 5), "a commit without a row moved offsets, too"
    land(4, 25, 35, "array_append(sequence(25L, 34L), 30L)")
    table.sql(f"INSERT INTO {{t}} VALUES (1, 'AA', 1D, 0, 3, '{topic}')")
    found = checked()
    assert found["unexpected_count"] == 6 and "5 missing, 1 rows doubled, 0 outside" in found["observed"], found
    assert f"because not committed by a stream: snapshot {table.head} (1 rows)" in found["observed"]
    land(5, 35, 40, "sequence(35L, 39L)", told=False)
    found = checked()
    assert found["state"] == "error" and f"batch seq 5 of stream {stream}" in found["error"], found
    assert table.history.verified not in (None, table.head)
