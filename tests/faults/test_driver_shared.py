"""Streams that share a driver: what happens to one is nothing to the others; and the driver's life as a process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from consumer_groups import committed

from lakeward.registry import batches, drivers, events, leases, streams

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

HANGS = "SELECT *, CASE WHEN n = 666 THEN java_method('java.lang.Thread', 'sleep', 3600000L) END AS slept FROM source"
POISON = "SELECT *, CASE WHEN n = 13 THEN CAST(raise_error('unlucky') AS INT) END AS luck FROM source"
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


def _run_id(world: Any, stream: str) -> str | None:
    seen = world.observation(stream)
    return None if seen is None or seen.query_state == "failed" else seen.run_id


def _events(world: Any, stream: str, kind: str) -> list[events.Event]:
    with world.connect() as connection:
        return [each for each in events.newest(connection, "stream", stream) if each.kind == kind]


def test_a_neighbour_that_comes_changes_goes_fails_or_hangs_leaves_the_others_running(
    world: Any, simple: Callable[..., Any]
) -> None:
    """Then the driver ends, and a second life goes on where the first one ended, and replays nothing."""
    topic = world.kafka.create_topic(partitions=2)
    calm, other, poison, hangs = (f"{world.name}_{name}" for name in ("calm", "other", "poison", "hangs"))

    def deploy(stream: str, **more: Any) -> None:
        world.deploy(simple(stream, topic, f"{world.name}.{stream}", **more))

    deploy(calm)
    deploy(other)
    sent = list(range(1000, 1600))  # more than one batch
    world.numbers(topic, sent)
    driver = world.launch()

    def more(*numbers: int) -> None:
        world.numbers(topic, numbers)
        sent.extend(numbers)

    def all_landed() -> None:
        world.wait_landed(f"{world.name}.{calm}", calm, len(sent))

    all_landed()
    run = world.wait_for("its run", lambda: _run_id(world, calm))

    # A new generation of a neighbour, one that goes, one with bad SQL, one that meets a poison record, one that hangs.
    world.wait_landed(f"{world.name}.{other}", other, len(sent))
    world.deploy(simple(other, topic, f"{world.name}.{other}", trigger={"every": "1s"}), generation=2)
    bad = f"{world.name}_bad"
    deploy(bad, transform={"sql": "SELECT missing FROM source"})
    deploy(poison, transform={"sql": POISON}, restart={"max_backoff": "1s"})
    deploy(hangs, transform={"sql": HANGS}, limits={"stall": "3s"}, restart={"max_backoff": "1s"})
    world.wait_landed(f"{world.name}.{poison}", poison, len(sent))
    world.wait_landed(f"{world.name}.{hangs}", hangs, len(sent))
    world.wait_for("the new generation", lambda: any("2" in each.text for each in _events(world, other, "started")))
    with world.connect() as connection:
        streams.remove(connection, other)
    more(13, 666)
    all_landed()

    unfit = world.wait_for("the block of the bad SQL", lambda: world.stream(bad).blocked)
    assert unfit["reason"] == "config"
    assert "`missing`" in unfit["why"]
    assert world.observation(bad).error["class"] == "config"

    blocked = world.wait_for("the poison's block", lambda: world.stream(poison).blocked)
    assert blocked["reason"] == "poison", blocked
    assert "failed 3 times in the same way" in blocked["what"]
    assert "unlucky" in blocked["error"]
    assert topic in blocked["offsets"]["source"]["end"]
    assert any("stream failed, will restart" in line for line in blocked["log"])

    def dumps() -> list[str]:
        """On a busy machine another batch may take as long as one that hangs."""
        found = [Path(each.fields["dump"]).read_text() for each in _events(world, hangs, "hung")]
        return [text for text in found if "java.lang.Thread.sleep" in text]

    [dump, *_] = world.wait_for("the hung batch and its threads", dumps)
    assert "Python threads" in dump
    world.wait_for("its restart in this process", lambda: len(_events(world, hangs, "started")) >= 2)
    assert world.wait_for("the hanging batch's block", lambda: world.stream(hangs).blocked)["reason"] == "poison"
    assert "hung batch" in world.stream(hangs).blocked["error"]

    more(*range(2000, 2010))
    all_landed()
    assert _run_id(world, calm) == run, "the neighbour's query was started anew"
    assert len(_events(world, calm, "started")) == 1
    assert _events(world, other, "stopped")
    assert driver.process.poll() is None
    world.wait_for("the watch", lambda: (world.observation(calm).watch or {}).get("partitions"))
    watch = world.observation(calm).watch
    assert {part["partition"] for part in watch["partitions"]} == {0, 1}
    assert watch["retention_s"] == 7 * 86_400, "the broker's default"
    assert watch["phases"]["addBatch"] > 0
    world.wait_for("lag", lambda: world.observation(calm).lag_records == 0)
    group = f"lakeward.{calm}"
    world.wait_for(
        "the landed offsets in Kafka's group",
        lambda: sum(committed(world.kafka.bootstrap, group, topic, 2).values()) == len(sent),
    )
    with world.connect() as connection:
        assert leases.current(connection, "stream", [calm])[calm].live

    assert driver.terminate() == 0, driver.said()
    assert driver.exit_file()["exit_code"] == 0
    with world.connect() as connection:
        found = drivers.find(connection, world.name)
        assert (found.state, found.exit_code) == ("exited", 0)
        assert leases.current(connection, "stream", [calm]) == {}
    stopped = [line for line in driver.events("stream stopped") if line["stream"] == calm]
    assert [line["at_a_boundary"] for line in stopped] == [True]

    # A second life goes on where the first one ended, and replays nothing.
    more(*range(3000, 3300))
    again = world.launch()
    all_landed()
    world.desire(calm, "stopped")
    assert again.exit() == 0, again.said()
    assert sorted(row["n"] for row in world.rows(f"{world.name}.{calm}")) == sorted(sent)
    assert sum(committed(world.kafka.bootstrap, group, topic, 2).values()) == len(sent), "also of a stopped stream"
    with world.connect() as connection:
        kept = batches.newest(connection, calm, limit=1000)
    assert not any(each.replayed for each in kept)
    assert sum(each.landed for each in kept) == len(sent)
    assert [each.seq for each in reversed(kept)] == list(range(1, len(kept) + 1))

    # What an on-call engineer reads. The event log is there to be opened.
    for line in driver.log() + again.log():
        assert {"event", "level", "timestamp"} <= set(line), line
        # Py4J says by itself that the call of the hung batch was cut off.
        assert "driver" in line or (line["logger"] == "root" and line not in again.log()), line
    assert not [line for line in again.log() if line["level"] == "error"], again.said()
    secret = world.pgpass.read_text().strip().splitlines()[0].rsplit(":", 1)[-1]
    for each in (driver, again):
        for name in ("driver.log", "spark.log", "stdout.log", "launch.json", "exit.json"):
            assert secret not in (each.launch.folder / name).read_text(), f"the password stands in {name}"
    for name in ("driver.log", "spark.log"):
        for line in (again.launch.folder / name).read_text().splitlines():
            assert isinstance(json.loads(line), dict), f"{name} is JSON lines"
    [log] = (driver.launch.folder / "events").iterdir()
    assert any(each.name.startswith("events_1_") for each in log.iterdir())


def test_a_jvm_that_dies_or_loses_its_spark_context_under_its_driver_is_named(
    world: Any, simple: Callable[..., Any], tmp_path: Path
) -> None:
    """An error that is fatal to one of the JVM's threads stops the context: the JVM runs on, and nothing ever lands."""
    topic, hook, flag = world.kafka.create_topic(), tmp_path / "hook", tmp_path / "now"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(STOP_THE_CONTEXT)
    stream, table = f"{world.name}_s", f"{world.name}.t"
    world.deploy(simple(stream, topic, table, transform={"sql": MEMORY}))
    world.numbers(topic, range(14, 19))
    first = world.launch(env={"PYTHONPATH": str(hook), "STOP_THE_CONTEXT": str(flag)})
    world.wait_landed(table, stream, 5)
    flag.touch()
    assert first.exit() == 1, first.said()
    told = first.exit_file()
    assert (told["failure_class"], told["cause"]) == ("infra", "dead JVM")
    assert "its Spark context was stopped" in told["error"]
    assert world.stream(stream).blocked is None

    # The next one lands what came meanwhile, and its JVM is killed.
    world.numbers(topic, range(19, 24))
    driver = world.launch()
    world.wait_landed(table, stream, 10)
    assert sorted(row["n"] for row in world.rows(table)) == list(range(14, 24))
    driver.jvm().kill()
    assert driver.exit() == 1, driver.said()
    said = driver.exit_file()
    assert (said["failure_class"], said["cause"]) == ("infra", "dead JVM"), said
    assert "killed by signal 9" in said["error"]

    # A record that takes all the memory there is: the batch is named, with its offsets.
    world.forget_leases()
    world.numbers(topic, [13])
    again = world.launch()
    assert again.exit() == 1, again.said()
    said = again.exit_file()
    assert (said["failure_class"], said["cause"], said["stream"]) == ("infra", "out of memory", stream), said
    assert (said["batch_id"], said["offsets"]["source"]["end"]) == (2, f'{{"{topic}":{{"0":11}}}}')
    with world.connect() as connection:
        told = events.newest(connection, "driver", world.name)
    assert [each.fields["cause"] for each in told if each.kind == "ended"] == [
        "dead JVM",
        "dead JVM",
        "out of memory",
    ]
