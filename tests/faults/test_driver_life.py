"""A driver's life as a process: lands, stops between batches, is fenced, hosts several streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_a_driver_lands_and_ends_between_batches(world: Any, simple: Callable[..., Any]) -> None:
    topic = world.kafka.create_topic(partitions=2)
    table = f"{world.name}.landed"
    world.deploy(simple(f"{world.name}_s", topic, table))
    world.numbers(topic, range(1200))
    driver = world.launch()
    world.wait_landed(table, f"{world.name}_s", 1200)
    assert driver.terminate() == 0, driver.said()
    assert sorted(row["n"] for row in world.rows(table)) == list(range(1200))
    assert driver.exit_file()["exit_code"] == 0
