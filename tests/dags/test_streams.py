"""The stream Dags on a real Airflow: launch, report red and green, stop, start."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import airflow_service
import pyarrow as pa
import pytest
from airflow_service import AirflowService

from lakeward.registry import operations, streams
from lakeward.stack import airflow_config, airflow_pool

pytestmark = pytest.mark.timeout(900)  # the first test boots Airflow


RESET = {"op": "reset", "to": "latest"}
BACKFILL = {"op": "backfill", "from": "earliest", "into": "nyc.refilled_again"}


@contextmanager
def landed_in_part(service: AirflowService, kafka: Any, name: str) -> Iterator[Callable[[], Any]]:
    """A stopped stream of a real topic with three records, of which its table has one; gives its position."""
    from confluent_kafka import Producer
    from pyiceberg.catalog import load_catalog

    from lakeward.connectors.commit_protocol.position import Position, Totals, key
    from lakeward.connectors.iceberg.catalog import pyiceberg_properties
    from lakeward.connectors.iceberg.table import PROPERTIES
    from lakeward.registry import generations
    from lakeward.spec.model.stream import StreamSpec

    topic = kafka.create_topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for _ in range(3):
        producer.produce(topic, b"{}")
    assert producer.flush(30) == 0
    runtime = service.runtime.model_copy(update={"kafka": {**service.runtime.kafka, "real": kafka.bootstrap}})
    service.home.runtime_file.write_text(runtime.model_dump_json())
    spec = StreamSpec.model_validate(
        {
            "id": name,
            "owner": "ops",
            "source": {"kafka": {"topics": [topic], "connection": "real", "max_offsets_per_trigger": 10}},
            "sink": {"iceberg": {"table": f"nyc.{name}"}},
            "lineage": "rows",
        }
    )
    with service.registry() as connection:
        streams.accept(connection, name, generation=1, driver=name, desired="stopped")
        generations.add(
            connection, stream=name, generation=1, spec=spec.document(), digest="d", sql=None, code={},
            versions={}, author="test", checkpoint=name,
        )  # fmt: skip
    catalog = load_catalog("lake", **pyiceberg_properties(runtime.lake, service.site.catalog_pgpass))
    catalog.create_namespace_if_not_exists("nyc")
    table = catalog.create_table(
        f"nyc.{name}",
        pa.schema([("_kafka_topic", pa.string()), ("_kafka_partition", pa.int32()), ("_kafka_offset", pa.int64())]),
        properties=dict(PROPERTIES),  # without them maintenance is due, and runs without a Connect server in vain
    )
    landed = Position(
        seq=1, query_id="q", batch=0, end={"source": json.dumps({topic: {"0": 1}})},
        begin={"source": json.dumps({topic: {"0": 0}})}, totals=Totals(consumed=1, landed=1),
    )  # fmt: skip
    with table.transaction() as change:
        change.set_properties({key(name): landed.to_json()})
    yield lambda: Position.model_validate_json(table.refresh().properties[key(name)])
    catalog.drop_table(f"nyc.{name}")  # other tests count the tables of this lake


@pytest.fixture(scope="module")
def moved(airflow: AirflowService, kafka: Any) -> Iterator[Callable[[], Any]]:
    """The position of `moved`, which is reset."""
    with landed_in_part(airflow, kafka, "moved") as position:
        yield position


@pytest.fixture(scope="module")
def refilled(airflow: AirflowService, kafka: Any) -> Iterator[tuple[Any, Callable[[], Any]]]:
    """The position of `refilled`, whose range is landed again in another table: at first, and now."""
    with landed_in_part(airflow, kafka, "refilled") as position:
        yield position(), position


@pytest.fixture(scope="module")
def begun(airflow: AirflowService, moved: Any, refilled: Any) -> Iterator[dict[str, str]]:
    """Runs on a stream for each test, triggered at once, so that no test waits for them alone: name -> run."""
    with airflow.registry() as connection:
        airflow_service.deploy(connection, "operated", "contested", "hourly", desired="stopped")
        ticket = operations.begin(
            connection, "contested", "upgrade", author="bob", holder="bob's shell", token="t", comment="new SQL"
        )
    first: dict[str, tuple[str, dict[str, Any]]] = {
        "backfill": ("stream__refilled", {**BACKFILL, "comment": "once more"}),
        "silent backfill": ("stream__refilled", BACKFILL),
        "schedule": ("schedule__hourly", {}),
        "start": ("stream__operated", {"op": "start", "comment": "the first day"}),
        "refused": ("stream__contested", {"op": "stop"}),
        "silent reset": ("stream__moved", RESET),
        "rejected reset": ("stream__moved", {**RESET, "comment": "old news"}),
        "approved reset": ("stream__moved", {**RESET, "comment": "old news"}),
    }
    yield {name: airflow.trigger(dag, **params) for name, (dag, params) in first.items()}
    with airflow.registry() as connection:
        operations.end(connection, ticket, "done", "")


@pytest.fixture(scope="module")
def landing(airflow: AirflowService, begun: dict[str, str]) -> Iterator[AirflowService]:
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


def reported(service: AirflowService, stream: str) -> bool:
    """Whether a stream is healthy, its newest report says so, and no report is on its way."""
    if service.stream(stream).state != "healthy":
        return False
    states = [run["state"] for run in reports(service, stream)]
    return states[:1] == ["success"] and {*states} <= {"success", "failed"}


def test_no_dag_file_failed(landing: AirflowService) -> None:
    assert landing.call("GET", "/importErrors").json()["import_errors"] == []


def test_a_slot_is_kept_for_the_pass_and_what_somebody_chose_stays(landing: AirflowService) -> None:
    def slots(pool: str) -> int:
        return int(landing.call("GET", f"/pools/{pool}").json()["slots"])

    def choose(number: int) -> None:
        pool = {"pool": "default_pool", "slots": number}
        assert (
            landing.call("PATCH", "/pools/default_pool", params={"update_mask": "slots"}, json=pool).status_code == 200
        )

    newest = next(run for run in landing.runs("streams_reconcile") if run["state"] == "success")
    task = landing.call("GET", f"/dags/streams_reconcile/dagRuns/{newest['dag_run_id']}/taskInstances/reconcile").json()
    assert (task["pool"], slots(task["pool"])) == (airflow_pool.NAME, 1)
    assert slots("default_pool") == airflow_config.PARALLELISM - 1
    choose(2)
    airflow_pool.ensure(landing.site)
    assert slots("default_pool") == 2
    choose(airflow_config.PARALLELISM - 1)


def test_the_driver_knows_nothing_of_airflow(landing: AirflowService) -> None:
    driver = landing.driver("nyc")
    environment = json.loads((Path(driver.log) / "environment.json").read_text())
    assert set(environment) <= {"PATH", "HOME", "LANG", "JAVA_HOME", "PGPASSFILE", "LC_CTYPE"}
    assert os.getsid(driver.handle["pid"]) == driver.handle["pid"]


def test_a_killed_driver_comes_back_with_a_red_report_and_then_a_green_one(landing: AirflowService) -> None:
    # A report that is still queued would be the red one.
    landing.eventually(lambda: reported(landing, "flights"), 400, "a green report")
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
    assert "\ndata lost?   YES" in told, "the registry saw batches, and here is no table that has them"
    assert "\nnext " in told


def test_a_report_reads_line_by_line_links_to_the_spark_ui_and_changes_nothing(landing: AirflowService) -> None:
    landing.eventually(lambda: landing.stream("alerts").state == "healthy", 400, "alerts to be healthy")
    before = landing.driver("nyc").token
    run = landing.trigger("stream__alerts", op="report")
    assert landing.finished("stream__alerts", run) == "success"
    told = landing.log("stream__alerts", run, "operate")
    words = ("alerts is HEALTHY for", "\ndata lost?", "\nlast commit", "\nlag ", "\nrestarts ", "\nlast 6 h", "\nnext ")
    places = [told.index(word) for word in words]
    assert places == sorted(places)
    assert landing.driver("nyc").token == before
    assert landing.call("GET", "/plugins/importErrors").json()["import_errors"] == []
    links = landing.call("GET", f"/dags/stream__alerts/dagRuns/{run}/taskInstances/operate/links").json()
    assert links["extra_links"] == {
        "Spark UI": "http://127.0.0.1:4040",
        "Lakehouse": f"{landing.url}/plugin/lakeward?tab=streams&open=alerts",
    }


def test_a_blocked_stream_is_red_and_says_what_to_do(landing: AirflowService) -> None:
    with landing.registry() as connection:
        reason = {"reason": "rolled-back", "what": "the table was rolled back under the stream", "why": "10 rows"}
        streams.block(connection, "alerts", {**reason, "next": "lakeward streams status alerts"})
    try:
        run = landing.trigger("stream__alerts", op="report")
        assert landing.finished("stream__alerts", run) == "failed"
        told = landing.log("stream__alerts", run, "operate")
        assert "BLOCKED" in told
        assert "\ndata lost?   YES: landed rows are missing from the table until a person acts" in told
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


def test_start_and_stop_are_finite_and_tell_what_happened(airflow: AirflowService, begun: dict[str, str]) -> None:
    started = begun["start"]
    assert airflow.finished("stream__operated", started, 400) == "success"
    assert airflow.stream("operated").desired == "running"
    assert airflow.running("operated")
    assert "started in" in airflow.log("stream__operated", started, "operate")
    stopped = airflow.trigger("stream__operated", op="stop", comment="the last day")
    assert airflow.finished("stream__operated", stopped, 400) == "success"
    airflow.eventually(lambda: not airflow.running("operated"), 400, "the driver to end")
    with airflow.registry() as connection:
        from lakeward.registry import changes

        assert [(item.operation, item.result) for item in operations.newest(connection, "operated")] == [
            ("stop", "done"),
            ("start", "done"),
        ]
        assert changes.newest(connection, "stream", "operated")[0].author == "admin"
        assert changes.newest(connection, "stream", "operated")[0].comment == "the last day"


def test_a_second_operation_is_refused_with_the_name_of_the_first(
    airflow: AirflowService, begun: dict[str, str]
) -> None:
    run = begun["refused"]
    assert airflow.finished("stream__contested", run, 400) == "failed"
    told = airflow.log("stream__contested", run, "operate")
    assert "executes the upgrade requested by bob" in told


def test_a_reset_shows_its_range_waits_for_a_yes_and_keeps_who_gave_it(
    airflow: AirflowService, begun: dict[str, str], moved: Any
) -> None:
    def asked(run: str) -> list[dict]:
        return airflow.call("GET", f"/dags/stream__moved/dagRuns/{run}/hitlDetails").json()["hitl_details"]

    def answer(run: str, word: str) -> str:
        airflow.eventually(lambda: asked(run), 400, "the question")
        # Airflow fails a task whose answer comes before its scheduler has seen the question's process end.
        ended = re.compile(f"Received executor event .*run_id='{re.escape(run)}'")
        scheduler = airflow.home.root / "logs" / "airflow-scheduler.log"
        airflow.eventually(lambda: ended.search(scheduler.read_text()), 400, "the question's process to be seen ended")
        assert "2 records skipped" in asked(run)[0]["body"]
        assert moved().seq == 1
        path = f"/dags/stream__moved/dagRuns/{run}/taskInstances/operate/-1/hitlDetails"
        said = airflow.call("PATCH", path, json={"chosen_options": [word], "params_input": {}})
        assert said.status_code == 200, said.text
        return airflow.finished("stream__moved", run, 400)

    silent = begun["silent reset"]
    assert answer(begun["rejected reset"], "Reject") == "failed"
    assert airflow.finished("stream__moved", silent, 400) == "failed"
    assert "needs a comment" in airflow.log("stream__moved", silent, "operate")
    assert moved().seq == 1
    assert answer(begun["approved reset"], "Approve") == "success"
    assert (moved().seq, moved().totals.skipped) == (2, 2)
    with airflow.registry() as connection:
        newest = operations.newest(connection, "moved")[0]
    assert (newest.result, newest.approved_by, newest.comment) == ("done", "admin", "old news")


def test_a_backfill_works_in_a_process_of_its_own_and_goes_on_when_triggered_again(
    airflow: AirflowService, begun: dict[str, str], refilled: Any
) -> None:
    from pyiceberg.catalog import load_catalog

    from lakeward.connectors.iceberg.catalog import pyiceberg_properties
    from lakeward.registry import changes

    catalog = load_catalog("lake", **pyiceberg_properties(airflow.runtime.lake, airflow.site.catalog_pgpass))
    silent, run = begun["silent backfill"], begun["backfill"]
    assert airflow.finished("stream__refilled", silent, 400) == "failed"
    assert "needs a comment" in airflow.log("stream__refilled", silent, "operate")
    try:
        assert airflow.finished("stream__refilled", run, 600) == "success", airflow.log(
            "stream__refilled", run, "operate"
        )
        told = airflow.log("stream__refilled", run, "operate")
        assert "3 rows of 3 records landed in nyc.refilled_again" in told
        # Not cleared: for a failed run whose deadline is open Airflow 3.3 answers 500 (apache/airflow #70368).
        again = airflow.trigger("stream__refilled", **BACKFILL, comment="once more")
        assert airflow.finished("stream__refilled", again, 600) == "success"
        assert "nyc.refilled_again already has the range" in airflow.log("stream__refilled", again, "operate")
        assert catalog.load_table("nyc.refilled_again").scan().count() == 3
    finally:
        catalog.drop_table("nyc.refilled_again")
    before, now = refilled
    assert now() == before, "the stream's own position stays"
    with airflow.registry() as connection:
        newest = changes.newest(connection, "stream", "refilled")[0]
    assert (newest.change, newest.author, newest.comment) == ("backfill", "admin", "once more")


def test_reports_of_a_paused_dag_are_not_queued_for_ever(airflow: AirflowService) -> None:
    with airflow.registry() as connection:
        airflow_service.deploy(connection, "muted", desired="stopped")
    airflow.call("PATCH", "/dags/stream__muted", json={"is_paused": True})
    with airflow.registry() as connection:
        streams.set_state(connection, "muted", "blocked", "a test")
        streams.block(connection, "muted", {"reason": "gap", "what": "a test", "why": "", "next": ""})
    for _ in range(2):
        assert airflow.finished("streams_reconcile", airflow.trigger("streams_reconcile")) == "success"
    assert airflow.runs("stream__muted") == []


def test_a_run_of_a_schedule_waits_until_all_has_landed_and_is_red_when_it_cannot(
    airflow: AirflowService, begun: dict[str, str]
) -> None:
    run = begun["schedule"]
    assert airflow.finished("schedule__hourly", run, 400) == "success"
    told = airflow.log("schedule__hourly", run, "run")
    assert "scheduled run completed" in told and "completed: 1 batch, 3 rows" in told
    assert "hourly is COMPLETED" in told
    assert airflow.stream("hourly").desired == "stopped"
    airflow.eventually(lambda: not airflow.running("hourly"), 400, "the driver to end")
    with airflow.registry() as connection:
        streams.block(connection, "hourly", {"reason": "gap", "what": "a hole", "why": "", "next": "look"})
    red = airflow.trigger("schedule__hourly")
    assert airflow.finished("schedule__hourly", red, 400) == "failed"
    assert "a hole" in airflow.log("schedule__hourly", red, "run")
