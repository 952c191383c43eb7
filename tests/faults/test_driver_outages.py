"""PostgreSQL goes away under a running driver: commits pause and go on, no stream restarts."""

from __future__ import annotations

import socket
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


def test_a_catalog_away_at_the_start_is_named_and_tried_again(world: Any, simple: Callable[..., Any]) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else gets it
        dead = held.getsockname()[1]
        world.runtime = world.runtime.model_copy(update={"lake": world.runtime.lake.model_copy(update={"port": dead})})
        stream = world.deploy(simple(f"{world.name}_s", world.kafka.create_topic(), f"{world.name}.t"))
        driver = world.launch()
        [failed, *_] = world.wait_for("the failure", lambda: driver.events("stream failed, tries again"))
        assert failed["failure_class"] == "dependency"
        assert f"127.0.0.1:{dead}" in failed["error"]
        seen = world.wait_for("the record", lambda: world.observation(stream))
        assert (seen.query_state, seen.error["class"]) == ("failed", "dependency")
        assert world.stream(stream).blocked is None
        assert driver.terminate() == 0, driver.said()
