"""`lakeward lineage` as people call it, with OpenLineage's own file and HTTP transports."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from openlineage.client.transport.http import DEFAULT_RETRY_CONFIG
from openlineage_events import validated
from sqlalchemy import func, select, update

from lakeward.platform import ports
from lakeward.registry import batches, maintenance, streams, verifications
from lakeward.registry.schema import actions
from lakeward.registry.schema import batches as rows_of_batches
from lakeward.registry.schema import streams as rows_of_streams

FLIGHTS, ALERTS = "flights", "delay_alerts"


@pytest.fixture(autouse=True)
def unconfigured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No configuration of the machine's own; the client adds variables of its own to the environment."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    before = dict(os.environ)
    for name in [name for name in before if name.startswith("OPENLINEAGE")]:
        del os.environ[name]
    yield
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        del os.environ[name]
    os.environ |= {name: value for name, value in before.items() if name.startswith("OPENLINEAGE")}


@pytest.fixture(autouse=True)
def healthy(site) -> None:
    """All streams run."""
    set_state(site, "healthy")


def set_state(site, state: str) -> None:
    with site.registry() as connection:
        connection.execute(update(rows_of_streams).values(state=state))


@pytest.fixture
def to_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    file = tmp_path / "lineage.jsonl"
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(file))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    return file


def landed(site, *numbers: int, stream: str = FLIGHTS, ago: timedelta = timedelta(hours=1)) -> None:
    with site.registry() as connection:
        begin = connection.execute(select(func.now())).scalar_one() - ago
        for number in numbers:
            batches.record(
                connection, stream=stream, query_id="q1", batch_id=number, seq=number + 1, generation=1,
                snapshot_id=100 + number, start_offsets={"source": "-"}, consumed=10, landed=9, quarantined=1,
                filtered=0, end_offsets={"source": json.dumps({site.topic: {"0": number * 10 + 10}})}, duration_s=1.0,
                committed_at=begin + timedelta(seconds=number),
            )  # fmt: skip


def observed(site, *tables: str) -> None:
    with site.registry() as connection:
        for table in tables:
            maintenance.register(
                connection, table, format="iceberg", location=f"file:/lake/{table}", table_class="append-stream"
            )


def events(file: Path) -> list[dict]:
    return [validated(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_without_a_configuration_it_says_what_to_set(site):
    answer = site.lakeward("lineage", "send")
    assert answer.code == 2
    assert "OPENLINEAGE_URL" in answer.err
    status = site.lakeward("lineage", "status", "-o", "json")
    assert status.json == {
        "configured": False, "namespace": "lakeward", "passed_at": None, "failure": None, "streams": [],
    }  # fmt: skip


def test_batches_are_sent_once_with_the_demos_own_streams(site, to_file):
    observed(site, "nyc.flights", "nyc.flights_quarantine")
    landed(site, 0, 1)
    first = site.lakeward("lineage", "send", "-o", "json")
    assert (first.code, first.json["events"], first.json["failure"]) == (0, 2, None), first.err
    start, running = events(to_file)
    assert (start["eventType"], running["eventType"]) == ("START", "RUNNING")
    assert running["job"]["name"] == FLIGHTS
    # Of a stream that was never sent, only the newest batch is: its history before is not replayed.
    assert running["run"]["facets"]["lakeward_batches"]["fromSeq"] == 2
    assert running["inputs"][0]["name"] == site.topic
    assert site.lakeward("lineage", "send", "-o", "json").json["events"] == 0
    landed(site, 2)
    set_state(site, "stopped")
    assert site.lakeward("lineage", "send", "-o", "json").json["events"] == 2
    assert [event["eventType"] for event in events(to_file)] == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    (shown,) = site.lakeward("lineage", "status", "-o", "json").json["streams"]
    assert (shown["stream"], shown["open"], shown["generation"]) == (FLIGHTS, False, 1)


def test_a_batch_that_may_still_have_an_older_neighbour_waits(site, to_file):
    observed(site, "nyc.flights", "nyc.flights_quarantine")
    landed(site, 0, ago=timedelta(seconds=1))
    assert site.lakeward("lineage", "send", "-o", "json").json["events"] == 0


def test_a_table_that_was_not_observed_yet_holds_up_its_own_stream_alone(site, to_file):
    landed(site, 0)
    landed(site, 0, stream=ALERTS)
    answer = site.lakeward("lineage", "send", "-o", "json")
    assert answer.json["waiting"] == {FLIGHTS: "the address of sink is not known yet"}
    assert {event["job"]["name"] for event in events(to_file)} == {ALERTS}


def test_compaction_and_checks_are_runs_on_the_same_dataset(site, to_file):
    observed(site, "nyc.flights")
    assert site.lakeward("lineage", "send", "-o", "json").json["events"] == 0  # what was before is not sent
    with site.registry() as connection:
        begun = maintenance.begin_action(
            connection, plan="p", table="nyc.flights", action="compact", session_id=None, before={"snapshot_id": 7}
        )
        maintenance.finish_action(connection, begun, result="done", verified=True, after={"snapshot_id": 8})
        refused = maintenance.begin_action(
            connection, plan="p", table="nyc.flights", action="expire", session_id=None, before={}
        )
        maintenance.finish_action(connection, refused, result="refused", why="a reader is behind")
        moment = connection.execute(select(func.now())).scalar_one()
        verifications.record(
            connection,
            {
                "run": "r1", "table": "nyc.flights", "suite": "d", "scope": "increment", "at": moment,
                "from_snapshot": 7, "to_snapshot": 8, "to_sequence": 2, "to_commit": None, "verdict": "hold",
                "first_bad_snapshot": 8, "verified_snapshot": 7, "batches": None, "spark_jobs": 1, "duration_s": 2.0,
                "note": "", "cpu_s": None,
            },
            [
                {"check": "c1", "expectation": "expect_column_values_to_not_be_null", "severity": "critical",
                 "state": "fail", "observed": {"kwargs": {"column": "carrier"}}, "unexpected_count": 3,
                 "sample": [{"carrier": "canary"}]},
                {"check": "c2", "expectation": "expect_table_row_count_to_be_between", "severity": "warning",
                 "state": "pass", "observed": {"kwargs": {}}, "unexpected_count": None, "sample": None},
                {"check": "c3", "expectation": "expect_column_to_exist", "severity": "info", "state": "skipped",
                 "observed": None, "unexpected_count": None, "sample": None},
            ],
        )  # fmt: skip
    age(site)
    assert site.lakeward("lineage", "send", "-o", "json").json["events"] == 4
    compact, checks = events(to_file)[1], events(to_file)[3]
    assert (compact["job"]["name"], compact["eventType"]) == ("nyc.flights.compact", "COMPLETE")
    assert compact["inputs"][0]["facets"]["version"]["datasetVersion"] == "7"
    assert compact["outputs"][0]["facets"]["version"]["datasetVersion"] == "8"
    assert (checks["job"]["name"], checks["eventType"]) == ("nyc.flights.checks", "COMPLETE")
    (read,) = checks["inputs"]
    assert (read["namespace"], read["name"]) == (compact["inputs"][0]["namespace"], compact["inputs"][0]["name"])
    assertions = read["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert [(item["assertion"], item["success"], item.get("column"), item["severity"]) for item in assertions] == [
        ("expect_column_values_to_not_be_null", False, "carrier", "error"),
        ("expect_table_row_count_to_be_between", True, None, "warn"),
    ]
    assert "canary" not in to_file.read_text()
    assert site.lakeward("lineage", "send", "-o", "json").json["events"] == 0


def age(site) -> None:
    """Everything in the ledgers happened a minute earlier, the last pass too."""
    from lakeward.registry.schema import ticks
    from lakeward.registry.schema import verifications as runs

    minute = timedelta(minutes=1)
    with site.registry() as connection:
        connection.execute(
            update(actions).values(started_at=actions.c.started_at - minute, finished_at=actions.c.finished_at - minute)
        )
        connection.execute(update(runs).values(at=runs.c.at - minute))
        for name in ("actions", "checks"):
            mark = connection.execute(select(ticks.c.detail)).scalar_one()
            mark[name]["at"] = "2020-01-01T00:00:00+00:00"
            connection.execute(update(ticks).values(detail=mark))


def test_a_backend_that_is_away_loses_nothing(site, monkeypatch):
    observed(site, "nyc.flights", "nyc.flights_quarantine")
    landed(site, 0)
    port = ports.any_free()
    monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setitem(DEFAULT_RETRY_CONFIG, "total", 0)  # a variable of the transport would replace the URL
    away = site.lakeward("lineage", "send", "-o", "json")
    assert away.code == 3
    assert "did not take the events" in away.err
    assert site.lakeward("lineage", "status", "-o", "json").json["failure"]
    received: list[dict] = []

    class Backend(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_):
            """Nothing is printed."""

    with HTTPServer(("127.0.0.1", port), Backend) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            back = site.lakeward("lineage", "send", "-o", "json")
        finally:
            server.shutdown()
            thread.join()
    assert (back.code, back.json["events"]) == (0, 2), back.err
    assert [validated(json.dumps(event))["eventType"] for event in received] == ["START", "RUNNING"]
    assert site.lakeward("lineage", "status", "-o", "json").json["failure"] is None


def test_two_processes_do_not_send_the_same(site, to_file):
    from lakeward.lineage import emit
    from lakeward.registry import leases

    observed(site, "nyc.flights", "nyc.flights_quarantine")
    landed(site, 0)
    with site.registry() as connection:
        assert leases.take(connection, *emit.LEASE, "other", "triggerer-2", emit.LEASE_TTL)
    answer = site.lakeward("lineage", "send", "-o", "json")
    assert answer.json == {"events": 0, "waiting": {}, "failure": None, "skipped": True}
    assert events(to_file) == []


def test_a_removed_stream_completes_its_run(site, to_file):
    observed(site, "nyc.flights", "nyc.flights_quarantine")
    landed(site, 0)
    site.lakeward("lineage", "send")
    with site.registry() as connection:
        streams.remove(connection, FLIGHTS)
    assert site.lakeward("lineage", "send", "-o", "json").json["events"] == 1
    assert events(to_file)[-1]["eventType"] == "COMPLETE"


def test_a_row_that_cannot_be_read_costs_no_other_its_events(site, to_file):
    observed(site, "nyc.flights", "nyc.flights_quarantine")
    assert site.lakeward("lineage", "send", "-o", "json").json["events"] == 0  # what was before is not sent
    landed(site, 0)
    landed(site, 0, stream=ALERTS)
    with site.registry() as connection:
        connection.execute(
            update(rows_of_batches).where(rows_of_batches.c.stream == FLIGHTS).values(end_offsets=["no mapping"])
        )
        for before in (["no mapping"], {"snapshot_id": 7}):
            begun = maintenance.begin_action(
                connection, plan="p", table="nyc.flights", action="compact", session_id=None, before={}
            )
            maintenance.finish_action(connection, begun, result="done", verified=True, after={"snapshot_id": 8})
            connection.execute(update(actions).where(actions.c.id == begun).values(before=before))
    age(site)
    answer = site.lakeward("lineage", "send", "-o", "json")
    assert (answer.code, answer.json["events"]) == (0, 4), answer.err
    assert FLIGHTS in answer.json["waiting"]
    assert {event["job"]["name"] for event in events(to_file)} == {ALERTS, "nyc.flights.compact"}
