"""`lakeward metrics` as people and Prometheus call it."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import func, select, text

from lakeward.metrics import definitions
from lakeward.registry import incidents, maintenance, observations, verifications
from lakeward.tables import changes

ROOT = Path(__file__).parents[3]


def scraped(text: str) -> dict[tuple[str, ...], float]:
    """(metric, label values in the order of its definition ...) -> value."""
    return {
        (sample.name, *(sample.labels[label] for label in definitions.BY_NAME[sample.name].labels)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def landed_rows(site) -> None:
    """What a driver, an observation and a check run leave in the registry."""
    with site.registry() as connection:
        now = connection.execute(select(func.now())).scalar_one()
        observations.record(
            connection, "flights", seq=7, committed_at=now - timedelta(seconds=20), query_state="running",
            progress={"durationMs": {"triggerExecution": 1500, "addBatch": 900}, "inputRowsPerSecond": 12.5},
            watch={
                "at": now.isoformat(),
                "oldest": (now - timedelta(seconds=30)).isoformat(),
                "partitions": [
                    {"source": "source", "topic": site.topic, "partition": part, "position": 5, "end": end}
                    for part, end in ((0, 9), (1, 5))
                ],
                "totals": {"consumed": 100, "landed": 90, "quarantined": 4, "filtered": 6, "skipped": 0},
            },
        )  # fmt: skip
        maintenance.register(connection, "nyc.flights", format="iceberg", location="/w", table_class="append-stream")
        maintenance.record_facts(connection, "nyc.flights", 1, {"files": 40, "small_files": 31, "size_bytes": 1000})
        incidents.opened(connection, "quality", "nyc.flights", "held")
        verifications.record(
            connection,
            {
                "run": "r1", "table": "nyc.flights", "suite": "d", "scope": "increment", "at": now,
                "from_snapshot": 7, "to_snapshot": 8, "to_sequence": 2, "to_commit": None, "verdict": "hold",
                "first_bad_snapshot": 8, "verified_snapshot": 7, "batches": None, "spark_jobs": 1, "duration_s": 2.0,
                "note": "", "cpu_s": None,
            },
            [{"check": "c1", "expectation": "e", "severity": "critical", "state": "fail", "observed": None,
              "unexpected_count": 3, "sample": [{"carrier": "canary"}]}],
        )  # fmt: skip


def test_a_scrape_has_what_the_status_commands_say(site, landed_rows):
    answer = site.lakeward("metrics", "show", "--partitions")
    assert answer.code == 0, answer.err
    found = scraped(answer.out)
    status = site.lakeward("streams", "list", "-o", "json").json["streams"]
    states = {stream["id"]: stream["state"] for stream in status}
    assert set(states) == {"flights", "departures_hourly", "delay_alerts"}
    for stream, state in states.items():
        assert found["lakeward_stream_state", stream, state] == 1.0
    assert sum(value for key, value in found.items() if key[0] == "lakeward_stream_state") == len(states)
    assert found["lakeward_stream_lag_records", "flights"] == 4.0
    assert 30 <= found["lakeward_stream_lag_seconds", "flights"] < 600
    assert found["lakeward_stream_partition_lag_records", "flights", "source", site.topic, "0"] == 4.0
    assert found["lakeward_stream_records_total", "flights", "landed"] == 90.0
    assert found["lakeward_stream_batches_total", "flights"] == 7.0
    assert found["lakeward_stream_batch_duration_seconds", "flights"] == 1.5
    assert found["lakeward_stream_batch_phase_duration_seconds", "flights", "addBatch"] == 0.9
    assert found["lakeward_table_small_files", "nyc.flights"] == 31.0
    assert found["lakeward_quality_verdict", "nyc.flights", "hold"] == 1.0
    assert found["lakeward_quality_failing_checks", "nyc.flights", "critical"] == 1.0
    assert found["lakeward_incidents_open", "quality"] == 1.0
    assert found[("lakeward_registry_up",)] == 1.0
    assert "canary" not in answer.out


def test_a_lag_that_is_not_known_as_a_whole_is_not_exported(site, landed_rows):
    assert scraped(site.lakeward("metrics", "show").out)["lakeward_stream_lag_unmeasured_sources", "flights"] == 0.0
    with site.registry() as connection:
        seen = observations.latest(connection)["flights"]
        observations.record(connection, "flights", watch={**seen.watch, "unmeasured": {"far": "silent"}})
    found = scraped(site.lakeward("metrics", "show", "--partitions").out)
    assert found["lakeward_stream_lag_unmeasured_sources", "flights"] == 1.0
    assert {"lakeward_stream_lag_records", "lakeward_stream_lag_seconds"}.isdisjoint(name for name, *_ in found)
    assert found["lakeward_stream_partition_lag_records", "flights", "source", site.topic, "0"] == 4.0


def test_partitions_are_exported_by_choice(site, landed_rows):
    assert "lakeward_stream_partition_lag_records" not in site.lakeward("metrics", "show").out


def test_a_registry_that_is_away_shows_no_old_figure(site):
    (site.home / "secrets" / "registry.url").write_text("postgresql://nobody@127.0.0.1:1/none")
    answer = site.lakeward("metrics", "show")
    assert answer.code == 0
    assert scraped(answer.out) == {("lakeward_registry_up",): 0.0}


def test_what_cannot_be_read_of_one_stream_costs_no_other_its_metrics(site, landed_rows):
    with site.registry() as connection:
        observations.record(connection, "delay_alerts", watch={"at": "x", "totals": ["odd"]})
    found = scraped(site.lakeward("metrics", "show").out)
    assert found["lakeward_unreadable_items", "stream"] == 1.0
    assert found["lakeward_stream_lag_records", "flights"] == 4.0


def test_prometheus_scrapes_a_process_that_ends_by_sigterm(site, landed_rows):
    command = [sys.executable, "-m", "lakeward", "metrics", "serve", "--port", "0", "--home", str(site.home)]
    with subprocess.Popen([*command, "--project", str(ROOT)], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "http://" in line)
            url = line[line.index("http://") :].strip()
            with urllib.request.urlopen(url, timeout=60) as response:
                assert response.headers["Content-Type"].startswith("text/plain")
                found = scraped(response.read().decode())
            assert found["lakeward_stream_lag_records", "flights"] == 4.0
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_a_taken_port_is_named_with_a_free_one(site):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        answer = site.lakeward("metrics", "serve", "--port", str(taken.getsockname()[1]))
    assert answer.code == 4
    assert "lakeward metrics serve --port" in answer.err


def test_the_reference_page_is_current():
    assert (ROOT / "docs" / "reference" / "metrics.md").read_text() == definitions.reference()


def test_a_table_that_does_not_change_is_observed_all_the_same(site, landed_rows):
    metric = "lakeward_table_observed_timestamp_seconds"

    def observed() -> float:
        return scraped(site.lakeward("metrics", "show").out)[metric, "nyc.flights"]

    with site.registry() as connection:
        connection.execute(text("UPDATE facts SET at = at - interval '3 hours'"))
        changes.record(connection, "s", None, ["nyc.flights"], 1.0)
    stale = observed()
    with site.registry() as connection:
        now = connection.execute(select(func.now())).scalar_one().timestamp()
        changes.record(connection, "s", None, [], 1.0)
    assert stale < now - 3600, "a table that could not be read was not observed"
    assert observed() >= now
