"""Generations in a real registry: stable by landing, or back to the one before."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lakeward.registry import batches, changes, events, generations, observations, streams
from lakeward.supervision import observe, stabilization
from lakeward.supervision.decide.stability import Proving


@pytest.fixture
def upgraded(connected, deployed):
    """`flights` runs generation 2, begun a moment ago; generation 1 is stable."""
    deployed("flights")

    def run(*, proof: bool = True, checkpoint: str = "/checkpoints/flights/1"):
        with connected() as connection:
            generations.mark_stable(connection, "flights", 1)
            generations.add(
                connection, stream="flights", generation=2, spec={"id": "flights", "owner": "ops"}, digest="2",
                sql=None, code={}, versions={}, author="ada", checkpoint=checkpoint,
            )  # fmt: skip
            streams.accept(connection, "flights", generation=2, driver="nyc")
            now = observe.read(connection).now
            if proof:
                one = Proving(2, 1, now - timedelta(minutes=1), now + timedelta(minutes=9), 3, "ada")
                streams.set_proving(connection, "flights", one.stored())

    return run


def land(connection, number: int, generation: int = 2) -> None:
    for batch in range(number):
        batches.record(connection, stream="flights", query_id=f"q{generation}", batch_id=batch, generation=generation)


def prove(connected):
    with connected() as connection:
        done = stabilization.stabilize(connection, observe.read(connection, whole=False))
    with connected() as connection:
        row = streams.get(connection, "flights")
        return [item.act for item in done], row, generations.get(connection, "flights", row.generation)


def test_an_upgrade_is_stable_after_its_batches_and_its_proof_is_over(upgraded, connected) -> None:
    upgraded()
    with connected() as connection:
        land(connection, 9, generation=1)  # the generation before proves nothing about this one
        land(connection, 2)
    assert prove(connected)[0] == []
    with connected() as connection:
        land(connection, 3)
    acts, row, generation = prove(connected)
    assert acts == ["stable"]
    assert row.proving is None
    assert generation.stable_at is not None
    assert prove(connected)[0] == []


def test_a_generation_that_cannot_run_gives_way_once_with_the_reason_in_the_audit(upgraded, connected) -> None:
    upgraded()
    with connected() as connection:
        streams.block(connection, "flights", {"reason": "config", "what": "no such column: x"})
    acts, row, _ = prove(connected)
    assert acts == ["taken-back"]
    assert (row.generation, row.blocked, row.proving, row.desired) == (1, None, None, "running")
    with connected() as connection:
        bad = generations.get(connection, "flights", 2)
        (change,) = changes.newest(connection, "stream", "flights")
        assert "no such column: x" in events.newest(connection, "stream", "flights")[-1].text
        assert (bad.failure, change.change, change.detail["after"]) == ("no such column: x", "rollback", 1)
        assert bad.failed_at is not None
        streams.accept(connection, "flights", generation=2, driver="nyc")
        streams.block(connection, "flights", {"reason": "config", "what": "no such column: x"})
    acts, row, _ = prove(connected)
    assert acts == []
    assert row.blocked is not None


def test_what_a_person_chose_since_the_facts_were_read_stands(upgraded, connected) -> None:
    upgraded()
    with connected() as connection:
        streams.block(connection, "flights", {"reason": "config", "what": "no such column: x"})
        facts = observe.read(connection, whole=False)
    with connected() as connection:  # a person upgrades further
        generations.add(
            connection, stream="flights", generation=3, spec={"id": "flights", "owner": "ops"}, digest="3",
            sql=None, code={}, versions={}, author="ada", checkpoint="/checkpoints/flights/1",
        )  # fmt: skip
        streams.accept(connection, "flights", generation=3, driver="nyc")
        streams.set_desired(connection, ["flights"], "running")
    with connected() as connection:
        assert stabilization.stabilize(connection, facts) == []
        assert streams.get(connection, "flights").generation == 3
        assert generations.get(connection, "flights", 2).failed_at is None
        assert changes.newest(connection, "stream", "flights") == []


def test_a_generation_with_another_checkpoint_is_nothing_to_go_back_to(upgraded, connected) -> None:
    upgraded(proof=False, checkpoint="/checkpoints/flights/2")
    with connected() as connection:
        streams.block(connection, "flights", {"reason": "config", "what": "no such column: x"})
    assert prove(connected)[0] == []


def test_a_first_generation_becomes_stable_by_itself(connected, deployed) -> None:
    deployed("flights")
    with connected() as connection:
        land(connection, 5, generation=1)
        observations.record(connection, "flights", lag_records=0, lag_s=0.0)
    acts, _, generation = prove(connected)
    assert acts == ["stable"]
    assert generation.stable_at is not None


def test_the_time_in_which_it_is_stopped_is_added_to_that_of_the_proof(upgraded, connected) -> None:
    upgraded()
    with connected() as connection:
        streams.set_desired(connection, ["flights"], "stopped")
        before = Proving.of(streams.get(connection, "flights").proving)
        past = replace(before, looked=before.since, until=before.since + timedelta(seconds=1))
        streams.set_proving(connection, "flights", past.stored())
    acts, row, _ = prove(connected)
    assert acts == []
    after = Proving.of(row.proving)
    assert after.until - after.looked == past.until - past.looked
    assert (after.since, row.generation) == (before.since, 2)


def test_a_pass_does_not_bring_back_a_proof_that_is_over(upgraded, connected) -> None:
    upgraded()
    with connected() as connection:
        facts = observe.read(connection, whole=False)
        streams.set_proving(connection, "flights", None)  # somebody rolled it back meanwhile
    with connected() as connection:
        stabilization.stabilize(connection, facts)
        assert streams.get(connection, "flights").proving is None
