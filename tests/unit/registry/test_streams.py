from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy import func, select

from lakeward.platform.errors import SpecError
from lakeward.registry import generations, streams


def _accept(registry, name: str = "flights", generation: int = 1) -> None:
    streams.accept(registry, name, generation=generation, driver="demo")


def test_since_moves_only_with_the_word(registry):
    _accept(registry)
    assert streams.set_state(registry, "flights", "healthy", "batch 4 landed")
    since = streams.get(registry, "flights").since
    assert not streams.set_state(registry, "flights", "healthy", "batch 5 landed")
    found = streams.get(registry, "flights")
    assert found.since == since
    assert found.why == "batch 5 landed"


def test_a_start_clears_what_blocked_the_stream(registry):
    _accept(registry)
    streams.block(registry, "flights", {"reason": "gap"})
    blocked = streams.get(registry, "flights").blocked
    now = registry.execute(select(func.now())).scalar_one()
    assert (blocked["reason"], datetime.fromisoformat(blocked["at"])) == ("gap", now)
    streams.set_desired(registry, ["flights"], "running")
    assert streams.get(registry, "flights").blocked is None


def test_accepting_a_generation_does_not_start_a_stopped_stream(registry):
    _accept(registry)
    _accept(registry, generation=2)
    assert streams.get(registry, "flights").desired == "stopped"


def test_accepting_clears_the_pending_generation(registry):
    _accept(registry)
    streams.set_pending(registry, "flights", 2)
    _accept(registry, generation=2)
    assert streams.get(registry, "flights").pending_generation is None


def test_a_removed_stream_is_kept_but_no_longer_wanted(registry):
    _accept(registry)
    streams.set_desired(registry, ["flights"], "running")
    streams.remove(registry, "flights")
    assert streams.all_streams(registry) == []
    assert [item.desired for item in streams.all_streams(registry, removed=True)] == ["stopped"]


def test_an_unknown_stream_is_refused_with_the_known_ones(registry):
    _accept(registry)
    with pytest.raises(SpecError, match="Known streams: flights") as refused:
        streams.get(registry, "Fligths")
    assert refused.value.why.endswith("; did you mean flights?")
    assert refused.value.next == "lakeward streams status flights   or, of a new file: lakeward deploy"
    with pytest.raises(SpecError) as unlike:
        streams.get(registry, "orders")
    assert unlike.value.next == "lakeward streams list   or, of a new file: lakeward deploy"


def test_generations_are_kept_whole_and_found_by_number(registry):
    _accept(registry)
    for number in (1, 2):
        generations.add(
            registry,
            stream="flights",
            generation=number,
            spec={"id": "flights", "n": number},
            digest=f"d{number}",
            sql="SELECT 1",
            code={},
            versions={"lakeward": "0.1.0"},
            author="ann",
            checkpoint="/c/flights/1",
        )
    assert generations.latest(registry)["flights"].generation == 2
    assert generations.of_streams(registry, {"flights": 1})["flights"].spec["n"] == 1
    assert generations.get(registry, "flights", 3) is None


def test_a_known_generation_is_read_again_only_if_it_was_created_at_another_time(registry):
    _accept(registry)
    generations.add(
        registry, stream="flights", generation=1, spec={"n": 1}, digest="1", sql="", code={}, versions={},
        author="ada", checkpoint="c",
    )  # fmt: skip
    stored = generations.of_streams(registry, {"flights": 1})["flights"]
    known = replace(stored, spec={"n": "as it was read before"})
    assert generations.of_streams(registry, {"flights": 1}, known={"flights": known})["flights"] == known
    of_another_registry = replace(known, created_at=stored.created_at - timedelta(days=1))
    found = generations.of_streams(registry, {"flights": 1}, known={"flights": of_another_registry})
    assert found["flights"] == stored


def test_a_query_that_waits_for_its_next_attempt_waits_out_a_hold(registry):
    streams.accept(registry, "held", generation=1, driver="d", desired="running")
    now = registry.execute(select(func.now())).scalar_one()
    soon, later = now + timedelta(minutes=1), now + timedelta(hours=1)
    streams.set_run_after(registry, "held", soon)
    streams.set_hold(registry, "held", later)
    assert streams.get(registry, "held").run_after == later
    streams.set_run_after(registry, "held", soon)
    assert streams.get(registry, "held").run_after == later
    streams.set_hold(registry, "held", None)
    assert streams.get(registry, "held").run_after is None
    streams.set_run_after(registry, "held", soon)
    assert streams.get(registry, "held").run_after == soon
