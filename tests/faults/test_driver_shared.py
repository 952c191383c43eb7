"""Streams that share a driver: what happens to one is nothing to the others, and none of it takes a restart.

One driver runs for all tests here: it takes up the streams that a test deploys, and goes on when they are removed.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from consumer_groups import committed
from sqlalchemy import text
from world import World, no_password_in

from lakeward.operations.request import Request, StreamOperation
from lakeward.operations.runner import Runner
from lakeward.platform.errors import Unhealthy
from lakeward.registry import backpressure, batches, drivers, events, generations, leases, streams, writer_pauses
from lakeward.registry.backpressure import Level
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.backends.base import Life
from lakeward.supervision.backends.local import LocalBackend
from lakeward.tables.act.writer_pause import pause_writers

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

HANGS = "SELECT *, CASE WHEN n = 666 THEN java_method('java.lang.Thread', 'sleep', 3600000L) END AS slept FROM source"
POISON = "SELECT *, CASE WHEN n = 13 THEN CAST(raise_error('unlucky') AS INT) END AS luck FROM source"
REWRITE = "CALL lake.system.rewrite_data_files(table => 'lake.{}', options => map('rewrite-all', 'true'))"


def _run_id(world: Any, stream: str) -> str | None:
    seen = world.observation(stream)
    return None if seen is None or seen.query_state == "failed" else seen.run_id


def _events(world: Any, stream: str, kind: str) -> list[events.Event]:
    with world.connect() as connection:
        return [each for each in events.newest(connection, "stream", stream) if each.kind == kind]


def test_a_neighbour_that_comes_changes_goes_fails_or_hangs_leaves_the_others_running(
    host: World, simple: Callable[..., Any]
) -> None:
    world, driver = host, host.started[0]
    topic = world.kafka.create_topic(partitions=2)
    calm, other, poison, hangs = (f"{world.name}_{name}" for name in ("calm", "other", "poison", "hangs"))

    def deploy(stream: str, **more: Any) -> None:
        world.deploy(simple(stream, topic, f"{world.name}.{stream}", **more))

    deploy(calm)
    deploy(other)
    sent = list(range(1000, 1600))  # more than one batch
    world.numbers(topic, sent)

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
    assert _run_id(world, calm) == run, "the neighbour's query was started again"
    assert len(_events(world, calm, "started")) == 1
    assert _events(world, other, "stopped")
    assert driver.process.poll() is None
    world.wait_for("the watch", lambda: (world.observation(calm).watch or {}).get("partitions"))
    watch = world.observation(calm).watch
    assert {part["partition"] for part in watch["partitions"]} == {0, 1}
    assert watch["retention_s"] == 7 * 86_400, "the broker's default"
    assert watch["phases"]["addBatch"] > 0
    with world.connect() as connection:
        assert sum(batch.core_s or 0 for batch in batches.newest(connection, calm)) > 0
    world.wait_for("lag", lambda: world.observation(calm).lag_records == 0)
    group = f"lakeward.{calm}"
    world.wait_for(
        "the landed offsets in Kafka's group",
        lambda: sum(committed(world.kafka.bootstrap, group, topic, 2).values()) == len(sent),
    )
    with world.connect() as connection:
        assert leases.current(connection, "stream", [calm])[calm].live
        for each in (calm, bad, poison, hangs):
            streams.remove(connection, each)
    for line in driver.log():
        assert {"event", "level", "timestamp"} <= set(line), line
        # Py4J says by itself that the call of the hung batch was cut off.
        assert "driver" in line or line["logger"] == "root", line
    no_password_in(world, driver)


@pytest.mark.campaign(
    held_by="tests/unit/driver/test_maintenance_pause.py::"
    "test_only_a_stream_that_changes_rows_of_that_table_rests_and_goes_on_when_the_window_is_over"
)
@pytest.mark.parametrize(
    "rewrites",
    [False, True],
)
def test_it_rests_for_the_rewrite_and_goes_on_after_it_also_when_the_maintenance_dies(
    host: World, simple: Callable[..., Any], rewrites: bool
) -> None:
    """Without a rewrite the pause lasts as long as several batches: nothing lands in it."""
    world, driver = host, host.started[0]
    name = f"rewritten_{rewrites}".lower()
    topic, stream, table = world.kafka.create_topic(), f"{world.name}_{name}", f"{world.name}.{name}"
    sink = {"iceberg": {"table": table, "mode": "upsert", "keys": ["n"], "order_by": "at"}}
    sql = {"sql": "SELECT n, s, _kafka_offset AS at FROM source"}
    limits = {"freshness": "15m", "stall": "30m"}
    more = {"lineage": "none", "limits": limits, "trigger": {"every": "1s"}}
    world.deploy(simple(stream, topic, table, sink=sink, transform=sql, **more))
    world.numbers(topic, range(5))

    def seq() -> int:
        return int((world.position(table, stream) or {"seq": 0})["seq"])

    world.wait_for("its first batch", seq)

    over = threading.Event()

    def send() -> None:
        while not over.wait(0.5):
            world.numbers(topic, range(5))

    sender = threading.Thread(target=send)
    sender.start()
    try:
        before = seq()
        world.wait_for("batches without a pause", lambda: seq() > before + 2)
        with pause_writers(world.connect, table, [stream], wait_s=300) as rested:
            assert rested.awake == ()
            landed = seq()
            if rewrites:
                world.lake_sql(REWRITE.format(table))  # takes many times as long as a batch
                head = world.catalog().load_table(table).current_snapshot()
                assert head.summary.operation.value == "replace", "the rewrite landed"
            else:
                time.sleep(4)  # four intervals: that nothing lands cannot be waited for
            assert seq() == landed, "no batch landed during the pause"
        world.wait_for("it to go on", lambda: seq() > landed)
        assert world.stream(stream).blocked is None

        with world.connect() as connection:  # a maintenance that dies at once: nobody renews
            assert leases.take(connection, writer_pauses.WINDOW, table, "dead", "nobody", timedelta(seconds=60))
        world.wait_for("it to rest", lambda: not asleep(world, stream))
        with world.connect() as connection:
            connection.execute(text("UPDATE leases SET until = now() + interval '3 s' WHERE token = 'dead'"))
        landed, since = seq(), time.monotonic()
        world.wait_for("it to go on by itself", lambda: seq() > landed)
        assert time.monotonic() - since < 300

        with world.connect() as connection:  # maintenance is behind, and the stream is to wait for it
            backpressure.set_level(connection, table, Level.HOLD, "1000 commits")
        world.wait_for("it to wait", lambda: driver.events("back-pressure: stream waits for maintenance"))
        world.wait_for("the batch under way to end", lambda: held_for(seq, 4))
        with world.connect() as connection:
            backpressure.set_level(connection, table, Level.OK, "")
        landed = seq()
        world.wait_for("it to go on at its own pace", lambda: seq() > landed)
    finally:
        over.set()
        sender.join()
        with world.connect() as connection:
            streams.remove(connection, stream)


def held_for(seq: Callable[[], int], seconds: float) -> bool:
    """Whether nothing landed meanwhile, although records kept coming."""
    landed = seq()
    time.sleep(seconds)
    return seq() == landed


def asleep(world: Any, stream: str) -> list[str]:
    with world.connect() as connection:
        return writer_pauses.running(connection, [stream])


@pytest.fixture
def disks(host: World) -> Iterator[dict[str, Path]]:
    """Two small disks of the stream `full` alone: for its checkpoint, and for its table."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a disk of its own")
    stream, lake = f"{host.name}_full", Path(host.runtime.lake.warehouse)
    made = {"checkpoints": Path(host.runtime.checkpoints) / stream, "warehouse": lake / host.name / "full"}
    with ExitStack() as held:
        for place in made.values():
            place.mkdir(parents=True)
            done = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)], capture_output=True, check=False
            )
            if done.returncode:
                pytest.skip(f"no disk can be mounted here: {done.stderr.decode().strip()}")
            held.callback(subprocess.run, ["umount", "--lazy", str(place)], check=True)
        yield made


