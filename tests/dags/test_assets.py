"""Other Dags wait for streams: asset events of a real Airflow, emitted by streams_reconcile."""

from __future__ import annotations

from datetime import UTC, datetime

import airflow_service
import pytest
from airflow_service import AirflowService

from lakeward.registry import observations, streams

pytestmark = pytest.mark.timeout(900)  # the first test boots Airflow


@pytest.fixture(scope="module")
def waiting(airflow: AirflowService) -> AirflowService:
    """The stream `awaited`, stopped; the two Dags of `tests/support/other_dags/waits.py` wait for it."""
    with airflow.registry() as connection:
        airflow_service.deploy(connection, "awaited", desired="stopped")
        observations.record(connection, "awaited", complete_through=datetime(2026, 1, 1, 5, 30, tzinfo=UTC))
    reconcile(airflow)  # the stream is seen for the first time: its past is nobody's event
    return airflow


def reconcile(service: AirflowService) -> None:
    assert service.finished("streams_reconcile", service.trigger("streams_reconcile")) == "success"


def heard(service: AirflowService, what: str) -> list[dict]:
    return [run for run in service.runs(f"waits_for_{what}") if run["state"] == "success"]


def test_a_dag_waits_for_an_hour_to_be_final_and_hears_of_it_once(waiting: AirflowService) -> None:
    with waiting.registry() as connection:
        observations.record(connection, "awaited", complete_through=datetime(2026, 1, 1, 7, 10, tzinfo=UTC))
    reconcile(waiting)
    waiting.eventually(lambda: heard(waiting, "hour"), 400, "the hour to be heard of")
    (run,) = heard(waiting, "hour")
    events = waiting.call("GET", f"/dags/waits_for_hour/dagRuns/{run['dag_run_id']}/upstreamAssetEvents").json()
    (event,) = events["asset_events"]
    assert event["uri"] == "lakeward://stream/awaited/hour"
    assert event["extra"] == {
        "stream": "awaited",
        "from": "2026-01-01T05:00:00+00:00",
        "to": "2026-01-01T07:00:00+00:00",
    }
    reconcile(waiting)
    assert len(waiting.runs("waits_for_hour")) == 1


def test_a_dag_hears_that_a_stream_is_blocked(waiting: AirflowService) -> None:
    before = len(heard(waiting, "state"))
    with waiting.registry() as connection:
        streams.block(connection, "awaited", {"reason": "gap", "what": "offsets are missing", "why": "", "next": ""})
    try:
        waiting.eventually(lambda: len(heard(waiting, "state")) > before, 400, "the state to be heard of")
        run = heard(waiting, "state")[0]
        events = waiting.call("GET", f"/dags/waits_for_state/dagRuns/{run['dag_run_id']}/upstreamAssetEvents").json()
        assert "blocked" in {event["extra"]["state"] for event in events["asset_events"]}
    finally:
        with waiting.registry() as connection:
            streams.set_desired(connection, ["awaited"], "running")
            streams.set_desired(connection, ["awaited"], "stopped")
