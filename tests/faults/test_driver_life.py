"""A driver's life as a process: several streams in it, stopped and started, one of them failing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from consumer_groups import committed

from lakeward.registry import batches, drivers, leases

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def test_streams_share_a_driver_and_one_that_cannot_run_disturbs_no_other(
    world: Any, simple: Callable[..., Any]
) -> None:
    topic = world.kafka.create_topic(partitions=2)
    good, bad, table = f"{world.name}_good", f"{world.name}_bad", f"{world.name}.landed"
    world.deploy(simple(good, topic, table))
    world.deploy(simple(bad, topic, f"{world.name}.other", transform={"sql": "SELECT missing FROM source"}))
    world.numbers(topic, range(1200))
    driver = world.launch()
    world.wait_landed(table, good, 1200)

    blocked = world.wait_for("the block", lambda: world.stream(bad).blocked)
    assert blocked["reason"] == "config"
    assert "`missing`" in blocked["why"]
    assert world.observation(bad).error["class"] == "config"
    world.wait_for("lag", lambda: world.observation(good).lag_records == 0)
    group = f"lakeward.{good}"
    world.wait_for(
        "the landed offsets in Kafka's group",
        lambda: sum(committed(world.kafka.bootstrap, group, topic, 2).values()) == 1200,
    )
    with world.connect() as connection:
        assert leases.current(connection, "stream", [good])[good].live

    assert driver.terminate() == 0, driver.said()
    assert driver.exit_file()["exit_code"] == 0
    with world.connect() as connection:
        found = drivers.find(connection, world.name)
        assert (found.state, found.exit_code) == ("exited", 0)
        assert leases.current(connection, "stream", [good]) == {}
    assert driver.events("stream stopped")[0]["at_a_boundary"] is True

    # A second life goes on where the first one ended, and replays nothing.
    world.numbers(topic, range(1200, 1500))
    again = world.launch()
    world.wait_landed(table, good, 1500)
    world.desire(good, "stopped")
    assert again.exit() == 0, again.said()
    assert sorted(row["n"] for row in world.rows(table)) == list(range(1500))
    assert sum(committed(world.kafka.bootstrap, group, topic, 2).values()) == 1500, "also of a stopped stream"
    with world.connect() as connection:
        kept = batches.newest(connection, good, limit=1000)
    assert not any(each.replayed for each in kept)
    assert sum(each.landed for each in kept) == 1500
    assert [each.seq for each in reversed(kept)] == list(range(1, len(kept) + 1))

    # What an on-call engineer reads.
    for line in driver.log() + again.log():
        assert {"event", "level", "timestamp", "driver"} <= set(line), line
    assert not [line for line in again.log() if line["level"] == "error"], again.said()
    secret = world.pgpass.read_text().strip().splitlines()[0].rsplit(":", 1)[-1]
    for each in (driver, again):
        for name in ("driver.log", "spark.log", "stdout.log", "launch.json", "exit.json"):
            assert secret not in (each.launch.folder / name).read_text(), f"the password stands in {name}"
    for name in ("driver.log", "spark.log"):
        for line in (again.launch.folder / name).read_text().splitlines():
            assert isinstance(json.loads(line), dict), f"{name} is JSON lines"


def test_a_driver_that_is_told_to_end_before_spark_is_up_ends(world: Any, simple: Callable[..., Any]) -> None:
    topic = world.kafka.create_topic()
    world.deploy(simple(f"{world.name}_s", topic, f"{world.name}.t"))
    driver = world.launch()
    world.wait_for("its first words", lambda: driver.events("driver started"))
    world.wait_for("its JVM", lambda: _children(driver.pid))
    assert driver.terminate() == 0, driver.said()
    assert world.rows(f"{world.name}.t") == []


def _children(pid: int) -> list[int]:
    try:
        return [each.pid for each in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
