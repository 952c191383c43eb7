"""The Dag of a stream's schedule, and what its task does before and after the wait."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow import schedule_dags
from lakeward.airflow.completion import CompletionTrigger
from lakeward.airflow.dag_summary import DagSummary, Declared
from lakeward.airflow.project import named, scheduled
from lakeward.airflow.schedule_dags import RunToEnd, build

GLANCE = DagSummary(
    owner="ops", team=None, tags=(), sources=(("source", "kafka"),), sink="nyc.flights", sink_connector="iceberg",
    sink_mode="append", every="", driver="nyc", stall="5 min", schedule="0 * * * *",
)  # fmt: skip


def test_only_streams_with_a_schedule_have_one() -> None:
    always = DagSummary(**{**vars(GLANCE), "schedule": None})
    found = [Declared("a", "a.yaml", GLANCE, ()), Declared("b", "b.yaml", always, ()), Declared("c", "c", None, ("x",))]
    assert [each.id for each in scheduled(found)] == ["a"]


def test_runs_neither_overlap_nor_catch_up() -> None:
    dag = build(Declared("flights", "conf/streams/flights.yaml", GLANCE, ()))
    assert (dag.dag_id, dag.max_active_runs, dag.catchup) == ("schedule__flights", 1, False)
    assert dag.schedule == "0 * * * *"


def test_a_task_builds_it_by_its_name_alone() -> None:
    dag = build(named("flights"))
    assert (dag.dag_id, list(dag.task_ids)) == ("schedule__flights", ["run"])


def test_what_airflow_refuses_is_said_in_a_dag_of_that_name() -> None:
    refused = DagSummary(**{**vars(GLANCE), "tags": ("x" * 101,)})
    dag = build(Declared("flights", "conf/streams/flights.yaml", refused, ()))
    assert dag.dag_id == "schedule__flights"
    assert "Airflow refuses this stream's values: tag cannot be longer" in str(dag.doc_md)


def test_the_wait_survives_being_stored() -> None:
    path, arguments = CompletionTrigger("flights", "2026-03-01T03:00:00+00:00").serialize()
    assert path == "lakeward.airflow.completion.CompletionTrigger"
    assert CompletionTrigger(**arguments).serialize() == (path, arguments)


@pytest.mark.parametrize("well", [True, False])
def test_it_is_red_when_not_all_has_landed(well: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_dags, "block", lambda stream: ())  # how the stream is, for the log: needs a registry
    task = RunToEnd(task_id="run", stream="flights")
    if well:
        task.completed({}, {"well": well, "text": "completed: 1 batch, 3 rows"})
        return
    with pytest.raises(AirflowFailException, match="it waits for a person"):
        task.completed({}, {"well": well, "text": "it waits for a person: a hole"})
