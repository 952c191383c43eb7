"""Deploying against a real registry: what is accepted, what waits, what is never touched."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection

from lakeward.platform.errors import SpecError
from lakeward.registry import changes, events, generations, streams
from lakeward.registry.deploy import deploy, preview
from lakeward.spec.model.stream import StreamSpec

BASE: dict[str, Any] = {
    "id": "a",
    "owner": "x",
    "sources": {"f": {"kafka": {"topics": ["flights"], "max_offsets_per_trigger": 100}}},
    "transform": {"sql": "SELECT * FROM f"},
    "sink": {"iceberg": {"table": "n.a"}},
    "resources": {"driver": "core"},
}


def specs(**updates: Any) -> dict[str, StreamSpec]:
    return {"a": StreamSpec.model_validate(BASE | updates)}


def put(registry: Connection, wanted: dict[str, StreamSpec], **options: Any) -> Any:
    (change,) = deploy(registry, wanted, author="ann", **options)
    return change


def test_a_new_stream_is_wanted_running_with_its_whole_generation(registry):
    assert put(registry, specs()).change == "new"
    row = streams.get(registry, "a")
    assert (row.desired, row.generation, row.pending_generation, row.driver) == ("running", 1, None, "core")
    stored = generations.get(registry, "a", 1)
    assert stored is not None
    assert StreamSpec.model_validate(stored.spec) == specs()["a"]
    assert (stored.sql, stored.author, stored.checkpoint) == ("SELECT * FROM f", "ann", "a")
    assert stored.versions["lakeward"]
    assert changes.newest(registry, "stream", "a")[0].author == "ann"
    assert events.newest(registry, "stream", "a")[0].text == "generation 1 accepted (by ann)"


def test_a_generation_holds_its_python_and_changed_python_is_another_one(registry):
    def written(text: str) -> dict[str, StreamSpec]:
        own = {"mine.py": text}
        return specs(transform={"python": "mine:run", "code": own}, sink={"python": "mine:send", "code": own})

    put(registry, written("def run(f): return f"))
    assert put(registry, written("def run(f): return f")).change == "same"
    assert (put(registry, written("def run(f): ...")).change, streams.get(registry, "a").generation) == ("changed", 1)
    first, second = (generations.get(registry, "a", number) for number in (1, 2))
    assert first is not None
    assert second is not None
    assert first.spec["transform"]["code"] == {"mine.py": "def run(f): return f"}
    assert first.spec["sink"]["code"] == first.spec["transform"]["code"]
    assert list(first.code) == ["mine:run", "mine:send"]
    assert first.code != second.code


def test_a_new_stream_that_is_not_enabled_is_not_started(registry):
    put(registry, specs(enabled=False))
    assert streams.get(registry, "a").desired == "stopped"


def test_deploying_twice_changes_nothing(registry):
    put(registry, specs())
    assert put(registry, specs()).change == "same"
    assert len(changes.newest(registry, "stream", "a")) == 1


def test_a_plan_touches_nothing(registry):
    assert preview(registry, specs())[0].change == "new"
    assert streams.find(registry, "a") is None


def test_what_runs_is_not_touched(registry):
    put(registry, specs())
    assert put(registry, specs(tags=["x"])).generation == 2
    row = streams.get(registry, "a")
    assert (row.generation, row.pending_generation, row.desired) == (1, 2, "running")
    assert put(registry, specs(tags=["x"])).generation == 2, "what waits is not made twice"
    streams.set_desired(registry, ["a"], "stopped")
    assert put(registry, specs(tags=["x"])).act == "adopt"
    row = streams.get(registry, "a")
    assert (row.generation, row.pending_generation, row.desired) == (2, None, "stopped")
    assert generations.get(registry, "a", 2).checkpoint == "a", "a checkpoint changes only through reset"


def test_a_stream_that_still_runs_although_it_is_wanted_stopped_is_not_touched(registry):
    put(registry, specs())
    streams.set_desired(registry, ["a"], "stopped")
    streams.set_state(registry, "a", "stopping", "asked to")
    put(registry, specs(tags=["x"]))
    assert streams.get(registry, "a").pending_generation == 2


def test_going_back_to_what_runs_drops_what_waits(registry):
    put(registry, specs())
    put(registry, specs(tags=["x"]))
    assert put(registry, specs()).act == "drop-pending"
    assert streams.get(registry, "a").pending_generation is None
    assert put(registry, specs()).act == "none"


def test_a_checkpoint_that_does_not_fit_is_never_taken_silently(registry):
    put(registry, specs())
    streams.set_desired(registry, ["a"], "stopped")
    change = put(registry, specs(sink={"iceberg": {"table": "n.b"}}))
    assert (change.checkpoint_compatible, change.act) == (False, "pend")
    assert streams.get(registry, "a").generation == 1


def test_a_stream_whose_file_is_gone_goes_on_until_it_is_retired(registry):
    put(registry, specs())
    assert put(registry, {}).change == "removed"
    assert streams.get(registry, "a").desired == "running"
    assert "to end and retire it" in preview(registry, {})[0].why
    assert put(registry, {}, retire=["a"]).why.startswith("it is retired")
    row = streams.get(registry, "a")
    assert row.desired == "stopped"
    assert row.removed_at is not None
    assert deploy(registry, {}, author="ann") == []


def test_a_retired_stream_comes_back_with_its_history(registry):
    put(registry, specs())
    put(registry, {}, retire=["a"])
    assert put(registry, specs(tags=["x"])).generation == 2
    row = streams.get(registry, "a")
    assert (row.generation, row.desired, row.removed_at) == (2, "running", None)


def test_only_what_is_gone_can_be_retired(registry):
    put(registry, specs())
    with pytest.raises(SpecError, match="cannot be retired"):
        preview(registry, specs(), ["a"])
    with pytest.raises(SpecError, match="'b' cannot be retired"):
        preview(registry, specs(), ["b"])


def test_a_new_stream_with_a_schedule_waits_for_it(registry):
    trigger = {"available_now": True, "schedule": "0 * * * *"}
    assert put(registry, specs(trigger=trigger)).why == "its schedule starts it: 0 * * * *"
    assert streams.get(registry, "a").desired == "stopped"


def test_the_kafka_connections_that_streams_name(registry):
    orders = {"connection": "orders", "topics": ["flights"], "max_offsets_per_trigger": 100}
    put(registry, specs(sources={"f": {"kafka": orders}}))
    assert generations.kafka_connections(registry) == {"orders"}
    put(registry, specs(sources={"f": {"kafka": orders | {"connection": "newer"}}}))
    assert generations.kafka_connections(registry) <= {"orders", "newer"}
    assert "newer" in generations.kafka_connections(registry), "what waits for an upgrade is looked up before it"
    put(registry, {}, retire=["a"])
    assert generations.kafka_connections(registry) == set()
