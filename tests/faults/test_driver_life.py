"""The life of a driver as a process: how it ends, what it says then, and that the next one goes on where it ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from consumer_groups import committed
from world import no_password_in

from lakeward.registry import batches, drivers, events, leases

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

MEMORY = "SELECT *, length(repeat(s, CASE WHEN n = 13 THEN 300000000 ELSE 1 END)) AS long FROM source"

STOP_THE_CONTEXT = """
import os, pathlib, threading, time

def wait():
    while not pathlib.Path(os.environ["STOP_THE_CONTEXT"]).exists():
        time.sleep(0.1)
    from pyspark import SparkContext
    SparkContext._active_spark_context._jsc.sc().stop()

if "STOP_THE_CONTEXT" in os.environ:
    threading.Thread(target=wait, daemon=True).start()
"""


def test_a_driver_that_is_asked_to_end_before_spark_is_up_ends(world: Any, simple: Callable[..., Any]) -> None:
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


def test_every_end_has_its_name_and_the_next_launch_goes_on_where_the_last_one_ended(
    world: Any, simple: Callable[..., Any], tmp_path: Path
) -> None:
    """A stop at a batch boundary, a Spark context that stops, and a record that fills the memory of a JVM, which ends.

    An error that is fatal to one of the JVM's threads stops the context: the JVM runs on, and nothing ever lands.
    """
    hook, flag = tmp_path / "hook", tmp_path / "now"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(STOP_THE_CONTEXT)
    topic, many = world.kafka.create_topic(), world.kafka.create_topic(partitions=2)
    stream, table = f"{world.name}_s", f"{world.name}.t"
    calm, its = f"{world.name}_calm", f"{world.name}.calm"
    world.deploy(simple(stream, topic, table, transform={"sql": MEMORY}))
    world.deploy(simple(calm, many, its))
    world.numbers(topic, range(14, 19))
    sent = list(range(1000, 1600))  # more than one batch
    world.numbers(many, sent)
    group = f"lakeward.{calm}"

    def offsets() -> int:
        return sum(committed(world.kafka.bootstrap, group, many, 2).values())

    driver = world.launch()
    world.wait_landed(table, stream, 5)
    world.wait_landed(its, calm, len(sent))
    world.wait_for("the landed offsets in Kafka's group", lambda: offsets() == len(sent))
    assert driver.terminate() == 0, driver.said()
    assert driver.exit_file()["exit_code"] == 0
    with world.connect() as connection:
        found = drivers.find(connection, world.name)
        assert (found.state, found.exit_code) == ("exited", 0)
        assert leases.current(connection, "stream", [calm]) == {}
    stopped = [line for line in driver.events("stream stopped") if line["stream"] == calm]
    assert [line["at_a_boundary"] for line in stopped] == [True]

    # The second launch goes on where the first one ended, and replays nothing.
    sent += range(3000, 3300)
    world.numbers(many, range(3000, 3300))
    again = world.launch(env={"PYTHONPATH": str(hook), "STOP_THE_CONTEXT": str(flag)})
    world.wait_landed(its, calm, len(sent))
    world.desire(calm, "stopped")
    world.wait_for("its stop", lambda: world.observation(calm).query_state == "stopped")
    assert sorted(row["n"] for row in world.rows(its)) == sorted(sent)
    world.wait_for("the offsets of a stopped stream", lambda: offsets() == len(sent))
    with world.connect() as connection:
        kept = batches.newest(connection, calm, limit=1000)
    assert not any(each.replayed for each in kept)
    assert sum(each.landed for each in kept) == len(sent)
    assert [each.seq for each in reversed(kept)] == list(range(1, len(kept) + 1))

    # What an on-call engineer reads. The event log is there to be opened.
    for line in driver.log() + again.log():
        assert {"event", "level", "timestamp", "driver"} <= set(line), line
    assert not [line for line in again.log() if line["level"] == "error"], again.said()
    for each in (driver, again):
        no_password_in(world, each)
    for name in ("driver.log", "spark.log"):
        for line in (again.launch.folder / name).read_text().splitlines():
            assert isinstance(json.loads(line), dict), f"{name} is JSON lines"
    [log] = (driver.launch.folder / "events").iterdir()
    assert any(each.name.startswith("events_1_") for each in log.iterdir())

    flag.touch()
    assert again.exit() == 1, again.said()
    told = again.exit_file()
    assert (told["failure_class"], told["cause"]) == ("infra", "dead JVM")
    assert "its Spark context was stopped" in told["error"]
    assert world.stream(stream).blocked is None

    # The next one lands what came meanwhile. Then a record takes all the memory there is: the batch is named, with its
    # offsets.
    world.numbers(topic, range(19, 24))
    last = world.launch()
    world.wait_landed(table, stream, 10)
    assert sorted(row["n"] for row in world.rows(table)) == list(range(14, 24))
    world.numbers(topic, [13])
    assert last.exit() == 1, last.said()
    said = last.exit_file()
    assert (said["failure_class"], said["cause"], said["stream"]) == ("infra", "out of memory", stream), said
    assert (said["batch_id"], said["offsets"]["source"]["end"]) == (2, f'{{"{topic}":{{"0":11}}}}')
    with world.connect() as connection:
        told = events.newest(connection, "driver", world.name)
    ends = [each.fields.get("cause") for each in told if each.kind == "ended"]
    assert [each for each in ends if each] == ["dead JVM", "out of memory"], told


@pytest.mark.campaign(held_by="tests/unit/driver/test_jvm.py::test_a_dead_jvm_ends_in_a_named_class")
def test_a_driver_whose_jvm_is_killed_says_so(world: Any, simple: Callable[..., Any]) -> None:
    topic, table = world.kafka.create_topic(), f"{world.name}.t"
    stream = world.deploy(simple(f"{world.name}_s", topic, table))
    world.numbers(topic, range(5))
    driver = world.launch()
    world.wait_landed(table, stream, 5)
    driver.jvm().kill()
    assert driver.exit() == 1, driver.said()
    said = driver.exit_file()
    assert (said["failure_class"], said["cause"]) == ("infra", "dead JVM"), said
    assert "killed by signal 9" in said["error"]
