from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakeward.registry import changes, events, maintenance, streams, verifications
from lakeward.registry.generations import Generation
from lakeward.supervision.report import generation_diff, recent
from lakeward.supervision.report.recent import Recent
from lakeward.supervision.report.sources import Commit, planned

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


def test_what_people_drivers_maintenance_and_checks_did_is_in_one_line_of_time(connected, deployed) -> None:
    deployed("flights")
    with connected() as connection:
        changes.record(connection, "stream", "flights", "deploy", author="ann", comment="generation 4 accepted")
        changes.record(connection, "stream", "flights", "restart", author="ben", comment="more memory")
        events.record(connection, "driver", "nyc", "launched", "Launched for flights", pid=7)
        events.record(connection, "stream", "flights", "report", "not told again")
        events.record(connection, "stack", "streams", "dependency", "Kafka answers again", streams=["flights"])
        events.record(connection, "stack", "streams", "dependency", "The store answers again", streams=["other"])
        number = maintenance.begin_action(
            connection, plan="p", table="nyc.flights", action="compact", session_id=None, before={}
        )
        maintenance.finish_action(connection, number, result="failed", why="rows differ", duration_s=4.0)
        run = {"table": "nyc.flights", "suite": "s", "scope": "increment"}
        verifications.record(connection, {**run, "run": "a", "verdict": "hold"}, [])
        verifications.record(connection, {**run, "run": "b", "verdict": "pass"}, [])
    with connected() as connection:
        row = streams.get(connection, "flights")
        found = recent.read(connection, row, "nyc.flights", datetime.now(UTC) - recent.WINDOW)
        later = recent.read(connection, row, "nyc.flights", datetime.now(UTC) + timedelta(hours=1))
    assert sorted((item.what, item.text) for item in found) == [
        ("check", "quality of nyc.flights: hold"),
        ("deploy", "deploy by ann: generation 4 accepted"),
        ("driver", "driver nyc: Launched for flights"),
        ("maintenance", "compact of nyc.flights failed in 4 s: rows differ"),
        ("people", "restart by ben: more memory"),
        ("stream", "Kafka answers again"),
    ]
    assert later == []


def test_commits_of_others_are_those_no_maintenance_of_ours_made(connected) -> None:
    with connected() as connection:
        number = maintenance.begin_action(
            connection, plan="p", table="nyc.flights", action="compact", session_id=None, before={}
        )
        maintenance.finish_action(connection, number, result="done")
    now = datetime.now(UTC)
    commits = [Commit(now, 1, "replace"), Commit(now - timedelta(hours=2), 2, "overwrite")]
    with connected() as connection:
        (found,) = recent.of_others(connection, "nyc.flights", commits)
    assert found.text == "overwrite of nyc.flights by another writer: snapshot 2"


def test_the_same_thing_again_and_again_is_one_line() -> None:
    items = [Recent(NOW + timedelta(seconds=n), "driver", f"attempt {n} failed") for n in range(5)]
    (found,) = recent.folded(items)
    assert (found.times, found.at, found.first) == (5, NOW + timedelta(seconds=4), NOW)
    assert found.text == "attempt 4 failed"


def generation(spec: dict, **more: object) -> Generation:
    values = {"digest": "d", "sql": None, "code": {}, "versions": {}, "author": "ann", "checkpoint": "c"} | more
    return Generation("flights", 1, spec, created_at=NOW, stable_at=None, **values)


def test_generations_differ_by_key() -> None:
    before = generation({"trigger": {"every": "10s"}, "tags": ["a"]}, versions={"pyspark": "4.1.2"})
    after = generation({"trigger": {"every": "5s"}, "tags": ["a"], "team": "ops"}, versions={"pyspark": "4.1.3"})
    assert generation_diff.keys(before, after) == ["team", "trigger.every", "pyspark 4.1.2 → 4.1.3"]
    assert generation_diff.keys(before, generation(before.spec, sql="SELECT 1", versions=before.versions)) == [
        "transform.sql"
    ]


def test_the_newest_batch_of_a_checkpoint_is_read_from_its_files(tmp_path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()
    for number, end in ((0, 5), (1, 9)):
        (tmp_path / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"flights":{{"0":{end}}}}}')
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    found = planned(str(tmp_path), ["source"])
    assert found is not None
    assert (found.batch, found.done, found.ends) == (1, False, {"source": '{"flights":{"0":9}}'})
    (tmp_path / "commits" / "1").write_text("v1\n{}")
    assert planned(str(tmp_path), ["source"]).done
    assert planned("s3a://bucket/x", ["source"]) is None
    assert planned(str(tmp_path / "none"), ["source"]) is None
