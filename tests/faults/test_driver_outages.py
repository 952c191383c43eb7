"""PostgreSQL goes away under a running driver: commits pause and go on, no stream restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def test_postgres_away_pauses_commits_and_restarts_nothing(
    private_postgres: Any, private_world: Any, simple: Callable[..., Any]
) -> None:
    world = private_world
    topic = world.kafka.create_topic()
    stream, table = f"{world.name}_s", f"{world.name}.t"
    world.deploy(simple(stream, topic, table))
    world.numbers(topic, range(100))
    driver = world.launch()
    world.wait_landed(table, stream, 100)

    private_postgres.stop()
    world.numbers(topic, range(100, 200))
    world.wait_for("the batch that waits", lambda: driver.events("batch waits"))
    world.wait_for("the registry's absence", lambda: driver.events("the registry is away, streams land on"))
    private_postgres.start()

    world.wait_landed(table, stream, 200)
    world.wait_for("the registry's return", lambda: driver.events("the registry is back"))
    world.wait_for("the record", lambda: (seen := world.observation(stream)) is not None and seen.seq is not None
             and seen.seq == world.position(table, stream)["seq"])  # fmt: skip
    assert len(driver.events("stream started")) == 1, "no stream restarts"
    assert not driver.events("stream failed, tries again")
    assert driver.terminate() == 0, driver.said()
    assert sorted(row["n"] for row in world.rows(table)) == list(range(200))
