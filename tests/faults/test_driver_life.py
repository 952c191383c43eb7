"""A driver that is told to end at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def test_a_driver_that_is_told_to_end_before_spark_is_up_ends(world: Any, simple: Callable[..., Any]) -> None:
    topic = world.kafka.create_topic()
    world.deploy(simple(f"{world.name}_s", topic, f"{world.name}.t"))
    driver = world.launch()
    world.wait_for("its first words", lambda: driver.events("driver started"))
    world.wait_for("its JVM", lambda: _children(driver.pid))
    assert driver.terminate() == 0, driver.said()
    assert world.rows(f"{world.name}.t") == []


def _children(pid: int) -> list[int]:
    try:
        return [each.pid for each in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
