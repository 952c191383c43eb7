"""Trouble is caused on real parts, and what `next` says is typed, as often as it changes, until the stream is healthy.

Nobody else reconciles: the commands themselves keep the driver alive, as with Airflow down.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typed import commands, parsed
from world import World

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

MOST = 6
"""Steps until the stream must be healthy."""


class Desk:
    """What on-call has: a project and the command line."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.project, self.home = folder / "project", folder / "home"
        (self.project / "conf" / "streams").mkdir(parents=True)
        secrets = self.home / "secrets"
        secrets.mkdir(parents=True)
        (self.home / "runtime.json").write_text(world.runtime.model_dump_json())
        (secrets / "registry.url").write_text(world.url)
        shutil.copy(world.pgpass, secrets / "pgpass")
        (secrets / "pgpass").chmod(0o600)
        self.typed: list[str] = []

    def write(self, document: dict[str, Any]) -> None:
        """Write a stream's file; JSON is YAML."""
        document = {"owner": "tests", **document}
        (self.project / "conf" / "streams" / f"{document['id']}.yaml").write_text(json.dumps(document))

    def type(self, command: str, *more: str) -> tuple[int, str]:
        """Type a command; returns its exit code and what it printed."""
        self.typed.append(command)
        words = [*shlex.split(command)[1:], "--project", str(self.project), "--home", str(self.home), *more]
        # A process of its own, as a person has: an upgrade starts a Spark session that must not stay in the tests'.
        done = subprocess.run(
            [sys.executable, "-m", "lakeward", *words], capture_output=True, text=True, timeout=600, check=False
        )
        return done.returncode, done.stdout if more else done.stdout + done.stderr

    def done(self, command: str) -> None:
        """Type a command that must succeed."""
        if command.startswith("lakeward sql --write"):
            parsed(command)
            self._sql(shlex.split(command)[-1])  # this deployment has no Spark Connect server
            return
        code, told = self.type(command)
        assert code == 0, f"{command} ended with {code}: {told}"

    def _sql(self, statement: str) -> None:
        """Run a statement as `lakeward sql` would, in a Spark of its own."""
        launch = max(self.world.runtime.drivers.rglob("launch.json"), key=lambda file: file.stat().st_mtime)
        script = Path(__file__).parents[1] / "support" / "lake_sql.py"
        command = [sys.executable, str(script), str(launch), str(self.home / f"sql-{len(self.typed)}"), statement]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def status(self, stream: str) -> dict[str, Any]:
        return dict(json.loads(self.type(f"lakeward streams status {stream}", "-o", "json")[1]))

    def healthy_by_its_next(self, stream: str, correct: Callable[[], None] = lambda: None) -> list[str]:
        """Type the first way of `next` until the stream is healthy; `correct` does what the way says in prose first."""
        said: list[str] = []
        for _ in range(MOST):
            found = self.status(stream)
            if found["state"] == "healthy":
                return said
            way = found["next_text"].split("; or ")[0]
            said.append(way)
            if re.match(r"correct|restore", way):
                correct()
            for command in commands(way):
                if "streams start" in command and "--wait" not in command:
                    command += " --wait"  # a person looks again a moment later
                self.done(command)
        raise AssertionError(f"{stream} is not healthy after {said}")

    def blocked(self, stream: str) -> dict[str, Any]:
        self.world.wait_for(f"{stream} to be blocked", lambda: self.world.stream(stream).blocked)
        return self.status(stream)

    def exact(self, stream: str) -> None:
        code, told = self.type(f"lakeward streams audit {stream}", "-o", "json")
        assert code == 0, told
        assert (json.loads(told)["missing"], json.loads(told)["duplicates"]) == (0, 0)


@pytest.fixture
def desk(world: World, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(world, tmp_path / "desk")
    yield made
    for row in made.project.glob("conf/streams/*.yaml"):
        made.type(f"lakeward streams stop {row.stem} --kill --timeout 5s")


@contextmanager
def sending(world: World, topic: str, first: int) -> Iterator[None]:
    """One record after another while it is open."""
    over = threading.Event()

    def send() -> None:
        at = first
        while not over.wait(0.5):
            world.numbers(topic, [at])
            at += 1

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_wrong_transform_and_a_table_that_was_rolled_back_or_dropped(
    desk: Desk, world: World, simple: Callable[..., dict[str, Any]]
) -> None:
    topic, stream, table = world.kafka.create_topic(), f"{world.name}_n", f"{world.name}.n"
    sql = "SELECT *, 100 DIV (n - 7) AS part FROM source"
    wrong = simple(stream, topic, table, transform={"sql": sql}, restart={"max_backoff": "1s"})
    desk.write(wrong)
    desk.done("lakeward deploy")
    world.numbers(topic, range(5))
    desk.done(f"lakeward streams start {stream} --wait")

    world.numbers(topic, range(5, 10))  # 7 is a division by zero
    desk.blocked(stream)

    def right() -> None:
        sql = "SELECT *, CASE WHEN n = 7 THEN 0 ELSE 100 DIV (n - 7) END AS part FROM source"
        desk.write({**wrong, "transform": {"sql": sql}})

    with sending(world, topic, 10):
        said = desk.healthy_by_its_next(stream, right)
    assert "lakeward streams upgrade" in said[0]

    before = world.landed(table, stream)
    world.numbers(topic, range(1000, 1005))
    world.wait_landed(table, stream, before + 5)
    lake = world.catalog().load_table(table)
    parent = lake.current_snapshot().parent_snapshot_id
    lake.manage_snapshots().set_current_snapshot(snapshot_id=parent).commit()
    world.numbers(topic, [2000])
    assert desk.blocked(stream)["data"]["lost"] == "yes"
    said = desk.healthy_by_its_next(stream)
    assert "set_current_snapshot" in said[0]
    assert desk.status(stream)["data"]["lost"] == "no"

    world.catalog().drop_table(table)
    world.numbers(topic, [2001])
    assert desk.blocked(stream)["data"]["lost"] == "yes"
    said = desk.healthy_by_its_next(stream)
    assert "register_table" in said[0]
    assert desk.status(stream)["data"]["lost"] == "no"
    desk.exact(stream)
