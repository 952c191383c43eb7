from __future__ import annotations

from datetime import timedelta

import pytest

from lakeward.airflow import deadlines
from lakeward.platform.errors import SpecError
from lakeward.registry import engine, incidents

RUN = {
    "dag_id": "stream__flights", "dag_run_id": "manual__1", "conf": {"op": "reset"}, "triggering_user_name": "ann",
}  # fmt: skip


@pytest.fixture
def connected(postgres, own_registry_url):
    return lambda: engine.connect(own_registry_url, postgres.pgpass)


def open_ones(connected) -> dict:
    with connected() as connection:
        return incidents.open_ones(connection)


@pytest.mark.parametrize("ended", ["success", "failed", None])
def test_an_operation_that_takes_too_long_is_one_incident_until_its_run_ends(connected, ended) -> None:
    deadlines.late(connected, RUN)
    deadlines.late(connected, RUN)
    (incident,) = open_ones(connected).values()
    assert incident.text == "The reset of stream flights has not ended after 20 min (requested by ann)"
    assert "approval" in incident.fields["next"]
    asked = []

    def state(dag: str, run: str) -> str | None:
        asked.append((dag, run))
        return "running" if len(asked) == 1 else ended

    deadlines.close_ended(connected, state)
    assert len(open_ones(connected)) == 1
    deadlines.close_ended(connected, state)
    assert open_ones(connected) == {}
    assert asked == [("stream__flights", "manual__1")] * 2


def test_other_incidents_are_not_asked_for(connected) -> None:
    with connected() as connection:
        incidents.opened(connection, "stream", "flights", "flights is blocked")
    deadlines.close_ended(connected, lambda *_: pytest.fail("a run was asked for"))
    assert len(open_ones(connected)) == 1


REPORT = {"dag_id": "report", "dag_run_id": "asset__1", "conf": {}}


def test_rows_that_are_not_used_in_time_are_one_incident_until_that_run_ends(connected) -> None:
    deadlines.not_used(connected, REPORT, "flights", 1800)
    (incident,) = open_ones(connected).values()
    assert incident.text == (
        "Dag report has not used the rows of stream flights within 30 min: its run asset__1 has not ended; "
        "the stream does not exist"
    )
    assert (incident.kind, incident.streams) == ("freshness", ["flights"])
    asked = []

    def state(dag: str, run: str) -> str | None:
        asked.append((dag, run))
        return "running" if len(asked) == 1 else "success"

    deadlines.close_ended(connected, state)
    assert len(open_ones(connected)) == 1
    deadlines.close_ended(connected, state)
    assert open_ones(connected) == {}
    assert asked == [("report", "asset__1")] * 2


def test_a_deadline_of_no_time_is_refused_with_an_example() -> None:
    with pytest.raises(SpecError, match="LW-2527"):
        deadlines.freshness("flights", within=timedelta())


def test_a_deadline_has_a_name_where_airflow_knows_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow 3.2 refuses the name, and with it the Dag."""
    made = deadlines.freshness("orders", within=timedelta(minutes=5))
    assert getattr(made, "name", "orders").count("orders")
    given = []
    monkeypatch.setattr(deadlines, "_NAMED", False)
    monkeypatch.setattr(deadlines, "DeadlineAlert", lambda **words: given.append(set(words)))
    deadlines.of_operations()
    deadlines.freshness("orders", within=timedelta(minutes=5))
    assert given == [{"reference", "interval", "callback"}] * 2
