"""SIGKILL at every step of a batch: after the restart nothing is missing and nothing is there twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from world import wait_for

EVERY_STEP = ("batch-start", "after-stage", "after-quarantine", "before-publish", "after-publish", "before-return")

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

IN_ONE_PASS = ("after-stage:2", "before-figures", "before-publish:2", "after-publish:2")
"""Steps of the second batch of a start; the first one is counted by queries."""


@pytest.mark.campaign(
    held_by="tests/faults/test_exactly_once.py::test_every_sink_and_mode_killed_at_a_step_has_every_record_once"
)
def test_no_step_of_a_batch_loses_or_doubles_a_row_when_the_driver_dies_there(
    world: Any, simple: Callable[..., Any]
) -> None:
    topic = world.kafka.create_topic(partitions=2)
    stream, table = f"{world.name}_s", f"{world.name}.t"
    world.deploy(simple(stream, topic, table))
    sent = 0
    for step in EVERY_STEP:
        world.numbers(topic, range(sent, sent + 120))
        world.produce(topic, [f"junk of {step}"])
        sent += 120
        env = {"LAKEWARD_FAILPOINT": step, "LAKEWARD_FAILPOINTS_ALLOWED": "1"}
        dying = world.launch(env=env)
        assert dying.exit() == -9, f"{step}: {dying.said()}"
        world.forget_leases()

    last = world.launch()
    world.wait_landed(table, stream, sent)
    assert last.terminate() == 0, last.said()
    assert sorted(row["n"] for row in world.rows(table)) == list(range(sent))
    kept = [bytes(row["raw"]).decode() for row in world.rows(f"{table}_quarantine")]
    assert sorted(kept) == sorted(f"junk of {step}" for step in EVERY_STEP)
    totals = world.position(table, stream)["totals"]
    assert totals == {
        "consumed": sent + len(EVERY_STEP),
        "landed": sent,
        "quarantined": len(EVERY_STEP),
        "filtered": 0,
        "skipped": 0,
    }


@pytest.mark.campaign
def test_no_step_of_a_batch_in_one_pass_loses_or_doubles_a_row_when_the_driver_dies_there(
    world: Any, simple: Callable[..., Any]
) -> None:
    topic = world.kafka.create_topic(partitions=2)
    stream, table = f"{world.name}_s", f"{world.name}.t"
    world.deploy(simple(stream, topic, table, transform={"sql": "SELECT * FROM source WHERE n % 5 <> 0"}))
    sent = 0
    for step in IN_ONE_PASS:
        world.numbers(topic, range(sent, sent + 50))
        dying = world.launch(env={"LAKEWARD_FAILPOINT": step, "LAKEWARD_FAILPOINTS_ALLOWED": "1"})
        _first_batch(world, dying, table, stream, _expected(sent + 50))
        world.numbers(topic, range(sent + 50, sent + 100))
        sent += 100
        assert dying.exit() == -9, f"{step}: {dying.said()}"
        world.forget_leases()

    last = world.launch()
    world.wait_landed(table, stream, _expected(sent))
    assert last.terminate() == 0, last.said()
    assert sorted(row["n"] for row in world.rows(table)) == [n for n in range(sent) if n % 5]
    totals = world.position(table, stream)["totals"]
    filtered = sent - _expected(sent)
    assert totals == {"consumed": sent, "landed": _expected(sent), "quarantined": 0, "filtered": filtered, "skipped": 0}


def _first_batch(world: Any, driver: Any, table: str, stream: str, rows: int) -> None:
    """Wait for rows; if they come in two batches, the driver dies already."""
    wait_for("a batch", lambda: driver.process.poll() is not None or world.landed(table, stream) >= rows)


def _expected(sent: int) -> int:
    return sum(1 for n in range(sent) if n % 5)


@pytest.mark.campaign(
    held_by="tests/faults/test_exactly_once.py::test_every_sink_and_mode_killed_at_a_step_has_every_record_once"
)
def test_a_real_time_stream_that_is_killed_loses_nothing_and_repeats_only_what_came_since_its_last_boundary(
    world: Any, simple: Callable[..., Any]
) -> None:
    topic, out = world.kafka.create_topic(partitions=1), world.kafka.create_topic(partitions=1)
    stream = f"{world.name}_s"
    document = simple(stream, topic, f"{world.name}.t")
    hop = {"source": {"kafka": {"topics": [topic]}}, "sink": {"kafka": {"topic": out}}, "trigger": {"real_time": "5s"}}
    world.deploy({**document, **hop, "quarantine": {"table": f"{world.name}.q"}, "lineage": "none"})

    def sent() -> list[int]:
        return [json.loads(message.value())["n"] for message in world.kafka.sent(out)]

    first = world.launch()
    world.numbers(topic, range(100))
    wait_for("the rows", lambda: len(sent()) >= 100)
    wait_for("a boundary", lambda: (seen := world.observation(stream)) is not None and seen.batch_id is not None)
    world.numbers(topic, range(100, 200))
    world.produce(topic, ["junk"])
    wait_for("more rows", lambda: len(sent()) >= 200)
    jvm = first.jvm()
    first.kill()
    assert first.exit() == -9
    jvm.wait(60)  # until then it reads and sends on, and what it sends is not the next one's
    world.numbers(topic, range(200, 300))
    world.forget_leases()

    second = world.launch()
    wait_for("the last row", lambda: 299 in sent())
    assert second.terminate() == 0, second.said()
    found = sent()
    assert sorted(set(found)) == list(range(300))
    assert [n for n in set(found) if found.count(n) > 1 and n < 100] == []
    assert [bytes(row["raw"]).decode() for row in world.rows(f"{world.name}.q")] == ["junk"]
