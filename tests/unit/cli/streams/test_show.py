from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from demo_site import running
from sqlalchemy import func

from lakeward.connectors.kafka import broker
from lakeward.demo.flights import Record
from lakeward.demo.producer import Sender
from lakeward.registry import (
    batches,
    drivers,
    events,
    generations,
    leases,
    restarts,
    streams,
)

STATUS = {
    "id", "state", "why", "since", "desired", "generation", "query_id", "run_id", "driver", "batch_id", "seq",
    "snapshot_id", "committed_at", "complete_through", "lag_records", "lag_s", "lag_trend", "catch_up_s",
    "event_time_lag_s", "partitions", "input_rows_per_second", "processed_rows_per_second", "batch_duration_s",
    "durations_s", "trigger_s", "watermark", "late_dropped", "state_rows", "state_bytes", "restarts_24h", "attempts",
    "next_attempt_at", "source_retention_s", "at_risk", "failure", "next", "data", "safe_to", "next_batch",
    "commit_age_s", "lag_per_second", "lag_age_s", "arriving_per_second", "at_risk_in_s", "hold_until",
    "state_disk_bytes", "stable_generation", "differs", "incident", "changed", "links", "next_text", "next_effect",
    "log_tail",
}  # fmt: skip


def produce(site: Any, count: int) -> None:
    records = [Record(f"k{n}".encode(), b"{}", "flight") for n in range(count)]
    Sender(site.runtime.kafka["lakeward_kafka"], site.topic).send(records, per_second=1e6)


