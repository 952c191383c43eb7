"""Drivers of one stream at the same time: one lands, the others end with 75, and each sink has every row once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from world import World

from lakeward.registry import drivers

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes
MAINTENANCE = (
    "CALL lake.system.rewrite_data_files(table => 'lake.{}', options => map('rewrite-all', 'true'))",
    "CALL lake.system.expire_snapshots(table => 'lake.{}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)",
)


def test_of_many_drivers_of_one_stream_the_newest_launch_lands_and_the_others_end(
    world: World, simple: Callable[..., Any], tmp_path: Path
) -> None:
    """A running one is fenced by a newer launch; a zombie wakes after compaction and expiry; one launch starts twice.

    The zombie holds a batch of a table that it read and did not stage, one that it staged, and one of a topic, which
    has no position: only its lease fences it there.
    """
    topic, out = world.kafka.create_topic(), world.kafka.create_topic()
    checked, staged, sends = (f"{world.name}_{name}" for name in ("checked", "staged", "sends"))
    tables = {name: f"{world.name}.{name}" for name in (checked, staged)}
    for name, table in tables.items():
        world.deploy(simple(name, topic, table))
    world.deploy(simple(sends, topic, f"{world.name}.sends", sink={"kafka": {"topic": out}}))

    def landed(rows: int) -> None:
        for name, table in tables.items():
            world.wait_landed(table, name, rows)
        world.wait_for("what it sends", lambda: len(_values(world, out)) >= rows)

    def exact(rows: int) -> None:
        for table in tables.values():
            assert sorted(row["n"] for row in world.rows(table)) == list(range(rows))
        assert sorted(_values(world, out)) == list(range(rows)), "each once: the zombie sent nothing"

    armed = tmp_path / "armed"
    armed.mkdir()
    steps = [armed / name for name in (f"{checked}.after-check", f"{staged}.after-stage", f"{sends}.batch-start")]
    world.numbers(topic, range(100))
    zombie = world.launch(env={"LAKEWARD_FAILPOINTS_ALLOWED": "1", "LAKEWARD_FAILPOINT_FOLDER": str(armed)})
    landed(100)
    (armed / "any").write_text("0")
    for step in steps:
        step.hardlink_to(armed / "any")  # at once: the driver reads it
    world.numbers(topic, range(100, 200))
    world.wait_for("every stream's step", lambda: all(Path(f"{step}.reached").exists() for step in steps))
    zombie.freeze()
    for step in steps:
        step.unlink()

    # Nobody takes its leases away: they lapse by themselves, in database time, and the successor waits for that.
    token = "one-token-for-two-processes"
    pair = [world.launch(token=token), world.launch(token=token, intend=False, folder="second")]
    world.wait_for("the end of one", lambda: _ended(pair))
    (loser,) = _ended(pair)
    (successor,) = (each for each in pair if each is not loser)
    assert loser.process.returncode == 75, loser.said()
    assert not loser.events("spark started"), "it did nothing"
    world.numbers(topic, range(200, 300))
    landed(300)
    world.lake_sql(*(each.format(table) for table in tables.values() for each in MAINTENANCE))
    before = {name: world.position(table, name) for name, table in tables.items()}
    zombie.wake()
    assert zombie.exit() == 75, zombie.said()
    assert zombie.exit_file()["failure_class"] == "fenced"
    assert {name: world.position(table, name) for name, table in tables.items()} == before, "a zombie moved a position"
    exact(300)
    world.numbers(topic, range(300, 320))
    landed(320)
    assert len(successor.events("stream started")) == 3, "the zombie disturbed its successor"
    with world.connect() as connection:  # a driver that runs is fenced by a newer launch
        assert drivers.record_intent(connection, world.name, token="newer", previous=token, backend="local")
    assert successor.exit() == 75, successor.said()
    assert successor.exit_file()["failure_class"] == "fenced"
    exact(320)


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


def _ended(pair: Iterable[Any]) -> list[Any]:
    return [each for each in pair if each.process.poll() is not None]
