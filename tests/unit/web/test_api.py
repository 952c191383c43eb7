"""The page's API over HTTP, on a real registry; the gate stands in for Airflow's permissions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Set
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import HTTPException
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from jsonschema import Draft202012Validator
from sqlalchemy import update

from lakeward.cli.output import json_text
from lakeward.platform.runtime import Runtime
from lakeward.quality.ranges.verification_lag import Lag
from lakeward.quality.results.status import ProofStatus
from lakeward.registry import (
    batches,
    changes,
    generations,
    incidents,
    lag_history,
    maintenance,
    observations,
    streams,
    verifications,
)
from lakeward.registry.schema import streams as rows_of_streams
from lakeward.supervision import late_proofs
from lakeward.supervision.presence import Presence
from lakeward.web.app import CLOSED, DOCUMENTS, Gate, build, routes
from lakeward.web.body import EXACT, encode
from lakeward.web.cached import Cache
from lakeward.web.reads import MayRead, Reads

OPENAPI = json.loads((Path(__file__).parents[3] / "docs" / "reference" / "openapi.json").read_text())
FLIGHTS = "flights"
BIG = 7_234_567_890_123_456_789


class Caller:
    """Who asks: which Dags they may read, and whether they may operate."""

    def __init__(self) -> None:
        self.hidden: set[str] = set()
        self.operator = True
        self.questions = 0

    def gate(self) -> Gate:
        return Gate(lambda: None, self.may_read, self.operate)

    def may_read(self) -> MayRead:
        def readable(dags: Iterable[str]) -> Set[str]:
            self.questions += 1
            return {dag for dag in dags if dag not in self.hidden}

        return readable

    def operate(self, dag_id: str) -> str:
        if not self.operator or dag_id in self.hidden:
            raise HTTPException(403)
        return "ada"


@pytest.fixture
def caller() -> Caller:
    return Caller()


@pytest.fixture
def client(site, caller: Caller) -> TestClient:
    return TestClient(build(Reads(lambda: site.runtime), caller.gate()))


def asked(client: TestClient, path: str) -> Any:
    """The document, which is as the reference says."""
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    for template, operations in OPENAPI["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), f"/api/v1/{path.partition('?')[0]}"):
            schema = operations["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            Draft202012Validator({**schema, "components": OPENAPI["components"]}).validate(found)
            return found
    pytest.fail(f"{path} is not in the reference")


def test_without_a_gate_every_route_is_refused() -> None:
    client = TestClient(build(Reads(lambda: pytest.fail("nothing is read"))))
    known = [route for route in routes.routes if isinstance(route, APIRoute)]
    assert len(known) > 8
    for route in known:
        for method in route.methods:
            path = route.path.format(stream="s", table="t", dag_id="stream__s")
            assert client.request(method, path, json={"op": "start"}).status_code == 403, path
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert client.get(path).status_code == 404


def test_no_route_changes_anything_by_get_and_each_has_a_document() -> None:
    for route in routes.routes:
        assert isinstance(route, APIRoute)
        assert route.name in DOCUMENTS
        assert route.methods in ({"GET"}, {"POST"})
        if "POST" in route.methods:
            assert CLOSED.operate in {item.call for item in route.dependant.dependencies}
        else:
            assert CLOSED.may_read in {item.call for item in route.dependant.dependencies}


def test_a_stream_has_the_document_of_streams_status(site, client) -> None:
    listed = asked(client, "streams")
    by_command = site.lakeward("streams", "list", "-o", "json").json["streams"]
    assert {row["id"] for row in listed["streams"]} == {row["id"] for row in by_command}
    assert listed["headline"] == {
        "level": "ok", "text": f"No stream is meant to run now; {len(by_command)} streams stopped on request",
    }  # fmt: skip
    row = next(row for row in listed["streams"] if row["id"] == FLIGHTS)
    command = next(row for row in by_command if row["id"] == FLIGHTS)
    assert {key: row[key] for key in command if key != "since"} == {k: v for k, v in command.items() if k != "since"}
    assert (row["dag_id"], row["lag_records"], row["restarts_24h"]) == ("stream__flights", None, 0)
    detail = asked(client, f"streams/{FLIGHTS}")
    status = site.lakeward("streams", "status", FLIGHTS, "-o", "json").json
    assert detail["document"].keys() == status.keys()
    assert detail["document"]["next"] == status["next"]
    assert detail["block"][0].startswith("flights is STOPPED")
    assert detail["actions"][0]["op"] == "start"
    assert detail["generations"][0]["state"] == "running"


def test_the_worst_stream_is_first_and_in_the_first_line(site, client) -> None:
    with site.registry() as connection:
        streams.block(
            connection, FLIGHTS, {"reason": "gap", "what": "records are gone", "why": "retention", "next": ""}
        )
    listed = asked(client, "streams")
    assert listed["streams"][0]["id"] == FLIGHTS
    assert listed["headline"]["level"] == "trouble"
    assert listed["headline"]["text"].startswith("flights is BLOCKED since ")
    assert listed["counts"]["blocked"] == 1


def test_missing_supervision_is_in_the_first_line_with_its_cause(site, caller: Caller) -> None:
    with site.registry() as connection:
        streams.set_desired(connection, [FLIGHTS], "running")
        connection.execute(
            update(rows_of_streams).values(since=rows_of_streams.c.since - timedelta(hours=1), state="starting")
        )

    def explain(present: Presence) -> Presence:
        return replace(present, why=f"{present.why}; the Dag streams_reconcile is paused", next="unpause it")

    client = TestClient(build(Reads(lambda: site.runtime, explain=explain), caller.gate()))
    listed = asked(client, "streams")
    assert listed["supervision"]["next"] == "unpause it"
    assert "the Dag streams_reconcile is paused" in listed["supervision"]["why"]
    assert "is paused" in asked(client, f"streams/{FLIGHTS}")["document"]["unsupervised"]


def test_what_a_caller_may_not_read_is_not_there(site, client, caller: Caller) -> None:
    with site.registry() as connection:
        maintenance.register(connection, "nyc.flights", format="iceberg", location="/w", table_class="append-stream")
        maintenance.record_facts(connection, "nyc.flights", 1, {"files": 40, "streams": [FLIGHTS]})
        changes.record(connection, "stream", FLIGHTS, "stop", author="ada", comment="a test")
        changes.record(connection, "table", "nyc.flights", "hold", author="ada", comment="a test")
    assert [row["table"] for row in asked(client, "tables")["tables"]] == ["nyc.flights"]
    assert len(asked(client, "audit")["changes"]) == 2
    caller.hidden = {"stream__flights"}
    listed = asked(client, "streams")
    assert FLIGHTS not in {row["id"] for row in listed["streams"]}
    assert FLIGHTS not in json.dumps(listed["headline"]) and listed["counts"] == {"stopped": len(listed["streams"])}
    assert asked(client, "tables")["tables"] == []
    assert asked(client, "audit")["changes"] == []
    of_stream = (f"streams/{FLIGHTS}", f"streams/{FLIGHTS}/batches", f"streams/{FLIGHTS}/lag")
    for path in (*of_stream, "tables/nyc.flights", "quality/nyc.flights"):
        hidden, missing = client.get(f"/api/v1/{path}"), client.get(f"/api/v1/{path.replace('flights', 'nothing')}")
        assert (hidden.status_code, missing.status_code) == (404, 404)
        assert hidden.json()["error"]["code"] == missing.json()["error"]["code"]
    assert client.post("/api/v1/dags/stream__flights/plan", json={"op": "stop"}).status_code == 403


def test_a_table_of_two_streams_names_the_one_that_the_caller_may_see(site, client, caller: Caller) -> None:
    with site.registry() as connection:
        maintenance.register(connection, "nyc.both", format="iceberg", location="/w", table_class="append-stream")
        maintenance.record_facts(connection, "nyc.both", 1, {"streams": [FLIGHTS, "delay_alerts"]})
    caller.hidden = {"stream__flights"}
    assert [row["streams"] for row in asked(client, "tables")["tables"]] == [["delay_alerts"]]
    assert asked(client, "tables/nyc.both")["table"]["streams"] == ["delay_alerts"]
    caller.hidden = {"stream__flights", "stream__delay_alerts"}
    assert asked(client, "tables")["tables"] == []


def test_who_keeps_snapshots_is_as_recorded_and_names_no_stream_that_the_caller_may_not_see(
    site, client, caller: Caller
) -> None:
    pin = {
        "kind": "reader", "who": "stream delay_alerts", "stream": "delay_alerts", "why": "it has read up to 3",
        "since": "2026-03-01T11:42:00.000Z", "snapshots": 8, "bytes": 800, "next": "lakeward streams list",
    }  # fmt: skip
    with site.registry() as connection:
        for name in ("nyc.flights", "nyc.other"):
            maintenance.register(connection, name, format="iceberg", location="/w", table_class="append-stream")
            maintenance.record_facts(connection, name, 1, {"streams": [FLIGHTS]})
        maintenance.record_pins(connection, "nyc.flights", [pin])
        maintenance.record_pins(connection, "nyc.other", [{"who": "of another version"}, pin])
    rows = {row["table"]: row["pins"] for row in asked(client, "tables")["tables"]}
    assert rows == {"nyc.flights": [pin], "nyc.other": [pin]}, "one that cannot be read hides no other"
    assert asked(client, "tables/nyc.flights")["table"]["pins"] == [pin]
    caller.hidden = {"stream__delay_alerts"}
    for path in ("tables", "tables/nyc.flights"):
        assert "delay_alerts" not in json.dumps(asked(client, path))
    assert asked(client, "tables/nyc.flights")["table"]["pins"][0]["who"] == "another stream"


def test_open_incidents_are_shown_to_who_sees_all_that_they_name(site, client, caller: Caller) -> None:
    with site.registry() as connection:
        incidents.opened(connection, "quality", "nyc.flights", "rows fail", streams=[FLIGHTS], next="look")
        incidents.opened(connection, "dependency", "kafka", "Kafka is away", streams=[FLIGHTS, "delay_alerts"])
        incidents.opened(connection, "reconcile", "watcher", "nobody watches")
        incidents.opened(connection, "stream", FLIGHTS, "flights is blocked", streams=[FLIGHTS])

    def shown() -> list[tuple[str, str | None]]:
        return [(item["kind"], item["open"]) for item in asked(client, "streams")["incidents"]]

    everything = [("quality", "nyc.flights"), ("dependency", None), ("reconcile", None)]
    assert shown() == everything, "that of the stream is in its row"
    caller.hidden = {"stream__delay_alerts"}
    assert shown() == [everything[0], everything[2]]
    caller.hidden = {"stream__flights", "tables_observe"}
    assert shown() == []


def test_a_list_asks_for_permissions_once(site, client, caller: Caller) -> None:
    with site.registry() as connection:
        for number in range(5):
            maintenance.register(connection, f"nyc.t{number}", format="iceberg", location="/w", table_class=None)
            changes.record(connection, "table", f"nyc.t{number}", "hold", author="ada")
    for path in ("streams", "tables", "quality", "audit"):
        caller.questions = 0
        asked(client, path)
        assert caller.questions == 1, path


def test_the_profile_of_a_table_is_not_read_for_its_figures(site) -> None:
    with site.registry() as connection:
        maintenance.register(connection, "nyc.flights", format="iceberg", location="/w", table_class="append-stream")
        maintenance.record_facts(connection, "nyc.flights", 1, {"files": 3, "profile": {"partitions": []}})
        assert maintenance.newest_figures(connection)["nyc.flights"].facts == {"files": 3}
        assert [item.facts for item in maintenance.figures_over_time(connection, "nyc.flights", 5)] == [{"files": 3}]


def test_a_plan_is_shown_and_changes_nothing(site, client, caller: Caller) -> None:
    plan = client.post("/api/v1/dags/stream__flights/plan", json={"op": "start"}).json()
    assert plan["text"] and not plan["nothing"] and not plan["approval"]
    with site.registry() as connection:
        assert streams.get(connection, FLIGHTS).desired == "stopped"
        assert changes.newest(connection, "stream", FLIGHTS) == []
    reset = client.post("/api/v1/dags/stream__flights/plan", json={"op": "reset", "to": "sometime"})
    assert reset.status_code == 409 and reset.json()["error"]["why"]
    wrong = client.post("/api/v1/dags/stream__flights/plan", json={"op": "explode"}).json()["error"]
    assert "skip_batch" in wrong["why"]
    assert client.post("/api/v1/dags/stream__flights/plan", json={"op": "stop", "x": 1}).status_code == 422
    assert client.post("/api/v1/dags/streams_reconcile/plan", json={"op": "stop"}).status_code == 404
    caller.operator = False
    assert client.post("/api/v1/dags/stream__flights/plan", json={"op": "start"}).status_code == 403


def test_a_table_has_its_actions_and_its_figures_over_time(site, client) -> None:
    for files in (10, 40):
        with site.registry() as connection:
            maintenance.register(
                connection, "nyc.flights", format="iceberg", location="/w", table_class="append-stream"
            )
            maintenance.record_facts(connection, "nyc.flights", BIG, {"files": files, "profile": {"large": True}})
    with site.registry() as connection:
        begun = maintenance.begin_action(
            connection, plan="p", table="nyc.flights", action="compact", session_id=None,
            before={"snapshot_id": BIG, "files": 40},
        )  # fmt: skip
        maintenance.finish_action(connection, begun, result="done", verified=True, after={"files": 2})
    found = asked(client, "tables/nyc.flights")
    assert found["table"]["figures"] == {"files": 40}
    assert [item["figures"]["files"] for item in found["health"]] == [10, 40]
    (action,) = found["actions"]
    assert (action["before"], action["after"], action["result"]) == ({"files": 40}, {"files": 2}, "done")


def test_a_registry_that_is_away_leaves_the_last_view_with_its_age(site, caller: Caller) -> None:
    reads = Reads(lambda: site.runtime)
    reads._streams_cache = Cache(0.0, cpu=lambda: 0.0)
    client = TestClient(build(reads, caller.gate()))
    asked(client, "streams")
    away = site.home / "secrets" / "away.url"
    away.write_text("postgresql+psycopg2://lakeward:canary@127.0.0.1:1/registry")
    reads.runtime = site.runtime.model_copy(update={"registry_url_file": away})
    del reads.connect
    listed = asked(client, "streams")
    assert listed["streams"] and listed["stale"]
    answer = client.get("/api/v1/audit")
    assert answer.status_code == 503 and answer.json()["error"]["what"]
    assert "canary" not in listed["stale"] + answer.text


def test_a_deployment_that_is_not_there_yet_is_said_in_words(caller: Caller, tmp_path: Path) -> None:
    client = TestClient(build(Reads(lambda: Runtime.load(tmp_path / "runtime.json")), caller.gate()))
    answer = client.get("/api/v1/streams")
    assert answer.status_code == 503
    assert answer.json()["error"]["next"]


def test_a_stream_that_cannot_be_read_costs_no_other_its_row(site, client) -> None:
    with site.registry() as connection:
        connection.execute(
            update(rows_of_streams).where(rows_of_streams.c.id == FLIGHTS).values(blocked=["no mapping"])
        )
        observations.record(connection, "delay_alerts", watch={"at": "x", "partitions": ["odd"]})
    listed = asked(client, "streams")
    assert listed["unreadable"] == [FLIGHTS]
    assert {"delay_alerts", "departures_hourly", FLIGHTS} <= {row["id"] for row in listed["streams"]}


def test_a_lag_that_is_not_known_as_a_whole_has_a_reason_and_no_figure(site, client) -> None:
    part = {"source": "near", "topic": "t", "partition": 0, "position": 5, "end": 9}
    watch = {"at": datetime.now(UTC).isoformat(), "partitions": [part], "unmeasured": {"far": "it is silent"}}
    with site.registry() as connection:
        observations.record(connection, FLIGHTS, watch=watch)
    [row] = [row for row in asked(client, "streams")["streams"] if row["id"] == FLIGHTS]
    assert (row["lag_records"], row["lag_s"], row["lag_unknown"]) == (None, None, "source far: it is silent")


def test_what_looks_like_a_secret_is_in_no_answer(site, client) -> None:
    secret = "password=canary"
    with site.registry() as connection:
        maintenance.register(connection, "nyc.flights", format="iceberg", location="/w", table_class="append-stream")
        maintenance.hold_expiry(connection, "nyc.flights", secret)
        begun = maintenance.begin_action(
            connection, plan="p", table="nyc.flights", action="compact", session_id=None, before={}
        )
        maintenance.finish_action(connection, begun, result="failed", why=secret)
        changes.record(
            connection,
            "stream",
            FLIGHTS,
            "stop",
            author="ada",
            comment=secret,
            before={"why": secret, "token": "canary", "number": 5},
        )
        streams.block(connection, FLIGHTS, {"reason": "gap", "what": secret, "why": secret, "next": ""})
    for path in ("streams", f"streams/{FLIGHTS}", "tables", "tables/nyc.flights", "audit"):
        assert "canary" not in json.dumps(asked(client, path)), path


def test_integers_that_a_browser_would_round_are_text() -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    document = {"id": BIG, "small": EXACT, "at": at, "none": None, "yes": True}
    assert json.loads(encode(document)) == {**document, "id": str(BIG), "at": "2026-11-01T00:00:00.000Z"}


def test_numbers_that_json_lacks_are_written_as_the_command_line_does() -> None:
    numbers = {"share": float("nan"), "high": float("inf"), "low": float("-inf")}
    assert json.loads(encode(numbers)) == json.loads(json_text(numbers))


def test_batches_are_those_that_were_recorded(site, client) -> None:
    with site.registry() as connection:
        for number in range(3):
            batches.record(
                connection, stream=FLIGHTS, query_id="q1", batch_id=number, seq=number + 1, generation=1,
                snapshot_id=BIG, start_offsets={}, end_offsets={}, consumed=10, landed=9, quarantined=1, filtered=0,
                duration_s=1.0, committed_at=datetime(2026, 11, 1, 6, number, tzinfo=UTC),
            )  # fmt: skip
    found = asked(client, f"streams/{FLIGHTS}/batches?limit=2")["batches"]
    assert [(row["batch_id"], row["landed"], row["snapshot_id"]) for row in found] == [
        (2, 9, str(BIG)),
        (1, 9, str(BIG)),
    ]
    assert {(row["late_dropped"], row["late_kept"]) for row in found} == {(None, None)}
    for limit in ("0", "1001", "many"):
        answer = client.get(f"/api/v1/streams/{FLIGHTS}/batches?limit={limit}")
        assert answer.status_code == 422 and "limit" in answer.json()["error"]["why"]


def test_lag_over_time_is_what_the_driver_recorded(site, client) -> None:
    with site.registry() as connection:
        lag_history.record(connection, FLIGHTS, lag_records=BIG, lag_s=9.5, state_rows=3, state_bytes=100)
    found = asked(client, f"streams/{FLIGHTS}/lag?hours=1")
    [moment] = found["moments"]
    assert (moment["lag_records"], moment["lag_s"], moment["state_rows"]) == (str(BIG), 9.5, 3)
    assert datetime.fromisoformat(moment["at"]) <= datetime.fromisoformat(found["now"])
    for hours in ("0", "73", "many"):
        assert client.get(f"/api/v1/streams/{FLIGHTS}/lag?hours={hours}").status_code == 422


def test_a_generation_says_how_it_differs_from_the_one_before(site, client) -> None:
    with site.registry() as connection:
        own = generations.get(connection, FLIGHTS, 1)
        assert own is not None
        generations.add(
            connection, stream=FLIGHTS, generation=2, spec={**own.spec, "trigger": {"every": "33s"}, "tags": ["eu"]},
            digest="2", sql=own.sql, code={"m.py": "1"}, versions={}, author="test", checkpoint=own.checkpoint,
        )  # fmt: skip
    newest, first = asked(client, f"streams/{FLIGHTS}")["generations"]
    assert any(line.startswith("trigger.every: ") and line.endswith("→ 33s") for line in newest["changed"])
    assert "code m.py: added" in newest["changed"]
    assert first["changed"] == []


def test_the_trend_and_the_limit_are_there_for_the_list_and_the_detail(site, client) -> None:
    with site.registry() as connection:
        part = {"source": "source", "topic": "flights", "partition": 0, "position": 0, "end": 90, "lag_records": 90}
        watch = {"at": datetime.now(UTC).isoformat(), "partitions": [part], "oldest": None, "arriving_per_second": 1.5}
        observations.record(connection, FLIGHTS, query_state="running", watch=watch)
    row = next(row for row in asked(client, "streams")["streams"] if row["id"] == FLIGHTS)
    document = asked(client, f"streams/{FLIGHTS}")["document"]
    assert row["lag_trend"] == "growing"
    assert row["freshness_limit_s"] == document["freshness_limit_s"] is not None


def test_late_records_that_are_kept_are_not_among_the_dropped_ones(site, client) -> None:
    with site.registry() as connection:
        own = generations.get(connection, FLIGHTS, 1)
        assert own is not None
        generations.add(
            connection, stream=FLIGHTS, generation=2, spec={**own.spec, "late": {"table": "nyc.late"}}, digest="2",
            sql=own.sql, code={}, versions={}, author="test", checkpoint=own.checkpoint,
        )  # fmt: skip
        for number, late in ((1, 3), (2, 9)):
            batches.record(
                connection, stream=FLIGHTS, query_id="q", batch_id=number, generation=number, late_dropped=late,
                committed_at=datetime(2026, 11, 1, 6, number, tzinfo=UTC),
            )  # fmt: skip
    found = asked(client, f"streams/{FLIGHTS}/batches")["batches"]
    assert [(row["late_dropped"], row["late_kept"]) for row in found] == [(0, 9), (3, 0)]
    document = asked(client, f"streams/{FLIGHTS}")["document"]
    assert (document["late_dropped"], document["late_kept"], document["late_tables"]) == (3, 9, ["nyc.late"])
    assert document["late_text"] == "9 kept in nyc.late, 3 dropped"


def test_checks_have_their_verdict_their_trend_and_masked_samples(site, client, caller: Caller) -> None:
    landed = {"stream": FLIGHTS, "from_seq": 4, "to_seq": 4, "batches": 1, "start": None, "end": None}
    waits = ProofStatus("nyc.flights", lag=Lag(2, 30, BIG, datetime(2026, 11, 1, 5, 50, tzinfo=UTC)))
    with site.registry() as connection:
        for stream in (FLIGHTS, "departures_hourly"):  # a version of a Delta table of another stream may be the same
            batches.record(
                connection, stream=stream, query_id="q", batch_id=4, generation=1, seq=4, snapshot_id=BIG,
                start_offsets={"source": '{"flights": {"0": 7494}}'},
                end_offsets={"source": '{"flights": {"0": 7507}}'},
                committed_at=datetime(2026, 11, 1, 6, tzinfo=UTC),
            )  # fmt: skip
        maintenance.register(connection, "nyc.flights", format="iceberg", location="/w", table_class="append-stream")
        maintenance.record_facts(connection, "nyc.flights", 1, {"streams": [FLIGHTS, "delay_alerts"]})
        late_proofs.watch(connection, [waits], datetime(2026, 11, 1, 6, tzinfo=UTC))
        for number, verdict in enumerate(("pass", "hold")):
            verifications.record(
                connection,
                {
                    "run": f"r{number}", "table": "nyc.flights", "suite": "d", "scope": "increment",
                    "at": datetime(2026, 11, 1, 6, number, tzinfo=UTC), "from_snapshot": 7, "to_snapshot": BIG,
                    "to_sequence": 2, "to_commit": None, "verdict": verdict, "first_bad_snapshot": BIG,
                    "verified_snapshot": 7, "batches": [landed] if number else None, "spark_jobs": 1,
                    "duration_s": 2.0, "note": "", "cpu_s": None,
                },
                [
                    {"check": "c1", "expectation": "expect_column_values_to_not_be_null", "severity": "critical",
                     "state": "fail" if verdict == "hold" else "pass", "observed": {"kwargs": {"column": "carrier"}},
                     "unexpected_count": 3, "sample": [{"carrier": "***"}]},
                ],
            )  # fmt: skip
    (row,) = asked(client, "quality")["tables"]
    assert (row["verdict"], row["first_bad_snapshot"]) == ("hold", str(BIG))
    assert [check["unexpected_count"] for check in row["failing"]] == [3]
    assert row["unproven"] == {
        "snapshots": 2, "rows": 30, "since": "2026-11-01T05:50:00+00:00", "limit_s": 1800.0, "error": "",
    }  # fmt: skip
    detail = asked(client, "quality/nyc.flights")
    assert detail["landed"] == {
        str(BIG): [{"stream": FLIGHTS, "text": "stream flights batch 4, offsets flights/0 7494 to 7507"}],
    }  # fmt: skip
    assert [point["state"] for point in detail["checks"][0]["points"]] == ["pass", "fail"]
    assert detail["newest"]["checks"][0]["sample"] == [{"carrier": "***"}]
    assert client.get("/api/v1/quality/nyc.departures_hourly").status_code == 404
    assert asked(client, "tables")["tables"][0]["verdict"] == "hold"
    with site.registry() as connection:
        incidents.opened(connection, "quality", "nyc.flights", f"{FLIGHTS} failed", streams=[FLIGHTS], next="look")
    assert asked(client, "quality/nyc.flights")["incident"]["streams"] == [FLIGHTS]
    caller.hidden = {"stream__flights"}
    hidden = asked(client, "quality/nyc.flights")
    assert (hidden["incident"], hidden["landed"], hidden["newest"]["batches"]) == (None, {str(BIG): []}, [])
