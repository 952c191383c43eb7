"""The document is an interface: its fields are written down, all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.platform.errors import Awaited
from lakeward.registry.backpressure import Level, TableBackpressure
from lakeward.supervision.backends.base import Job
from lakeward.supervision.report.document import entries_of

TEXT = (Path(__file__).parents[4] / "docs" / "reference" / "stream-json.md").read_text()


def test_every_field_is_written_down_and_nothing_else_is(scene) -> None:
    _, made = scene
    table = TEXT.split("## `streams status STREAM`")[1].split("## The others")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    written = {name for cell in first for name in re.findall(r"`(\w+)`", cell)}
    found = set(made.document())
    assert found <= written
    assert written - found <= {"unanswered"}


def test_nested_fields_are_written_down(scenes) -> None:
    found = scenes["poison"].document() | {"incident": scenes["dead_driver"].document()["incident"]}
    for name in ("data", "safe_to", "next_batch", "driver", "failure", "incident", "links"):
        line = next(line for line in TEXT.splitlines() if line.startswith(f"| `{name}`"))
        assert [key for key in found[name] if key not in line] == [], name
    assert [key for key in found["changed"][0] if key not in TEXT] == []
    assert [key for key in found["partitions"][0] if key not in TEXT] == []


def test_the_launches_are_looked_through_once_for_all_streams(scenes) -> None:
    """With a look for each stream, a thousand streams cost a million."""

    class Looked(list[Job]):
        times = 0

        def __iter__(self) -> Iterator[Job]:
            self.times += 1
            return super().__iter__()

    view = replace(scenes["healthy"], beside=tuple(f"other{number}" for number in range(20))).view()
    looked = Looked(view.jobs or ())
    rows, unreadable = entries_of(replace(view, jobs=looked))
    assert (len(rows), unreadable, looked.times) == (21, [], 1)


def test_a_document_is_plain_json(scene) -> None:
    import json

    from lakeward.cli.output import _plain

    _, made = scene
    json.dumps(made.document(), default=_plain)


@pytest.mark.parametrize(
    ("level", "step"),
    [
        (
            Level.HOLD,
            "it continues by itself after the rewrite of its table; to see what the rewrite waits for: "
            "lakeward tables why nyc.flights",
        ),
        (Level.RELEASED, "nothing to do"),
    ],
)
def test_a_stream_that_gives_way_to_maintenance_says_so_and_what_to_ask(scenes, level, step) -> None:
    held = scenes["healthy"].changed(pressures={"nyc.flights": TableBackpressure(level, "1000 commits")}).document()
    assert "rewrite of its table" in held["why"]
    assert held["next_text"] == step


def test_a_stream_that_waits_for_its_topic_says_first_to_create_it(scenes) -> None:
    missing = Awaited(
        "Kafka has no topic flights", why="the brokers at b:9092 have: none", next="create the topic", code="LW-3108"
    )
    dead = scenes["dead_driver"]
    failure = replace(dead.failure, stream="flights", error=str(missing), failure_class="dependency")
    supervised = dead.changed(failure=failure).document()
    assert supervised["next_text"] == "create the topic; to start it at once then: lakeward streams start flights"
    alone = dead.changed(failure=failure, missed="no reconcile pass runs").document()
    assert alone["next_text"].startswith("create the topic; then: lakeward streams start flights --wait; ")
    assert dead.sources is not None and dead.sources.position is not None
    landed = replace(dead.sources, position=dead.sources.position.model_copy(update={"topic_ids": {"flights": "id-1"}}))
    for missed in ({}, {"missed": "no reconcile pass runs"}):
        deleted = dead.changed(failure=failure, sources=landed, **missed).document()
        assert deleted["next"] == "lakeward deploy --retire flights"
        assert deleted["next_text"].startswith("give the stream a new id and a new table (conf/streams/flights.yaml)")
        assert "has landed from topic flights, which was deleted" in deleted["next_text"]
        assert "create the topic" not in deleted["next_text"]
    other = replace(failure, error=str(missing).replace("LW-3108", "LW-3116"))
    assert "create the topic" not in dead.changed(failure=other).document()["next_text"]
