"""The table and quality Dags on a real Airflow, as far as they go without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from airflow_service import AirflowService

from lakeward.connectors.iceberg.catalog import pyiceberg_properties

pytestmark = pytest.mark.timeout(900)  # the first test boots Airflow


@pytest.fixture(scope="module")
def table(airflow: AirflowService) -> str:
    """A table of twelve small files, by PyIceberg."""
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("lake", **pyiceberg_properties(airflow.runtime.lake, airflow.site.catalog_pgpass))
    catalog.create_namespace_if_not_exists("nyc")
    rows = pa.table({"carrier": ["AA", "UA"], "delay": [1.0, 2.0]})
    made = catalog.create_table("nyc.small", schema=rows.schema)
    for _ in range(3):
        made.append(rows)
    return "nyc.small"


def test_observe_reads_every_table_and_is_green(airflow: AirflowService, table: str) -> None:
    run = airflow.trigger("tables_observe")
    assert airflow.finished("tables_observe", run, 400) == "success"
    told = airflow.log("tables_observe", run, "observe")
    assert "Looked at 1 table with 3 files" in told
    from lakeward.registry import maintenance

    with airflow.registry() as connection:
        assert table in maintenance.all_tables(connection)


def test_a_dry_run_of_maintenance_shows_the_plan_and_changes_nothing(airflow: AirflowService, table: str) -> None:
    run = airflow.trigger("tables_maintain", table=table, actions=["compact"], dry_run=True)
    assert airflow.finished("tables_maintain", run, 400) == "success"
    assert "compact" in airflow.log("tables_maintain", run, "maintain")


def test_maintenance_names_what_is_missing(airflow: AirflowService) -> None:
    run = airflow.trigger("tables_maintain", table="")
    assert airflow.finished("tables_maintain", run, 400) == "failed"
    assert "Name a table" in airflow.log("tables_maintain", run, "maintain")


def test_an_unknown_action_is_refused_before_the_run(airflow: AirflowService) -> None:
    answer = airflow.call(
        "POST",
        "/dags/tables_maintain/dagRuns",
        json={"logical_date": None, "conf": {"table": "nyc.small", "actions": ["burn"]}},
    )
    assert answer.status_code == 400


def test_a_check_with_nothing_due_is_green_and_says_so(airflow: AirflowService) -> None:
    run = airflow.trigger("quality_check")
    assert airflow.finished("quality_check", run, 400) == "success"
    assert "Nothing is due" in airflow.log("quality_check", run, "check")


def test_a_check_of_a_table_without_a_suite_is_red_and_says_why(airflow: AirflowService) -> None:
    run = airflow.trigger("quality_check", table="nyc.nowhere")
    assert airflow.finished("quality_check", run, 400) == "failed"
    assert "nyc.nowhere" in airflow.log("quality_check", run, "check")