def test_list_has_the_contracts_fields_and_filters(site: Any) -> None:
    found = site.lakeward("streams", "list", "-o", "json").json["streams"]
    assert [each["id"] for each in found] == ["delay_alerts", "departures_hourly", "flights"]
    assert found[2].keys() >= {
        "id", "state", "why", "since", "sink", "driver", "generation", "pending_generation", "owner", "tags",
    }  # fmt: skip
    assert found[2]["sink"] == "nyc.flights"
    assert found[0]["sink"] == "kafka:delay_alerts"
    assert found[2]["driver"] == {"name": "demo", "backend": None, "handle": None, "host": None}
    lines = site.lakeward("streams", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["stream", "delay_alerts", "departures_hourly", "flights"]
    core = site.lakeward("streams", "list", "--tag", "core", "-o", "json").json["streams"]
    assert [each["id"] for each in core] == ["flights"]
    assert site.lakeward("streams", "list", "--state", "blocked", "-o", "json").json["streams"] == []
    assert site.lakeward("streams", "list", "--state", "dead").code == 2


def test_an_unknown_stream_is_refused_by_name(site: Any) -> None:
    answer = site.lakeward("streams", "status", "fligths")
    assert answer.code == 2
    assert "flights" in answer.err
    assert answer.out == ""


def test_status_of_a_stream_that_never_ran(site: Any) -> None:
    produce(site, 7)
    answer = site.lakeward("streams", "status", "flights", "-o", "json")
    found = answer.json
    assert answer.code == 0
    assert found.keys() >= STATUS
    assert (found["state"], found["desired"], found["next"]) == ("stopped", "stopped", "lakeward streams start flights")
    assert found["lag_records"] == 7
    assert found["lag_s"] > 0
    assert sum(part["end"] for part in found["partitions"]) == 7
    assert found["source_retention_s"] == 86_400
    assert found["at_risk"] is False
    assert found["seq"] is None


def test_status_counts_lag_from_the_tables_position_and_not_from_counters(
    site: Any, landed: Callable[..., Any]
) -> None:
    produce(site, 20)
    ends = {part["partition"]: part["end"] for part in _status(site)["partitions"]}
    running(site, query_state="running", batch_id=2, lag_records=999, committed_at=func.now(), progress=PROGRESS)
    landed({0: ends[0] - 2, 1: ends[1]}, rows=[])
    found = _status(site)
    assert found["state"] == "healthy"
    assert (found["lag_records"], found["seq"], found["batch_id"]) == (2, 3, 2)
    assert found["driver"]["pid"] == os.getpid()
    assert found["processed_rows_per_second"] == 500.0
    assert found["batch_duration_s"] == 1.25
    assert found["trigger_s"] == 5.0
    assert found["lag_trend"] == "falling"
    text = site.lakeward("streams", "status", "flights").out
    assert text.startswith("flights is HEALTHY for ")
    assert "2 records wait" in text
    assert "seq 3" in text


PROGRESS = {
    "inputRowsPerSecond": 40.0,
    "processedRowsPerSecond": 500.0,
    "durationMs": {"triggerExecution": 1250, "addBatch": 900},
    "eventTime": {"max": "2013-01-03T10:00:00.000Z", "watermark": "2013-01-03T08:00:00.000Z"},
    "stateOperators": [{"numRowsTotal": 12, "memoryUsedBytes": 4096}],
}


def test_windowed_figures_come_from_the_progress(site: Any) -> None:
    running(site, query_state="running", committed_at=func.now(), progress=PROGRESS)
    found = _status(site)
    assert (found["state_rows"], found["state_bytes"]) == (12, 4096)
    assert found["watermark"] == "2013-01-03T08:00:00.000Z"
    assert found["event_time_lag_s"] > 300 * 86_400


def test_a_blocked_stream_says_why_and_what_to_do_and_exits_3(site: Any) -> None:
    with site.registry() as connection:
        streams.set_desired(connection, ["flights"], "running")
        reason = {
            "reason": "gap",
            "what": "Offsets are missing",
            "why": "5 to 9",
            "next": "lakeward streams audit flights",
        }
        streams.block(connection, "flights", reason | {"batch": 4})
    answer = site.lakeward("streams", "status", "flights", "-o", "json")
    assert answer.code == 3
    assert answer.json["state"] == "blocked"
    assert answer.json["failure"] == {
        "class": "gap",
        "error": "Offsets are missing: 5 to 9",
        "code": None,
        "batch_id": 4,
        "offsets": None,
        "at": answer.json["since"],
    }
    text = site.lakeward("streams", "status", "flights").out
    assert re.search(r"failure      gap \d+ s ago: Offsets are missing: 5 to 9\n             in batch 4", text)
    assert "data lost?   NO: it was stopped before a row was lost or doubled" in text
    assert "next         lakeward streams audit flights" in text


def test_a_driver_that_died_is_restarting_with_its_next_attempt(site: Any) -> None:
    running(site, query_state="running", committed_at=func.now())
    with site.registry() as connection:
        drivers.exited(connection, "demo", "t", exit_code=1, error="OutOfMemoryError")
        restarts.record(
            connection, driver="demo", stream=None, failure_class="infra", error="OutOfMemoryError", attempt=2,
            delay=timedelta(seconds=40), exit_code=1,
        )  # fmt: skip
        leases.release(connection, "stream", ["flights"], "t")
    answer = site.lakeward("streams", "status", "flights", "-o", "json")
    assert answer.code == 3
    found = answer.json
    assert (found["state"], found["attempts"], found["restarts_24h"]) == ("restarting", 2, 1)
    assert found["next_attempt_at"] is not None
    assert found["failure"]["class"] == "infra"
    assert found["next"] == "lakeward streams logs flights"


def test_status_goes_on_without_the_broker_and_names_what_does_not_answer(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker.begin_offsets, "__defaults__", (1.0,))
    away = site.runtime.model_copy(update={"kafka": {"lakeward_kafka": "127.0.0.1:1"}})
    (site.home / "runtime.json").write_text(away.model_dump_json())
    answer = site.lakeward("streams", "status", "flights", "-o", "json")
    assert answer.code == 0
    assert answer.json["lag_records"] is None
    assert answer.json["lag_trend"] is None
    assert any("Kafka" in line for line in answer.json["unanswered"])


def test_operations_write_what_is_wanted_and_who_asked(site: Any) -> None:
    with site.registry() as connection:
        streams.set_desired(connection, ["flights"], "running")
    answer = site.lakeward("streams", "stop", "flights", "--comment", "window", "-o", "json")
    assert answer.json == {
        "operation": "stop",
        "stream": "flights",
        "result": "done",
        "detail": "asked to stop at the end of its running batch",
    }
    with site.registry() as connection:
        row = streams.get(connection, "flights")
        told = events.newest(connection, "stream", "flights")
    assert row.desired == "stopped"
    assert told[-1].fields == {"comment": "window"}


def test_a_dry_run_changes_nothing(site: Any) -> None:
    answer = site.lakeward("streams", "start", "flights", "--dry-run", "-o", "json")
    assert answer.json["result"] == "skipped"
    with site.registry() as connection:
        assert streams.get(connection, "flights").desired == "stopped"
        assert events.newest(connection, "stream", "flights") == []


def test_a_stop_that_takes_longer_than_its_time_says_so_with_5(site: Any) -> None:
    running(site, query_state="running", committed_at=func.now())
    answer = site.lakeward("streams", "stop", "flights", "--wait", "--timeout", "1s", "-o", "json")
    assert answer.code == 5
    assert "is stopping" in answer.err or "stopping" in answer.err
    assert answer.out == ""


def test_many_by_tag_give_one_answer_each(site: Any) -> None:
    with site.registry() as connection:
        streams.set_desired(connection, ["delay_alerts", "flights"], "running")
    answer = site.lakeward("streams", "stop", "--tag", "nyc", "--max-parallel", "2", "-o", "json")
    assert answer.code == 0
    assert [(each["stream"], each["result"]) for each in answer.json["operations"]] == [
        ("delay_alerts", "done"),
        ("departures_hourly", "skipped"),
        ("flights", "done"),
    ]
    assert site.lakeward("streams", "stop", "--tag", "none").code == 2


@pytest.mark.parametrize(
    "arguments", [["stop"], ["stop", "flights", "--tag", "nyc"], ["stop", "flights", "--timeout", "5"]]
)
def test_wrong_use_is_2(site: Any, arguments: list[str]) -> None:
    assert site.lakeward("streams", *arguments).code == 2


def test_audit_finds_what_is_missing_and_doubled_by_position(site: Any, landed: Callable[..., Any]) -> None:
    landed({0: 4, 1: 1}, rows=[(0, 0), (0, 1), (0, 1), (0, 3), (1, 0)])
    answer = site.lakeward("streams", "audit", "flights", "-o", "json")
    found = answer.json
    assert answer.code == 3
    assert (found["consumed"], found["missing"], found["duplicates"]) == (5, 1, 1)
    assert found["lineage"] == "rows"
    first = next(part for part in found["partitions"] if part["partition"].endswith("/0"))
    assert (first["from"], first["to"], first["missing"], first["duplicates"]) == (0, 4, 1, 1)
    assert first["gaps"] == [[2, 3]]


def test_audit_of_what_landed_once_is_clean(site: Any, landed: Callable[..., Any]) -> None:
    landed({0: 2, 1: 1}, rows=[(0, 0), (0, 1), (1, 0)])
    answer = site.lakeward("streams", "audit", "flights", "-o", "json")
    assert answer.code == 0
    assert (answer.json["missing"], answer.json["duplicates"], answer.json["beyond"]) == (0, 0, 0)


def test_audit_says_what_cannot_be_audited(site: Any) -> None:
    assert site.lakeward("streams", "audit", "delay_alerts").code == 4
    nothing = site.lakeward("streams", "audit", "flights")
    assert nothing.code == 3
    assert "landed nothing yet" in nothing.err


def test_events_of_a_stream_and_its_driver_read_as_one_timeline(site: Any) -> None:
    with site.registry() as connection:
        events.record(connection, "stream", "flights", "start", "ops asked to start")
        events.record(connection, "driver", "demo", "launched", "Launched for flights", pid=7)
        events.record(connection, "stream", "delay_alerts", "start", "another stream")
    found = site.lakeward("streams", "events", "flights", "-o", "json").json["events"]
    assert [(each["scope"], each["kind"]) for each in found] == [("stream", "start"), ("driver", "launched")]
    assert site.lakeward("streams", "events", "flights").out.splitlines()[1].endswith("launched  Launched for flights")
    assert len(site.lakeward("streams", "events", "flights", "-n", "1", "-o", "json").json["events"]) == 1


def _status(site: Any) -> Any:
    return site.lakeward("streams", "status", "flights", "-o", "json").json


def test_late_rows_are_those_the_batches_recorded(site: Any) -> None:
    with site.registry() as connection:
        for number, late in ((0, 3), (1, 4)):
            batches.record(connection, stream="flights", query_id="q", batch_id=number, generation=1, late_dropped=late)
    assert _status(site)["late_dropped"] == 7


def _late_of_two_generations(site: Any) -> None:
    """Generation 1 drops late records, generation 2 keeps them."""
    with site.registry() as connection:
        own = generations.get(connection, "flights", 1)
        kept = {**own.spec, "late": {"table": "nyc.late"}}
        generations.add(
            connection, stream="flights", generation=2, spec=kept, digest="2", sql=own.sql, code={}, versions={},
            author="test", checkpoint=own.checkpoint,
        )  # fmt: skip
        for number, generation, late in ((0, 1, 3), (1, 2, 4), (2, 2, 0), (3, 2, 5)):
            batches.record(
                connection, stream="flights", query_id="q", batch_id=number, generation=generation, late_dropped=late,
                committed_at=func.now() + timedelta(seconds=number),
                start_offsets={"flights": json.dumps({"f": {"0": 5 * number}})},
                end_offsets={"flights": json.dumps({"f": {"0": 5 * number + 5}})},
            )  # fmt: skip


def _late_table(site: Any) -> Any:
    """Create the table, as a start of the stream does."""
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    from lakeward.connectors.iceberg.catalog import pyiceberg_properties

    catalog = load_catalog("lake", **pyiceberg_properties(site.runtime.lake, site.runtime.pgpass))
    catalog.create_namespace_if_not_exists("nyc")
    catalog.create_table("nyc.late", pa.schema([("stream", pa.string())]))
    return catalog


def test_late_records_whose_table_was_dropped_are_lost_until_it_is_back_or_they_are_given_up(
    site: Any, landed: Callable[..., Any]
) -> None:
    landed({0: 0, 1: 0}, rows=[])
    _late_of_two_generations(site)
    with site.registry() as connection:
        streams.accept(connection, "flights", generation=2, driver="demo", desired="stopped")
    catalog = _late_table(site)
    assert _status(site)["data"]["lost"] == "no"
    catalog.drop_table("nyc.late")
    found = _status(site)
    assert (found["data"]["lost"], found["late_kept"]) == ("yes", 9)
    lost = "9 late records (f/0: 15 to 19; 4 of f/0: 5 to 9) are in no table: table nyc.late does not exist any more"
    assert found["data"]["text"].startswith(lost)
    assert "kept in nyc.late" not in found["data"]["but"]

    with site.registry() as connection:
        start = "lakeward streams start flights"
        block = {"reason": "late-missing", "what": "w", "why": "y", "next": f"lakeward doctor; then: {start}"}
        streams.block(connection, "flights", block)
        streams.set_state(connection, "flights", "blocked", "w")
    blocked = _status(site)
    assert blocked["data"]["text"] == lost
    assert blocked["next"] == block["next"]
    _late_table(site)
    assert _status(site)["next"] == start


def test_late_records_are_dropped_by_one_generation_and_kept_by_the_next(site: Any) -> None:
    _late_of_two_generations(site)
    _late_table(site)
    found = _status(site)
    assert (found["late_dropped"], found["late_kept"], found["late_tables"]) == (3, 9, ["nyc.late"])
    assert "late records: 9 kept in nyc.late, 3 dropped" in site.lakeward("streams", "status", "flights").out
    assert found["data"]["but"].startswith("3 late records were dropped since ")
    assert " and 9 late records were kept in nyc.late since " in found["data"]["but"]


def test_batches_tell_late_records_that_were_kept_from_dropped_ones(site: Any) -> None:
    _late_of_two_generations(site)
    found = site.lakeward("streams", "batches", "flights", "-o", "json").json["batches"]
    assert [(each["late_dropped"], each["late_kept"]) for each in found] == [(3, 0), (0, 4), (0, 0), (0, 5)]
    shown = site.lakeward("streams", "batches", "flights").out.splitlines()
    at = shown[0].index("  late  ") + 2
    assert [line[at : at + 9].strip() for line in shown[1:]] == ["3 dropped", "4 kept", "0", "5 kept"]


def test_audit_tells_late_records_that_were_kept_from_dropped_ones(site: Any, landed: Callable[..., Any]) -> None:
    landed({0: 2, 1: 1}, rows=[(0, 0), (0, 1), (1, 0)])
    assert "\nlate         none\n" in site.lakeward("streams", "audit", "flights").out
    _late_of_two_generations(site)
    found = site.lakeward("streams", "audit", "flights", "-o", "json").json
    assert (found["late_dropped"], found["late_kept"], found["late_tables"]) == (3, 9, ["nyc.late"])
    shown = site.lakeward("streams", "audit", "flights").out
    assert "\nlate         9 kept in nyc.late, 3 dropped\n" in shown
    assert "late dropped" not in shown


def test_batches_read_oldest_first_with_their_offsets(site: Any) -> None:
    nothing = {"stream": "flights", "core_s_per_million": None, "batches": []}
    assert site.lakeward("streams", "batches", "flights", "-o", "json").json == nothing
    with site.registry() as connection:
        for number in (0, 1):
            batches.record(
                connection, stream="flights", query_id="q", batch_id=number, seq=number + 1, generation=1,
                snapshot_id=number + 70, consumed=10, landed=9, quarantined=1, duration_s=1.5, core_s=0.25,
                start_offsets={"flights": '{"f":{"0":0}}'}, end_offsets={"flights": '{"f":{"0":10}}'},
                committed_at=func.now() + timedelta(seconds=number),
            )  # fmt: skip
    found = site.lakeward("streams", "batches", "flights", "-o", "json").json["batches"]
    assert [each["batch_id"] for each in found] == [0, 1]
    assert found[0].keys() == {
        "query_id", "batch_id", "seq", "generation", "snapshot_id", "start_offsets", "end_offsets", "consumed",
        "landed", "quarantined", "filtered", "late_dropped", "late_kept", "skipped", "duration_s", "phases", "core_s",
        "replayed", "complete_through", "committed_at",
    }  # fmt: skip
    lines = site.lakeward("streams", "batches", "flights", "-n", "1").out.splitlines()
    assert lines[0].split() == [
        "at", "batch", "seq", "generation", "records", "landed", "quarantined", "late", "took", "core-s",
        "offsets",
    ]  # fmt: skip
    assert lines[1].split(maxsplit=11)[8:] == ["1.5", "s", "0.25", "f/0: 0 to f/0: 10"]
    assert lines[2] == "25,000.0 core-seconds for a million records"


def test_progress_is_sparks_own_report_and_what_the_driver_measured(site: Any) -> None:
    assert site.lakeward("streams", "progress", "flights").code == 1
    running(site, query_state="running", progress=PROGRESS, watch={"app_id": "local-1"})
    found = site.lakeward("streams", "progress", "flights", "-o", "json").json
    assert found.keys() == {"stream", "at", "age_s", "query_state", "progress", "watch"}
    assert found["progress"] == PROGRESS
    assert found["watch"] == {"app_id": "local-1"}
    assert json.loads(site.lakeward("streams", "progress", "flights").out)["progress"] == PROGRESS


def test_the_spark_ui_of_a_living_driver_is_its_own_and_of_a_dead_one_needs_an_event_log(site: Any) -> None:
    assert site.lakeward("streams", "ui", "flights").code == 2, "it was never launched"
    running(site, query_state="running")
    with site.registry() as connection:
        drivers.beat(connection, "demo", "t", state="running", spark_ui="http://127.0.0.1:4040")
    found = site.lakeward("streams", "ui", "flights", "-o", "json").json
    assert found == {"stream": "flights", "driver": "demo", "url": "http://127.0.0.1:4040", "live": True}
    with site.registry() as connection:
        drivers.exited(connection, "demo", "t", exit_code=1, error="gone")
    answer = site.lakeward("streams", "ui", "flights")
    assert answer.code == 1
    assert "No event log of driver demo" in answer.err
