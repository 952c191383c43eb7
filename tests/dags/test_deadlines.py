"""Deadlines of a real Airflow with LocalExecutor: a run that does not end is an incident until it does."""

from __future__ import annotations

import airflow_service
import pytest
from airflow_service import AirflowService

from lakeward.registry import incidents
from lakeward.supervision import page_links

pytestmark = pytest.mark.timeout(900)  # the first test boots Airflow


def test_a_run_that_does_not_end_is_an_incident_until_it_does(airflow: AirflowService) -> None:
    """`stream__late` is in `tests/support/other_dags/late.py`."""
    go = airflow.site.project.root / "go"

    def incident() -> incidents.Incident | None:
        with airflow.registry() as connection:
            return incidents.open_ones(connection).get(("operation", "late"))

    try:
        run = airflow.trigger("stream__late", op="reset")
        airflow.eventually(incident, 400, "the incident")
        found = incident()
        assert found is not None
        assert found.text.startswith("The reset of stream late has not ended after")
        assert found.fields["run"] == run
        go.touch()
        assert airflow.finished("stream__late", run) == "success"
        airflow.trigger("streams_reconcile")  # a pass closes it; the next one by itself may come in a minute
        airflow.eventually(lambda: incident() is None, 400, "the incident to be closed")
    finally:
        go.touch()


def test_a_run_that_does_not_use_a_streams_rows_in_time_is_an_incident_until_it_ends(airflow: AirflowService) -> None:
    """`reports_from_fresh` is in `tests/support/other_dags/fresh.py`; its deadline is one line."""
    go = airflow.site.project.root / "go_fresh"
    with airflow.registry() as connection:
        airflow_service.deploy(connection, "used_late", desired="stopped")
    run = airflow.trigger("reports_from_fresh")

    def incident() -> incidents.Incident | None:
        with airflow.registry() as connection:
            return incidents.open_ones(connection).get(("freshness", f"reports_from_fresh/{run}"))

    try:
        airflow.eventually(incident, 400, "the incident")
        found = incident()
        assert found is not None
        assert found.text.startswith("Dag reports_from_fresh has not used the rows of stream used_late within 1 s")
        assert page_links.run_of("https://a", found).startswith("https://a/dags/reports_from_fresh/runs/")
        go.touch()
        assert airflow.finished("reports_from_fresh", run) == "success"
        airflow.trigger("streams_reconcile")
        airflow.eventually(lambda: incident() is None, 400, "the incident to be closed")
    finally:
        go.touch()
