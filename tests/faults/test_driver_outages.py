"""PostgreSQL goes away under a running driver: commits pause and go on, no stream restarts."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from proxy import Proxy
from world import World

from lakeward.stack import private

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def through(world: World, port: int, folder: Path) -> World:
    """The same deployment for a driver whose catalog is at another port."""
    lines = world.pgpass.read_text().splitlines()
    more = [line.replace(f":{world.runtime.lake.port}:", f":{port}:", 1) for line in lines]
    passwords = private.write(folder / "both.pgpass", "\n".join([*lines, *more, ""]))
    lake = world.runtime.lake.model_copy(update={"port": port})
    runtime = world.runtime.model_copy(update={"lake": lake, "pgpass": passwords})
    return replace(world, pgpass=passwords, runtime=runtime)


# Longer than a lease lives (15 s).
@pytest.mark.parametrize("away_s", [20.0, pytest.param(60.0, marks=pytest.mark.campaign)])
def test_a_time_without_postgres_pauses_at_most_commits_and_restarts_nothing(
    private_postgres: Any, private_world: World, apart_world: World, simple: Callable[..., Any], tmp_path: Path,
    away_s: float,
) -> None:  # fmt: skip
    """The registry is away for both; the catalog is away for one, and lives elsewhere for the other.

    The other one's catalog is away at the start, too: that is named, and tried again until it answers.
    """
    held = socket.socket()
    held.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else gets it
    dead = held.getsockname()[1]
    drivers, topics = {}, {}
    for world in (private_world, apart_world):
        topics[world.name] = world.kafka.create_topic()
        stream = f"{world.name}_s"
        world.deploy(simple(stream, topics[world.name], f"{world.name}.t", restart={"max_backoff": "1s"}))
        world.numbers(topics[world.name], range(100))
        own = world if world is private_world else through(world, dead, tmp_path)
        drivers[world.name] = own.launch()

    stream, driver = f"{apart_world.name}_s", drivers[apart_world.name]
    [failed, *_] = apart_world.wait_for("the failure", lambda: driver.events("stream failed, will restart"))
    assert failed["failure_class"] == "dependency"
    assert f"127.0.0.1:{dead}" in failed["error"]

    def recorded() -> Any:
        seen = apart_world.observation(stream)
        return seen is not None and seen.query_state == "failed" and seen

    assert apart_world.wait_for("the record", recorded).error["class"] == "dependency"
    assert apart_world.stream(stream).blocked is None
    held.close()
    catalog = Proxy(apart_world.runtime.lake.port, dead)

    for world in (private_world, apart_world):
        world.wait_landed(f"{world.name}.t", f"{world.name}_s", 100)
    paused, landing = drivers[private_world.name], drivers[apart_world.name]

    def starts(name: str) -> tuple[int, int]:
        return tuple(len(drivers[name].events(e)) for e in ("stream started", "stream failed, will restart"))

    before = {name: starts(name) for name in drivers}
    assert before[private_world.name] == (1, 0)

    stopped = time.monotonic()
    private_postgres.stop()
    for world in (private_world, apart_world):
        world.numbers(topics[world.name], range(100, 200))
        world.wait_for(
            "the registry's absence",
            lambda world=world: drivers[world.name].events("registry unreachable"),
        )
    paused_at = private_world.wait_for("the batch that waits", lambda: paused.events("batch waits"))
    apart_world.wait_landed(f"{apart_world.name}.t", f"{apart_world.name}_s", 200)
    time.sleep(max(0.0, away_s - (time.monotonic() - stopped)))
    apart_world.numbers(topics[apart_world.name], range(200, 300))
    apart_world.wait_landed(f"{apart_world.name}.t", f"{apart_world.name}_s", 300)
    assert len(paused.events("batch waits")) == len(paused_at), "it says so once"
    assert not landing.events("batch waits")
    private_postgres.start()

    private_world.wait_landed(f"{private_world.name}.t", f"{private_world.name}_s", 200)
    for world, rows in ((private_world, 200), (apart_world, 300)):
        stream, table, driver = f"{world.name}_s", f"{world.name}.t", drivers[world.name]
        world.wait_for("the registry's return", lambda driver=driver: driver.events("registry reachable again"))
        seq = world.position(table, stream)["seq"]
        world.wait_for(
            "the record",
            lambda world=world, stream=stream, seq=seq: (
                (seen := world.observation(stream)) is not None and seen.seq == seq
            ),
        )
        assert starts(world.name) == before[world.name], "no stream restarts"
        world.desire(stream, "stopped")
        assert driver.exit() == 0, driver.said()  # it ends by itself with its last stream
        assert sorted(row["n"] for row in world.rows(table)) == list(range(rows))
    catalog.close()


@pytest.mark.campaign
def test_a_catalog_that_says_nothing_for_minutes_hangs_no_driver(
    world: Any, simple: Callable[..., Any], tmp_path: Path
) -> None:
    """Longer than the limit of an answer (60 s): its connections are given up, and made again when it is back."""
    topic, stream, table = world.kafka.create_topic(), f"{world.name}_s", f"{world.name}.t"
    world.deploy(simple(stream, topic, table))
    world.numbers(topic, range(100))
    database = Proxy(world.runtime.lake.port)
    driver = through(world, database.port, tmp_path).launch()
    world.wait_landed(table, stream, 100)
    database.set("hole")
    world.numbers(topic, range(100, 200))
    world.wait_for("the batch that gives up the silent catalog", lambda: driver.events("batch waits"))
    database.set("pass")
    world.wait_landed(table, stream, 200)
    assert len(driver.events("stream started")) == 1, "no stream restarts"
    assert not driver.events("stream failed, will restart")
    assert driver.terminate() == 0, driver.said()
    assert sorted(row["n"] for row in world.rows(table)) == list(range(200))
    database.close()
