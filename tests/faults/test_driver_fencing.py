"""Two drivers of one stream: one ends with 75, and the table has every row once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def test_a_newer_launch_fences_the_older_one(world: Any, simple: Callable[..., Any]) -> None:
    topic = world.kafka.create_topic()
    stream, table = f"{world.name}_s", f"{world.name}.t"
    world.deploy(simple(stream, topic, table))
    world.numbers(topic, range(100))
    old = world.launch()
    world.wait_landed(table, stream, 100)
    new = world.launch()
    assert old.exit() == 75, old.said()
    assert old.exit_file()["failure_class"] == "fenced"
    world.numbers(topic, range(100, 200))
    world.wait_landed(table, stream, 200)
    assert new.terminate() == 0, new.said()
    assert sorted(row["n"] for row in world.rows(table)) == list(range(200))


def test_two_processes_with_one_token_end_as_one(world: Any, simple: Callable[..., Any]) -> None:
    topic = world.kafka.create_topic()
    stream, table = f"{world.name}_s", f"{world.name}.t"
    world.deploy(simple(stream, topic, table))
    world.numbers(topic, range(100))
    first = world.launch(token="one-token-for-two-processes")
    world.wait_landed(table, stream, 100)
    second = world.launch(token="one-token-for-two-processes", intend=False, folder="second")
    world.wait_for("the second one's query", lambda: second.events("stream started") or _ended(second))
    sent = 100
    while not _ended(first, second):
        sent = _next(world, topic, sent)
        world.wait_landed_or(table, stream, sent, lambda: bool(_ended(first, second)))
    ended = _ended(first, second)
    assert {each.process.returncode for each in ended} == {75}, first.said() + second.said()
    if len(ended) == 2:  # the one that lost had published a batch before: the other one rightly gave way too
        world.forget_leases()
        world.launch()
    world.wait_landed(table, stream, sent)
    for each in world.started:
        if each.process.poll() is None:
            assert each.terminate() == 0, each.said()
    assert sorted(row["n"] for row in world.rows(table)) == list(range(sent))


def _next(world: Any, topic: str, sent: int) -> int:
    world.numbers(topic, range(sent, sent + 20))
    return sent + 20


def _ended(*drivers: Any) -> list[Any]:
    return [each for each in drivers if each.process.poll() is not None]
