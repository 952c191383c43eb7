"""Two drivers of one stream: one ends with 75, and the table has every row once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def test_of_many_drivers_of_one_stream_the_newest_launch_lands_and_the_others_end(
    world: Any, simple: Callable[..., Any]
) -> None:
    """A running one is fenced by a newer launch; two zombies wake after compaction and expiry; one launch starts twice.

    One zombie is stopped between reading the table and publishing, the next one after staging its rows.
    """
    topic = world.kafka.create_topic()
    stream, table = f"{world.name}_s", f"{world.name}.t"
    world.deploy(simple(stream, topic, table))
    world.numbers(topic, range(100))
    first = world.launch()
    world.wait_landed(table, stream, 100)

    zombies = []
    for number, step in enumerate(("after-check", "after-stage")):
        env = {
            "LAKEWARD_FAILPOINT": step, "LAKEWARD_FAILPOINTS_ALLOWED": "1", "LAKEWARD_FAILPOINT_SIGNAL": "SIGSTOP",
        }  # fmt: skip
        zombie = world.launch(env=env)
        if number == 0:  # a driver that runs is fenced by a newer launch
            assert first.exit() == 75, first.said()
            assert first.exit_file()["failure_class"] == "fenced"
        world.numbers(topic, range(100 + 50 * number, 150 + 50 * number))
        world.wait_for(f"the stop {step}", zombie.stopped)
        zombie.freeze()
        world.forget_leases()
        zombies.append(zombie)

    token = "one-token-for-two-processes"
    pair = [world.launch(token=token), world.launch(token=token, intend=False, folder="second")]
    world.wait_for("the end of one", lambda: _ended(*pair))
    (loser,) = _ended(*pair)
    (successor,) = (each for each in pair if each is not loser)
    assert loser.process.returncode == 75, loser.said()
    assert not loser.events("spark started"), "it did nothing"
    world.numbers(topic, range(200, 300))
    world.wait_landed(table, stream, 300)
    world.lake_sql(
        f"CALL lake.system.rewrite_data_files(table => 'lake.{table}', options => map('rewrite-all', 'true'))",
        f"CALL lake.system.expire_snapshots(table => 'lake.{table}', older_than => TIMESTAMP '2100-01-01', "
        "retain_last => 1)",
    )
    before = world.position(table, stream)
    for zombie in zombies:
        zombie.wake()
    for zombie in zombies:
        assert zombie.exit() == 75, zombie.said()
        assert zombie.exit_file()["failure_class"] == "fenced"
    assert world.position(table, stream) == before, "a zombie moved the position"
    assert sorted(row["n"] for row in world.rows(table)) == list(range(300))
    world.numbers(topic, range(300, 320))
    world.wait_landed(table, stream, 320)
    assert successor.terminate() == 0, successor.said()
    assert len(successor.events("stream started")) == 1, "the zombies disturbed their successor"
    assert sorted(row["n"] for row in world.rows(table)) == list(range(320))


def test_a_zombie_of_a_sink_without_a_position_is_fenced_by_its_lease(world: Any, simple: Callable[..., Any]) -> None:
    topic, out = world.kafka.create_topic(), world.kafka.create_topic()
    document = simple(f"{world.name}_s", topic, f"{world.name}.t", sink={"kafka": {"topic": out}})
    world.deploy(document)
    world.numbers(topic, range(50))
    env = {
        "LAKEWARD_FAILPOINT": "batch-start", "LAKEWARD_FAILPOINTS_ALLOWED": "1", "LAKEWARD_FAILPOINT_SIGNAL": "SIGSTOP",
    }  # fmt: skip
    zombie = world.launch(env=env)
    world.wait_for("the stop", zombie.stopped)
    zombie.freeze()
    # Nobody takes its leases away: they lapse by themselves, in database time, and the successor waits for that.
    successor = world.launch()
    world.wait_for("what it sends", lambda: len(_values(world, out)) >= 50)
    zombie.wake()
    assert zombie.exit() == 75, zombie.said()
    world.numbers(topic, range(50, 60))
    world.wait_for("the next ones", lambda: len(_values(world, out)) >= 60)
    assert successor.terminate() == 0, successor.said()
    assert sorted(_values(world, out)) == list(range(60)), "each once: the zombie sent nothing"


def _values(world: Any, topic: str) -> list[int]:
    """Everything in a topic."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": world.kafka.bootstrap, "group.id": topic, "log_level": 0})
    try:
        place = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([place])
        found = consumer.consume(end, timeout=30) if end else []
    finally:
        consumer.close()
    return [json.loads(each.value())["n"] for each in found]


def _ended(*drivers: Any) -> list[Any]:
    return [each for each in drivers if each.process.poll() is not None]
