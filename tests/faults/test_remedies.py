"""Trouble is caused on real parts, and what `next` says is typed, as often as it changes, until the stream is healthy.

Nobody else reconciles: the commands themselves keep the driver alive, as with Airflow down.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from desk import Desk, sending
from world import World

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


@pytest.fixture
def desk(world: World, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(world, tmp_path / "desk", here=True)
    # A JVM of a minute, and queries of a few rows, as in `World.launch`.
    settings = {"compiler": "quick", "spark": dict(world.interpretation)}
    (made.project / "conf" / "lakeward.yaml").write_text(json.dumps({"drivers": {world.name: settings}}))
    yield made
    for row in made.project.glob("conf/streams/*.yaml"):
        made.type(f"lakeward streams stop {row.stem} --kill --timeout 5s")


@pytest.mark.campaign(
    held_by="tests/unit/supervision/decide/test_remedy.py::"
    "test_a_blocked_stream_gets_commands_that_can_be_typed_and_end_with_it_running"
)
def test_a_table_that_was_rolled_back(desk: Desk, world: World, simple: Callable[..., dict[str, Any]]) -> None:
    topic, stream, table = world.kafka.create_topic(), f"{world.name}_n", f"{world.name}.n"
    document = simple(stream, topic, table, resources={"driver": world.name}, lineage="rows")  # as `deploy` settles it
    desk.write(document)
    world.deploy(document, desired="stopped")
    world.numbers(topic, range(5))
    desk.done(f"lakeward streams start {stream} --wait")
    world.numbers(topic, range(5, 10))
    world.wait_landed(table, stream, 10)
    lake = world.catalog().load_table(table)
    parent = lake.current_snapshot().parent_snapshot_id
    lake.manage_snapshots().set_current_snapshot(snapshot_id=parent).commit()
    world.numbers(topic, [2000])
    assert desk.blocked(stream)["data"]["lost"] == "yes"
    said = desk.healthy_by_its_next(stream)
    assert "set_current_snapshot" in said[0]
    assert desk.status(stream)["data"]["lost"] == "no"
    desk.exact(stream)


@pytest.mark.campaign(
    held_by="tests/unit/supervision/decide/test_remedy.py::"
    "test_a_blocked_stream_gets_commands_that_can_be_typed_and_end_with_it_running"
)
def test_a_wrong_transform_and_a_dropped_table(desk: Desk, world: World, simple: Callable[..., dict[str, Any]]) -> None:
    topic, stream, table = world.kafka.create_topic(), f"{world.name}_n", f"{world.name}.n"
    sql = "SELECT *, 100 DIV (n - 7) AS part FROM source"
    more = {"resources": {"driver": world.name}, "restart": {"max_backoff": "1s"}}
    wrong = simple(stream, topic, table, transform={"sql": sql}, **more)
    desk.write(wrong)
    desk.done("lakeward deploy")
    world.numbers(topic, range(5))
    desk.done(f"lakeward streams start {stream} --wait")

    world.numbers(topic, range(5, 10))  # 7 is a division by zero
    desk.blocked(stream)

    def right() -> None:
        sql = "SELECT *, CASE WHEN n = 7 THEN 0 ELSE 100 DIV (n - 7) END AS part FROM source"
        desk.write({**wrong, "transform": {"sql": sql}})

    with sending(world, topic, 10):
        said = desk.healthy_by_its_next(stream, right)
    assert "lakeward streams upgrade" in said[0]

    world.catalog().drop_table(table)
    world.numbers(topic, [2001])
    assert desk.blocked(stream)["data"]["lost"] == "yes"
    said = desk.healthy_by_its_next(stream)
    assert "register_table" in said[0]
    assert desk.status(stream)["data"]["lost"] == "no"
    desk.exact(stream)
