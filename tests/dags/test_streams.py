"""The stream Dags on a real Airflow: launch, report red and green, stop, start."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import airflow_service
import pytest
from airflow_service import AirflowService

from lakeward.registry import streams

pytestmark = pytest.mark.timeout(900)  # the first test boots Airflow


@pytest.fixture(scope="module")
def landing(airflow: AirflowService) -> Iterator[AirflowService]:
    """Two streams on one driver that Airflow launched by itself."""
    with airflow.registry() as connection:
        airflow_service.deploy(connection, "flights", "alerts")
    airflow.eventually(lambda: airflow.running("nyc"), 400, "the driver to be launched")
    airflow.eventually(lambda: airflow.stream("flights").state == "healthy", 400, "flights to be healthy")
    yield airflow
    with airflow.registry() as connection:
        streams.set_desired(connection, ["flights", "alerts"], "stopped")


def kill(service: AirflowService, name: str) -> None:
    with suppress(ProcessLookupError):
        os.killpg(service.driver(name).handle["pid"], signal.SIGKILL)


def reports(service: AirflowService, stream: str) -> list[dict]:
    return [run for run in service.runs(f"stream__{stream}") if run["conf"].get("op") == "report"]


def test_no_dag_file_failed(landing: AirflowService) -> None:
    assert landing.call("GET", "/importErrors").json()["import_errors"] == []


def test_the_driver_knows_nothing_of_airflow(landing: AirflowService) -> None:
    driver = landing.driver("nyc")
    environment = json.loads((Path(driver.log) / "environment.json").read_text())
    assert set(environment) <= {"PATH", "HOME", "LANG", "JAVA_HOME", "PGPASSFILE", "LC_CTYPE"}
    assert os.getsid(driver.handle["pid"]) == driver.handle["pid"]


def test_a_killed_driver_comes_back_with_a_red_report_and_then_a_green_one(landing: AirflowService) -> None:
    landing.eventually(lambda: landing.stream("flights").state == "healthy", 400, "flights to be healthy")
    known = {run["dag_run_id"] for run in reports(landing, "flights")}
    before = landing.driver("nyc")
    kill(landing, "nyc")
    landing.eventually(
        lambda: landing.driver("nyc").token != before.token and landing.running("nyc"), 400, "a new launch"
    )

    def fresh(state: str) -> list[dict]:
        return [run for run in reports(landing, "flights") if run["dag_run_id"] not in known and run["state"] == state]

    landing.eventually(lambda: fresh("failed"), 400, "a red report")
    landing.eventually(lambda: fresh("success"), 400, "a green report")
    red, green = fresh("failed")[0], fresh("success")[0]
    assert red["start_date"] < green["start_date"]
    told = landing.log("stream__flights", red["dag_run_id"], "operate")
    assert "RESTARTING" in told
    assert "nothing is lost" in told
    assert "Next:" in told


def test_a_report_reads_line_by_line_and_changes_nothing(landing: AirflowService) -> None:
    landing.eventually(lambda: landing.stream("alerts").state == "healthy", 400, "alerts to be healthy")
    before = landing.driver("nyc").token
    run = landing.trigger("stream__alerts", op="report")
    assert landing.finished("stream__alerts", run) == "success"
    told = landing.log("stream__alerts", run, "operate")
    places = [told.index(word) for word in ("HEALTHY since", "Data: ", "Landed: ", "Waiting: ", "Restarts: ", "Next: ")]
    assert places == sorted(places)
    assert landing.driver("nyc").token == before


def test_a_run_links_to_the_spark_ui_of_its_driver(landing: AirflowService) -> None:
    assert landing.call("GET", "/plugins/importErrors").json()["import_errors"] == []
    run = landing.trigger("stream__alerts", op="report")
    landing.finished("stream__alerts", run)
    links = landing.call("GET", f"/dags/stream__alerts/dagRuns/{run}/taskInstances/operate/links").json()
    assert links["extra_links"] == {"Spark UI": "http://127.0.0.1:4040"}


def test_a_blocked_stream_is_red_and_says_what_to_do(landing: AirflowService) -> None:
    with landing.registry() as connection:
        reason = {"reason": "rolled-back", "what": "the table was rolled back under the stream", "why": "10 rows"}
        streams.block(connection, "alerts", {**reason, "next": "lakeward streams status alerts"})
    try:
        run = landing.trigger("stream__alerts", op="report")
        assert landing.finished("stream__alerts", run) == "failed"
        told = landing.log("stream__alerts", run, "operate")
        assert "BLOCKED" in told
        assert "DATA IS LOST FROM THE TABLE" in told
        assert "lakeward streams status alerts" in told
    finally:
        with landing.registry() as connection:
            streams.set_desired(connection, ["alerts"], "running")


def test_parameters_are_checked_before_anything_happens(landing: AirflowService) -> None:
    answer = landing.call(
        "POST", "/dags/stream__flights/dagRuns", json={"logical_date": None, "conf": {"op": "explode"}}
    )
    assert answer.status_code == 400
    assert "op" in answer.text


def test_start_and_stop_are_finite_and_tell_what_happened(airflow: AirflowService) -> None:
    with airflow.registry() as connection:
        airflow_service.deploy(connection, "operated", desired="stopped")
    started = airflow.trigger("stream__operated", op="start", comment="the first day")
    assert airflow.finished("stream__operated", started, 400) == "success"
    assert airflow.stream("operated").desired == "running"
    assert airflow.running("operated")
    assert "started in" in airflow.log("stream__operated", started, "operate")
    stopped = airflow.trigger("stream__operated", op="stop", comment="the last day")
    assert airflow.finished("stream__operated", stopped, 400) == "success"
    airflow.eventually(lambda: not airflow.running("operated"), 400, "the driver to end")
    with airflow.registry() as connection:
        from lakeward.registry import changes, operations

        assert [(item["operation"], item["result"]) for item in operations.newest(connection, "operated")] == [
            ("stop", "done"),
            ("start", "done"),
        ]
        assert changes.newest(connection, "stream", "operated")[0]["author"] == "admin"
        assert changes.newest(connection, "stream", "operated")[0]["comment"] == "the last day"
