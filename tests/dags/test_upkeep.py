"""The embedded Airflow stays small: old runs and their logs go, by the configuration `stack up` wrote."""

from __future__ import annotations

from typing import Any

import pytest
from airflow_service import AirflowService
from sqlalchemy import text

from lakeward.airflow import upkeep
from lakeward.registry import engine
from lakeward.spec.model.settings import Keep

pytestmark = pytest.mark.timeout(900)  # the first test boots Airflow


def test_old_runs_are_removed_from_the_database_a_task_cannot_reach(
    airflow: AirflowService, postgres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, newer = airflow.trigger("tables_observe"), airflow.trigger("tables_observe")
    for run in (old, newer):
        airflow.finished("tables_observe", run)
    for name, value in airflow.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "airflow-db-not-allowed:///")  # as in a task
    assert upkeep.embedded(airflow.home)
    assert {old, newer} <= {run["dag_run_id"] for run in airflow.runs("tables_observe")}
    with engine.connect(postgres.url("airflow"), postgres.pgpass) as connection:
        aged = text("UPDATE dag_run SET start_date = start_date - INTERVAL '2 days' WHERE run_id = :run")
        connection.execute(aged, {"run": old})
    assert upkeep.clean(airflow.home, Keep(runs="1d"))
    left = {run["dag_run_id"] for run in airflow.runs("tables_observe")}
    assert newer in left
    assert old not in left
