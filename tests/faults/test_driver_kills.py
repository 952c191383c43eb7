"""SIGKILL at every step of a batch: after the restart nothing is missing and nothing is there twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

STEPS = ("batch-start", "after-stage", "after-quarantine", "before-publish", "after-publish", "before-return")

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def test_no_step_of_a_batch_loses_or_doubles_a_row_when_the_driver_dies_there(
    world: Any, simple: Callable[..., Any]
) -> None:
    topic = world.kafka.create_topic(partitions=2)
    stream, table = f"{world.name}_s", f"{world.name}.t"
    world.deploy(simple(stream, topic, table))
    sent = 0
    for step in STEPS:
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
    assert sorted(kept) == sorted(f"junk of {step}" for step in STEPS)
    totals = world.position(table, stream)["totals"]
    assert totals == {
        "consumed": sent + len(STEPS),
        "landed": sent,
        "quarantined": len(STEPS),
        "filtered": 0,
        "skipped": 0,
    }
