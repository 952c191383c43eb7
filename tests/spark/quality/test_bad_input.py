"""What may be wrong with a suite, a table or the engine: each is told by its name, and nothing is published wrongly.

Beside it: `test_run.py` (a MERGE in the range, a table that is gone, what Great Expectations or Spark refuses),
`test_ranges.py` (an expired watermark), `test_publications.py` (two runs at once, a run that dies).
"""

from __future__ import annotations

from datetime import time
from typing import Any

import pyarrow as pa
import pytest
from log_lines import line
from proxy import Proxy

from lakeward.cli.app import main
from lakeward.quality.ranges import metadata
from lakeward.quality.runs.request import Request
from lakeward.registry import incidents, verifications


def asked(table: Any, **more: Any) -> list[dict[str, Any]]:
    """The results of a run with a request of its own."""
    given = {"runtime": table.runtime, "registry_url": table.url, "project": table.project, "tables": (table.name,)}
    request = Request(**{**given, **more})
    found: list[dict[str, Any]] = table.process.ask(
        request, timeout_s=240, emit=lambda level, event, fields: table.told.append(line(event, fields))
    )
    return found


@pytest.mark.campaign(
    held_by="tests/spark/quality/test_run.py::test_what_great_expectations_or_spark_refuses_is_an_error_of_its_own"
)
def test_an_unknown_expectation_is_named_and_holds_nothing_back_but_the_branch(table) -> None:
    proven = table.append()
    table.check()
    table.suite("{type: expect_column_values_to_sparkle, kwargs: {column: carrier}, severity: info}")
    table.append()
    result = table.check()
    assert (result["verdict"], result["checks"][0]["state"], table.verified) == ("error", "error", proven)
    assert "expect_column_values_to_sparkle" in result["checks"][0]["error"]


def test_arguments_great_expectations_refuses_are_named(table) -> None:
    table.suite("{type: expect_column_values_to_be_between, kwargs: {colum: delay, min_value: 0}, severity: info}")
    table.append()
    result = table.check()
    assert (result["verdict"], result["checks"][0]["state"], table.verified) == ("error", "error", None)
    told = result["checks"][0]["error"]
    assert "column: " in told and "colum: " in told


def test_a_column_that_went_holds_the_branch_until_it_is_back(table) -> None:
    proven = table.append()
    table.check()
    table.sql("ALTER TABLE {t} RENAME COLUMN carrier TO airline")
    table.append()
    result = table.check()
    states = {check["kwargs"]["column"]: check["state"] for check in result["checks"]}
    assert (result["verdict"], table.verified, states) == ("error", proven, {"carrier": "error", "delay": "pass"})
    told = next(check["error"] for check in result["checks"] if check["state"] == "error")
    assert "carrier" in told
    with table.registry() as connection:
        assert "carrier" in incidents.open_ones(connection)["quality", table.name].text
    table.sql("ALTER TABLE {t} RENAME COLUMN airline TO carrier")
    table.append()
    assert (table.check()["verdict"], table.verified) == ("pass", table.head)


def test_a_suite_for_a_table_that_never_was_is_an_error_by_name_and_not_due_without(table) -> None:
    file = table.project / "expectations" / "checked.nowhere.yaml"
    file.write_text((table.project / "expectations" / f"{table.name}.yaml").read_text().replace(table.name, file.stem))
    (result,) = asked(table, tables=("checked.nowhere",))
    assert (result["verdict"], result["note"]) == (
        "error", "Table checked.nowhere does not exist: It is not in the catalog of the lake.",
    )  # fmt: skip
    assert result["verified_snapshot"] is None


@pytest.mark.campaign(
    held_by="tests/spark/quality/test_lineage_v3.py::"
    "test_the_snapshot_of_a_failing_row_is_remembered_after_it_is_expired"
)
def test_a_table_of_format_3_is_published_and_held_like_any_other(table) -> None:
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
    proven = table.append()
    assert (table.check()["verdict"], table.verified) == ("pass", proven)
    table.append(bad=1)
    assert (table.check()["verdict"], table.verified) == ("hold", proven)


def test_a_check_without_an_answer_in_time_is_an_error_and_the_others_count(table) -> None:
    table.append()
    slow = "SELECT a.id FROM {batch} a, range(3000000000) b WHERE sha(concat(a.id, b.id)) = 'x'"
    table.suite(
        "{type: expect_column_values_to_not_be_null, kwargs: {column: carrier}, severity: critical}",
        f'{{type: unexpected_rows_expectation, kwargs: {{unexpected_rows_query: "{slow}"}}, severity: info}}',
    )
    (result,) = asked(table, patience_s=1)
    assert [check["state"] for check in result["checks"]] == ["pass", "error"]
    assert (result["verdict"], table.verified) == ("error", None)
    assert any("Checks timed out; statements interrupted" in text for text in table.told)
    table.suite()
    assert (table.check()["verdict"], table.verified) == ("pass", table.head), "the next run has time of its own"


@pytest.fixture
def proxy(table) -> Any:
    """Between the checking process and the Connect server."""
    made = Proxy(int(table.runtime.connect.rpartition(":")[2]))
    yield made
    made.close()


@pytest.mark.campaign(
    held_by="tests/spark/quality/test_healing.py::test_a_busy_server_is_ended_and_the_one_after_it_is_waited_for"
)
def test_a_connect_server_that_dies_half_way_is_an_error_and_the_next_run_proves(table, proxy) -> None:
    proven = table.append()
    table.check()
    table.append()
    table.suite("{type: expect_column_values_to_match_regex, kwargs: {column: carrier, regex: AA}, severity: critical}")
    runtime = table.runtime.model_copy(update={"connect": f"127.0.0.1:{proxy.port}"})

    def emit(level: str, text: str, fields: dict[str, Any]) -> None:
        table.told.append(line(text, fields))
        if "1 commit since" in table.told[-1]:  # decided what to read, and about to ask for it
            proxy.set("reset")

    request = Request(runtime=runtime, registry_url=table.url, project=table.project, tables=(table.name,))
    (result,) = table.process.ask(request, timeout_s=240, emit=emit)
    assert (result["verdict"], table.verified) == ("error", proven), (result, table.told)
    with table.registry() as connection:
        assert verifications.newest(connection, table.name)[0]["verdict"] == "error"
    assert (table.check()["verdict"], table.verified) == ("pass", table.head)


def test_a_table_that_spark_cannot_read_is_an_error_in_its_words_and_ends_no_server(table, home, capsys) -> None:
    from pyiceberg.types import TimeType

    table.append()
    loaded = metadata.load(metadata.catalog(table.runtime), table.name)
    with loaded.update_schema() as change:
        change.add_column("at", TimeType())
    loaded.append(pa.table({"id": [1], "at": pa.array([time(12)], pa.time64("us"))}))
    result = table.check(scope="table")
    errors = {each["error"] for each in result["checks"]}
    assert (result["verdict"], len(errors)) == ("error", 1)
    (words,) = errors
    assert words.startswith(f"Spark cannot read the rows of {table.name}: ") and "time" in words
    assert not any("Session lost" in each or "in parts" in each for each in table.told), table.told
    with pytest.raises(SystemExit) as ended:
        main(["quality", "profile", table.name, "--dry-run", "--home", str(home), "--project", str(table.project)])
    said = capsys.readouterr().err
    assert ended.value.code == 4 and "LW-3500" in said and "time" in said and "at org.apache" not in said