def fill(disk: Path) -> Path:
    """Leave no byte free on it."""
    filler = disk / "somebody-elses-file"
    with filler.open("wb", buffering=0) as stream:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    stream.write(b"\0" * size)
            except OSError:
                continue
    return filler


def test_a_full_disk_is_named_burns_no_patience_and_loses_nothing(
    host: World, simple: Callable[..., Any], disks: dict[str, Path]
) -> None:
    world, driver = host, host.started[0]
    topic, table = world.kafka.create_topic(), f"{world.name}.full"
    stream = world.deploy(simple(f"{world.name}_full", topic, table, restart={"max_backoff": "1s"}))
    world.numbers(topic, range(100))
    world.wait_landed(table, stream, 100)

    def failures() -> list[dict[str, Any]]:
        return [each for each in driver.events("stream failed, will restart") if each["stream"] == stream]

    for number, place in enumerate(disks, start=1):
        before = len(failures())
        filler = fill(disks[place])
        world.numbers(topic, range(100 * number, 100 * (number + 1)))
        *_, failed = world.wait_for(
            f"the failure for want of room in {place}",
            lambda before=before: failures()[before:],
        )
        assert (failed["failure_class"], failed["cause"]) == ("dependency", "disk full"), driver.said()
        seen = world.wait_for(
            "the record", lambda: (found := world.observation(stream)) is not None and found.error and found
        )
        assert seen.error["class"] == "dependency"
        assert world.stream(stream).blocked is None
        filler.unlink()
        world.wait_landed(table, stream, 100 * (number + 1))

    with world.connect() as connection:
        streams.remove(connection, stream)
    world.wait_for("its stop", lambda: world.observation(stream).query_state == "stopped")
    assert sorted(row["n"] for row in world.rows(table)) == list(range(300))


