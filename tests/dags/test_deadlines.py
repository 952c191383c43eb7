"""Deadlines of a real Airflow with LocalExecutor: a run that does not end is an incident until it does."""

from __future__ import annotations

import pytest
from airflow_service import AirflowService

from lakeward.registry import incidents

pytestmark = pytest.mark.timeout(900)  # the first test boots Airflow

LATE = '''
"""A Dag as a stream has one, with a shorter deadline and a task that waits to be let go."""

import time
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task
from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference
from lakeward.airflow.deadlines import missed

with DAG(
    "stream__late",
    schedule=None,
    is_paused_upon_creation=False,
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT, interval=timedelta(seconds=1), callback=SyncCallback(missed)
    ),
):

    @task
    def wait():
        while not Path("GO").exists():
            time.sleep(0.2)

    wait()
'''


def test_a_run_that_does_not_end_is_an_incident_until_it_does(airflow: AirflowService) -> None:
    go = airflow.home.root / "go"
    file = airflow.site.project.dags / "late.py"
    file.write_text(LATE.replace("GO", str(go)))

    def incident() -> incidents.Incident | None:
        with airflow.registry() as connection:
            return incidents.open_ones(connection).get(("operation", "late"))

    try:
        airflow.airflow("dags", "reserialize")
        airflow.eventually(lambda: airflow.call("GET", "/dags/stream__late").status_code == 200, 400, "the Dag")
        run = airflow.trigger("stream__late", op="reset")
        airflow.eventually(incident, 400, "the incident")
        found = incident()
        assert found is not None
        assert found.text.startswith("The reset of stream late has not ended after")
        assert found.fields["run"] == run
        go.touch()
        assert airflow.finished("stream__late", run) == "success"
        airflow.eventually(lambda: incident() is None, 400, "the incident to be closed")
    finally:
        go.touch()
        file.unlink()
