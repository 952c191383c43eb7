"""The watcher of tables on a real Airflow: a commit of another program starts an observation by itself."""

from __future__ import annotations

import pyarrow as pa
import pytest
from airflow_service import AirflowService
from pyiceberg.catalog import load_catalog
from sqlalchemy import text

from lakeward.connectors.iceberg.catalog import pyiceberg_properties
from lakeward.registry import maintenance
from lakeward.tables import changes

pytestmark = pytest.mark.timeout(900)  # the first test boots Airflow


def test_a_commit_of_another_program_is_observed_without_a_schedule(airflow: AirflowService) -> None:
    catalog = load_catalog("lake", **pyiceberg_properties(airflow.runtime.lake, airflow.site.catalog_pgpass))
    catalog.create_namespace_if_not_exists("nyc")
    rows = pa.table({"carrier": ["AA", "UA"]})
    made = catalog.create_table("nyc.watched", schema=rows.schema)
    made.append(rows)
    first = airflow.trigger("tables_observe")
    assert airflow.finished("tables_observe", first) in ("success", "failed")  # other tests have an unreadable table
    made.append(rows)
    newest = made.current_snapshot()
    assert newest is not None
    with airflow.registry() as connection:  # as if the interval of observations had passed
        connection.execute(
            text("UPDATE ticks SET at = at - interval '1 hour' WHERE name = :name"), {"name": changes.HEARTBEAT}
        )

    def observed() -> bool:
        with airflow.registry() as connection:
            return maintenance.newest_facts(connection)["nyc.watched"].snapshot_id == newest.snapshot_id

    airflow.eventually(observed, 240, "the observation of the new snapshot")
    assert any(run["run_type"] == "asset_triggered" for run in airflow.runs("tables_observe"))
    catalog.drop_table("nyc.watched")
