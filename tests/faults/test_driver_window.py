"""A real driver whose stream changes rows: it rests while maintenance rewrites its table, and never for longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lakeward.registry import backpressure, leases, writer_pauses
from lakeward.registry.backpressure import Level
from lakeward.tables.act.writer_pause import pause_writers

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

REWRITE = "CALL lake.system.rewrite_data_files(table => 'lake.{}', options => map('rewrite-all', 'true'))"


@pytest.mark.parametrize(
    "rewrites",
    [
        False,
        pytest.param(
            True,
            marks=pytest.mark.campaign(
                held_by="test_it_rests_for_the_rewrite_and_goes_on_after_it_also_when_the_maintenance_dies"
            ),
        ),
    ],
)
def test_it_rests_for_the_rewrite_and_goes_on_after_it_also_when_the_maintenance_dies(
    world: Any, simple: Callable[..., Any], rewrites: bool
) -> None:
    """Without a rewrite the pause lasts as long as several batches: nothing lands in it."""
    topic, stream, table = world.kafka.create_topic(), f"{world.name}_up", f"{world.name}.up"
    sink = {"iceberg": {"table": table, "mode": "upsert", "keys": ["n"], "order_by": "at"}}
    sql = {"sql": "SELECT n, s, _kafka_offset AS at FROM source"}
    limits = {"freshness": "15m", "stall": "30m"}
    world.deploy(simple(stream, topic, table, sink=sink, transform=sql, lineage="none", limits=limits))
    world.numbers(topic, range(5))
    driver = world.launch()

    def seq() -> int:
        return int((world.position(table, stream) or {"seq": 0})["seq"])

    world.wait_for("its first batch", seq)

    over = threading.Event()

    def send() -> None:
        while not over.wait(0.2):
            world.numbers(topic, range(5))

    sender = threading.Thread(target=send)
    sender.start()
    try:
        before = seq()
        world.wait_for("batches without a pause", lambda: seq() > before + 2)
        with pause_writers(world.connect, table, [stream], wait_s=300) as rested:
            assert rested.awake == ()
            stands = seq()
            if rewrites:
                world.lake_sql(REWRITE.format(table))  # takes many times as long as a batch
                head = world.catalog().load_table(table).current_snapshot()
                assert head.summary.operation.value == "replace", "the rewrite landed"
            else:
                time.sleep(5)  # at an interval of half a second
            assert seq() == stands, "no batch landed beside the rewrite"
        world.wait_for("it to go on", lambda: seq() > stands)
        assert world.stream(stream).blocked is None

        with world.connect() as connection:  # a maintenance that dies at once: nobody renews
            assert leases.take(connection, writer_pauses.WINDOW, table, "dead", "nobody", timedelta(seconds=20))
        world.wait_for("it to rest", lambda: not asleep(world, stream))
        stands, since = seq(), time.monotonic()
        world.wait_for("it to go on by itself", lambda: seq() > stands)
        assert time.monotonic() - since < 300

        with world.connect() as connection:  # maintenance is behind, and the stream is to wait for it
            backpressure.set_level(connection, table, Level.HOLD, "1000 commits")
        world.wait_for("it to wait", lambda: driver.events("back-pressure: stream waits for maintenance"))
        world.wait_for("the batch under way to end", lambda: held_for(seq, 5))
        with world.connect() as connection:
            backpressure.set_level(connection, table, Level.OK, "")
        stands = seq()
        world.wait_for("it to go on at its own pace", lambda: seq() > stands)
    finally:
        over.set()
        sender.join()


def held_for(seq: Callable[[], int], seconds: float) -> bool:
    """Whether nothing landed meanwhile, although records kept coming."""
    stands = seq()
    time.sleep(seconds)
    return seq() == stands


def asleep(world: Any, stream: str) -> list[str]:
    with world.connect() as connection:
        return writer_pauses.running(connection, [stream])