@pytest.fixture
def lone(world: World) -> Iterator[World]:
    """A world whose drivers the backend starts."""
    yield world
    backend = LocalBackend(world.runtime.drivers)
    for job in backend.find():
        if job.life is not Life.GONE:
            backend.kill(job)


@pytest.mark.parametrize(
    "restarted",
    [
        False,
        pytest.param(
            True,
            marks=pytest.mark.campaign(
                held_by="tests/unit/operations/test_operations.py::test_restart_is_a_new_launch_of_a_lone_stream"
            ),
        ),
    ],
)
def test_a_generation_proves_itself_or_gives_way_and_any_can_come_back(
    request: Any, simple: Callable[..., Any], restarted: bool
) -> None:
    """No row is lost or doubled. What is `restarted` is a driver of the stream's own, which the backend starts."""
    world = request.getfixturevalue("lone" if restarted else "host")
    backend = LocalBackend(world.runtime.drivers)
    topic, table = world.kafka.create_topic(), f"{world.name}.generations"
    document = simple(f"{world.name}_generations", topic, table, resources={"driver": world.name})
    stream = world.deploy(document, desired="stopped")
    sent = count()

    def meanwhile(seconds: float) -> None:
        """While somebody waits, records go on coming."""
        world.numbers(topic, [next(sent) for _ in range(10)])
        time.sleep(seconds)

    operator = Runner(
        world.connect, world.runtime, author="ann", holder="a test", backend=backend, timeout_s=900.0,
        sleep=meanwhile, analyse=lambda spec, has, runtime: [],
    )  # fmt: skip

    def pend(number: int, **changed: Any) -> None:
        spec = StreamSpec.model_validate({"owner": "tests", **document, **changed})
        with world.connect() as connection:
            generations.add(
                connection, stream=stream, generation=number, spec=spec.document(), digest=uuid4().hex, sql=None,
                code={}, versions={}, author="ann", checkpoint=f"{world.runtime.checkpoints}/{stream}/1",
            )  # fmt: skip
            streams.set_pending(connection, stream, number)

    def launched() -> str:
        with world.connect() as connection:
            row = drivers.find(connection, world.name)
        assert row is not None
        return str(row.token)

    meanwhile(0.0)
    operator.run(Request(StreamOperation.START, stream))
    first = launched()

    pend(2, trigger={"every": "300ms"})
    assert "generation 2 is stable" in operator.run(Request(StreamOperation.UPGRADE, stream)).detail

    assert launched() == first, "an upgrade does not restart the driver"

    pend(3, transform={"sql": "SELECT *, 1 AS extra FROM source"})  # the table has no such column
    with pytest.raises(Unhealthy, match="generation 2 runs again") as failed:
        operator.run(Request(StreamOperation.UPGRADE, stream))
    assert "other columns than table" in failed.value.why
    assert world.stream(stream).generation == 2

    operator.run(Request(StreamOperation.ROLLBACK, stream, generation=1))
    assert world.stream(stream).generation == 1

    if restarted:
        operator.run(Request(StreamOperation.RESTART, stream))
        assert launched() != first
    operator.run(Request(StreamOperation.STOP, stream))
    with world.connect() as connection:
        streams.remove(connection, stream)
    end = next(sent)
    rows = sorted(row["n"] for row in world.rows(table))
    assert rows == list(range(len(rows)))
    assert len(rows) <= end
