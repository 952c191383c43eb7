"""A simulated year stays bounded, and nothing that lives is touched."""

from __future__ import annotations

import os
import time
from datetime import timedelta

from sqlalchemy import text

from lakeward.registry import events, observations, streams
from lakeward.registry.purge import BATCH
from lakeward.spec.model.settings import Keep
from lakeward.supervision import retention

YEAR = """
INSERT INTO batches (stream, query_id, batch_id, generation, committed_at)
SELECT 'flights', 'q', n, 1, now() - n * interval '20 minutes' FROM generate_series(0, 26279) n;
INSERT INTO events (scope, name, kind, text, at)
SELECT 'driver', 'nyc', 'launched', 'x', now() - n * interval '1 hour' FROM generate_series(0, 8759) n;
INSERT INTO restarts (driver, failure_class, error, attempt, at)
SELECT 'nyc', 'infra', 'x', 1, now() - n * interval '1 hour' FROM generate_series(0, 8759) n;
INSERT INTO incidents (kind, subject, text, opened_at, closed_at)
SELECT 'stream', 's' || n, 'x', at, at
FROM generate_series(0, 799) n, LATERAL (SELECT now() - n * interval '1 day' AS at) t;
INSERT INTO incidents (kind, subject, text, opened_at) VALUES ('stream', 'flights', 'x', now() - interval '3 years');
INSERT INTO facts ("table", at, facts) SELECT 't', now() - n * interval '1 hour', '{}' FROM generate_series(0, 8759) n;
"""


def rows(connected, table: str) -> int:
    with connected() as connection:
        return int(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


def test_a_year_of_a_stream_comes_down_to_its_keep_times(connected, runtime, backend, deployed) -> None:
    deployed("flights")
    with connected() as connection:
        for statement in YEAR.strip().split(";\n"):
            connection.execute(text(statement.rstrip(";")))
    removed = retention.purge_if_due(runtime, Keep(), backend)
    assert removed["batches"] > BATCH, "more than one statement takes"
    assert 30 * 72 <= rows(connected, "batches") <= 30 * 72 + 1
    assert rows(connected, "restarts") <= 90 * 24 + 1
    assert rows(connected, "facts") <= 30 * 24 + 1
    assert rows(connected, "incidents") <= 365 + 2
    with connected() as connection:
        kept = connection.execute(text("SELECT count(*) FROM incidents WHERE closed_at IS NULL")).scalar_one()
    assert kept == 1, "an open one stays, however old"
    assert retention.purge_if_due(runtime, Keep(), backend) == {}, "it was done just now"


def test_keep_times_are_the_projects(connected, runtime, backend, deployed) -> None:
    deployed("flights")
    with connected() as connection:
        for statement in YEAR.strip().split(";\n")[:1]:
            connection.execute(text(statement))
    retention.purge_if_due(runtime, Keep(batches="2d"), backend)
    assert rows(connected, "batches") <= 2 * 72 + 1


def test_a_purge_that_has_no_time_left_goes_on_with_the_next(connected, runtime, backend) -> None:
    with connected() as connection:
        connection.execute(text(YEAR.strip().split(";\n")[0]))
    assert retention.tidy(connected, runtime, Keep(), backend, box_s=0.0).rows == {}
    assert retention.tidy(connected, runtime, Keep(), backend).rows["batches"] > 0


def test_figures_of_removed_streams_go_and_those_of_others_stay(connected, runtime, backend, deployed) -> None:
    deployed("flights", "old")
    with connected() as connection:
        for name in ("flights", "old"):
            observations.record(connection, name, batch_id=1)
        streams.remove(connection, "old")
        connection.execute(text("UPDATE streams SET removed_at = now() - interval '8 days' WHERE id = 'old'"))
    retention.tidy(connected, runtime, Keep(), backend)
    with connected() as connection:
        assert set(observations.latest(connection)) == {"flights"}


def launch(folder, days: float) -> None:
    (folder / "events").mkdir(parents=True)
    (folder / "tmp").mkdir()
    for file in (folder / "launch.json", folder / "driver.log", folder / "events" / "x", folder / "tmp" / "block"):
        file.write_text("x" * 100)
    moment = time.time() - days * 86_400
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (moment, moment))


def test_old_launches_go_the_newest_and_the_living_stay(tmp_path) -> None:
    for day in range(30):
        launch(tmp_path / "nyc" / f"202601{30 - day:02}T000000-a", day + 0.5)
    launch(tmp_path / "gone" / "20250101T000000-a", 400)
    living = tmp_path / "nyc" / "20260101T000000-a"
    removed = retention.launches(tmp_path, [living.resolve()], timedelta(days=14))
    left = sorted(item.name for item in (tmp_path / "nyc").iterdir())
    assert removed == 15
    assert left[0] == living.name, "it runs"
    assert len(left) == 15
    assert (tmp_path / "gone" / "20250101T000000-a" / "driver.log").exists(), "the newest of a driver tells its story"
    assert not (tmp_path / "gone" / "20250101T000000-a" / "tmp").exists()
    assert (living / "tmp").exists()


def test_a_folder_that_is_no_launch_is_left_alone(tmp_path) -> None:
    for day in (100, 200):
        launch(tmp_path / "mine" / f"photos-{day}", day)
        (tmp_path / "mine" / f"photos-{day}" / "launch.json").unlink()
    for path in (*tmp_path.rglob("*"),):
        os.utime(path, (0, 0))
    assert retention.launches(tmp_path, [], timedelta(days=14)) == 0
    assert all((tmp_path / "mine" / f"photos-{day}" / "tmp" / "block").exists() for day in (100, 200))


def test_a_launch_that_just_begins_is_left_alone(tmp_path) -> None:
    launch(tmp_path / "nyc" / "20260101T000000-a", 0)
    assert retention.launches(tmp_path, [], timedelta(0)) == 0
    assert (tmp_path / "nyc" / "20260101T000000-a" / "tmp").exists()


def test_what_a_living_driver_prints_is_kept_short_while_it_goes_on_printing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(retention, "STDOUT_BYTES", 1000)
    folder = tmp_path / "nyc" / "20260101T000000-a"
    folder.mkdir(parents=True)
    (folder / "launch.json").touch()
    with (folder / "stdout.log").open("ab", buffering=0) as driver:
        driver.write(b"x" * 5000)
        retention.launches(tmp_path, [folder.resolve()], timedelta(days=1))
        driver.write(b"on")
    assert (folder / "stdout.log").read_bytes() == b"on"
    assert (folder / "stdout.log.1").stat().st_size == 100


def test_no_folder_is_touched_while_the_backend_cannot_be_asked(connected, runtime, backend) -> None:
    launch(runtime.drivers / "nyc" / "20260101T000000-a", 99)
    launch(runtime.drivers / "nyc" / "20260102T000000-a", 98)

    class Away:
        name = "local"

        def find(self, known):
            from lakeward.platform.errors import DependencyDown

            raise DependencyDown("away")

    assert retention.tidy(connected, runtime, Keep(), Away()).folders == 0
    assert retention.tidy(connected, runtime, Keep(), backend).folders == 1
    with connected() as connection:
        assert events.newest(connection, "stack", "registry") == []
