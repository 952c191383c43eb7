"""What a run checks, decides and publishes, on real tables."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import sleep
from typing import Any

import pytest
from log_lines import line

from lakeward.connectors.spark.connect import session
from lakeward.quality.runs.request import Request
from lakeward.registry import batches, incidents, verifications


def states(result: dict[str, Any]) -> dict[str, str]:
    return {check["expectation"]: check["state"] for check in result["checks"]}


def test_a_green_run_moves_verified_to_exactly_the_checked_snapshot_while_rows_land(table) -> None:
    table.append()
    stop, landed = threading.Event(), []

    def land() -> None:
        with session(table.runtime) as spark:
            while not stop.is_set():
                spark.sql(f"INSERT INTO lake.{table.name} VALUES (1, 'AA', 1D, 0, 1)").collect()
                landed.append(table.head)

    thread = threading.Thread(target=land)
    thread.start()
    try:
        while not landed:
            sleep(0.05)
        result = table.check()
    finally:
        stop.set()
        thread.join()
    assert result["verdict"] == "pass"
    assert table.verified == result["to_snapshot"] == result["verified_snapshot"]
    assert landed and table.head != table.verified, "nothing landed meanwhile: the test shows nothing"
    again = table.check()
    assert again["from_snapshot"] == result["to_snapshot"]
    assert again["range"]["kind"] == "increment"
    assert table.verified == again["to_snapshot"] == table.head


def test_a_critical_failure_holds_and_says_what_since_when_and_what_now(table) -> None:
    table.suite(mask=("delay",))
    good = table.append()
    assert table.check()["verdict"] == "pass"
    table.append()
    bad = table.append(rows=20, bad=12)
    table.append()
    result = table.check()
    assert result["verdict"] == "hold"
    assert table.verified == result["verified_snapshot"] == good
    assert result["first_bad_snapshot"] == bad
    failed = next(check for check in result["checks"] if check["state"] == "fail")
    assert (failed["severity"], failed["unexpected_count"], failed["rows"]) == ("critical", 12, 40)
    assert len(failed["sample"]) == 10, "capped"
    assert {row["delay"] for row in failed["sample"]} == {"***"}, "masked by the suite"
    assert failed["sample"][0]["carrier"] is None
    assert {row["_kafka_offset"] for row in failed["sample"]} <= set(range(20, 32)), "whole rows, with their offsets"
    assert table.name in result["next"]
    assert f"readers stay on verified snapshot {good}" in " ".join(table.told)
    with table.registry() as connection:
        stored = verifications.newest(connection, table.name)[0]
        assert stored["verdict"] == "hold" and stored["first_bad_snapshot"] == bad
        assert {row["state"] for row in verifications.checks_of(connection, stored["run"])} == {"pass", "fail"}


def test_what_was_held_is_not_due_again_until_something_changes(table) -> None:
    table.append(bad=1)
    assert table.check(due=True)["verdict"] == "hold"
    assert table.check(due=True) == {}
    table.append()
    assert table.check(due=True)["verdict"] == "hold", "a new head is worth a look; the bad row is still in the range"


@pytest.mark.campaign(held_by="test_a_waived_failure_is_shown_and_counts_again_when_the_waiver_is_over")
def test_a_warning_publishes_and_is_marked(table) -> None:
    table.append(slow=1)
    result = table.check()
    assert result["verdict"] == "warn", (table.told, result)
    assert table.verified == table.head
    assert states(result)["expect_column_values_to_be_between"] == "fail"


def test_only_new_rows_are_checked_unless_the_whole_table_is_asked_for(table) -> None:
    table.suite(
        "{type: expect_column_values_to_be_between, kwargs: {column: delay, max_value: 9999}, severity: critical}"
    )
    table.append(bad=3)
    assert table.check()["verdict"] == "pass"
    table.suite()
    table.append()
    result = table.check()
    assert result["verdict"] == "pass", "the old bad rows are outside the range"
    assert any("Suite changed since the last run" in text for text in table.told)
    whole = table.check(scope="table")
    assert whole["verdict"] == "hold"
    assert next(check for check in whole["checks"] if check["state"] == "fail")["rows"] == 20


def test_a_check_of_the_table_looks_at_every_row_beside_checks_of_the_increment(table) -> None:
    table.append()
    table.check()
    table.suite(
        "{type: expect_table_row_count_to_equal, kwargs: {value: 20}, scope: table}",
        "{type: expect_column_min_to_be_between, kwargs: {column: id, min_value: 10}, severity: critical}",
    )
    table.append()
    result = table.check()
    assert (result["verdict"], [check["observed"] for check in result["checks"]]) == ("pass", [20, 10])


def test_nothing_new_is_nothing_to_do(table) -> None:
    table.append()
    first = table.check()
    again = table.check()
    assert set(states(again).values()) == {"skipped"}
    assert (again["verdict"], again["verified_snapshot"]) == ("pass", first["to_snapshot"])
    with table.registry() as connection:
        assert len(verifications.newest(connection, table.name)) == 1, "nothing done, nothing recorded"
    assert table.check(due=True) == {}


def test_a_table_without_a_snapshot_is_nothing_to_do(table) -> None:
    result = table.check()
    assert set(states(result).values()) == {"skipped"}
    assert result["to_snapshot"] is None


def test_an_engine_error_is_never_a_pass(table) -> None:
    table.suite("{type: expect_column_values_to_not_be_null, kwargs: {column: gone}, severity: info, on_fail: record}")
    table.append()
    result = table.check()
    assert result["verdict"] == "error"
    assert "gone" in result["checks"][0]["error"]
    assert table.verified is None


def test_what_great_expectations_or_spark_refuses_is_an_error_of_its_own(table) -> None:
    table.suite(
        "{type: expect_column_values_to_sparkle, kwargs: {column: carrier}, severity: info}",
        "{type: expect_column_values_to_be_between, kwargs: {column: delay, min_value: wide}, severity: info}",
        "{type: expect_column_values_to_match_regex, kwargs: {column: carrier, regex: '('}, severity: info}",
        "{type: expect_column_values_to_be_in_set, kwargs: {column: carrier, value_set: [AA]}, severity: critical}",
        "{type: expect_column_values_to_be_unique, kwargs: {column: id}, severity: critical}",
    )
    table.append()
    result = table.check()
    assert [check["state"] for check in result["checks"]] == ["error", "error", "error", "pass", "pass"]
    assert [check["by"] for check in result["checks"][3:]] == ["rows", "rows"]
    assert "sparkle" in result["checks"][0]["error"]
    assert (result["verdict"], table.verified) == ("error", None), "an error is neither a pass nor a failure"


def test_what_the_metadata_of_files_states_takes_no_job(table) -> None:
    table.append(by_spark=True)
    table.check()
    table.append(rows=5, by_spark=True)
    result = table.check()
    assert {check["by"] for check in result["checks"]} == {"metadata"}
    assert (result["verdict"], result["spark_jobs"]) == ("pass", 0)
    assert table.verified == table.head
    table.append(bad=2, by_spark=True)
    failed = table.check()["checks"][0]
    assert (failed["by"], failed["unexpected_count"], failed["rows"]) == ("metadata", 2, 10)
    assert len(failed["sample"]) == 2, "rows are read to be shown"


def test_a_check_that_few_rows_fail_is_not_crowded_out_of_the_sample(table) -> None:
    table.append(rows=3000, slow=3000)
    table.append(rows=10, bad=2)
    result = table.check()
    assert {check["unexpected_count"]: len(check["sample"]) for check in result["checks"]} == {3000: 10, 2: 2}


@pytest.mark.campaign(
    held_by="tests/spark/quality/test_ranges.py::test_an_overwrite_inside_the_range_is_read_with_the_whole_table"
)
def test_a_merge_inside_the_range_is_read_with_the_whole_table(table) -> None:
    good = table.append()
    assert table.check()["verdict"] == "pass"
    table.append()
    table.sql("MERGE INTO {t} m USING (SELECT 3 id) s ON m.id = s.id WHEN MATCHED THEN UPDATE SET carrier = null")
    result = table.check()
    assert (result["verdict"], result["range"]["kind"], table.verified) == ("hold", "table", good)
    assert "overwrite" in result["range"]["why"]


def test_a_table_that_is_gone_is_an_error_and_does_not_stop_the_others(make_table: Callable[[], Any]) -> None:
    gone, there = make_table(), make_table()
    for each in (gone, there):
        each.append()
    gone.check()
    gone.sql("DROP TABLE {t}")
    results = there.process.ask(
        Request(runtime=there.runtime, registry_url=there.url, project=there.project),
        timeout_s=240,
        emit=lambda level, event, fields: there.told.append(line(event, fields)),
    )
    assert {each["table"]: each["verdict"] for each in results} == {gone.name: "error", there.name: "pass"}
    gone.sql("CREATE TABLE {t} (id BIGINT) USING iceberg")


def test_a_table_nothing_landed_in_yet_is_not_due(table) -> None:
    written = table.project / "expectations" / f"{table.name}.yaml"
    later = written.rename(written.with_name("checked.later.yaml"))
    later.write_text(later.read_text().replace(table.name, "checked.later"))
    assert table.check(due=True) == {}
    assert any("Table not due for a check" in text for text in table.told)


def test_a_waived_failure_is_shown_and_counts_again_when_the_waiver_is_over(table) -> None:
    today = datetime.now(UTC).date()
    check = "type: expect_column_values_to_not_be_null, kwargs: {column: carrier}, severity: critical, waive_until: "
    table.suite(f"{{{check}{today + timedelta(days=1)}}}")
    table.append(bad=1)
    result = table.check()
    assert result["verdict"] == "warn" and table.verified == table.head
    assert result["checks"][0]["state"] == "fail" and result["checks"][0]["waived"]
    assert any("waived until" in text for text in table.told)
    table.suite(f"{{{check}{today - timedelta(days=1)}}}")
    table.append(bad=1)
    assert table.check()["verdict"] == "hold"


def test_a_suite_of_ones_own_proves_nothing(table, tmp_path) -> None:
    table.append()
    own = tmp_path / "own.yaml"
    own.write_text(
        f"table: {table.name}\nowner: me\nexpectations:\n  - {{type: expect_column_to_exist, kwargs: {{column: id}}}}\n"
    )
    result = table.check(suite=own)
    assert result["verdict"] == "pass"
    assert table.verified is None and "given for this run only" in result["note"]


def test_batches_and_offsets_of_the_range_are_kept(table) -> None:
    first = table.append()
    with table.registry() as connection:
        for seq, snapshot in ((1, first), (2, table.append(bad=1))):
            batches.record(
                connection, stream=f"s-{table.name}", query_id="q", batch_id=seq, seq=seq, generation=1,
                snapshot_id=snapshot, start_offsets={"t-0": seq * 10 - 10}, end_offsets={"t-0": seq * 10},
            )  # fmt: skip
    result = table.check()
    assert result["batches"] == [
        {"stream": f"s-{table.name}", "from_seq": 1, "to_seq": 2, "batches": 2, "start": {"t-0": 0}, "end": {"t-0": 20}}
    ]
    assert result["first_bad_batches"][0]["from_seq"] == 2
    assert result["first_bad_batches"][0]["start"] == {"t-0": 10}
    with table.registry() as connection:
        told = incidents.open_ones(connection)["quality", table.name]
    for words in ("1 of 20 rows", f"s-{table.name} batch 2, offsets t-0 10 to 20", '"_kafka_offset": 10',
                  "no snapshot is verified yet", f"lakeward quality waive {table.name} "):  # fmt: skip
        assert words in told.text, told.text
    table.sql("DELETE FROM {t} WHERE carrier IS NULL")
    assert table.check()["verdict"] == "pass"
    with table.registry() as connection:
        assert ("quality", table.name) not in incidents.open_ones(connection)


@pytest.mark.parametrize(
    "scope", ["window", pytest.param("table", marks=pytest.mark.campaign(held_by="test_wider_scopes_prove_too"))]
)
def test_wider_scopes_prove_too(table, scope: str) -> None:
    table.append()
    table.check()
    table.append()
    assert table.check(scope=scope)["verdict"] == "pass"
    assert table.verified == table.head


def test_a_failing_sql_check_shows_rows(table) -> None:
    query = "SELECT * FROM {batch} WHERE delay > 500"
    table.suite(
        f'{{type: unexpected_rows_expectation, kwargs: {{unexpected_rows_query: "{query}"}}, severity: critical}}'
    )
    table.append(slow=2)
    result = table.check()
    assert (result["verdict"], result["checks"][0]["unexpected_count"]) == ("hold", 2)
    assert result["checks"][0]["sample"][0]["delay"] == 9999
