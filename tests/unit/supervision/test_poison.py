"""A batch that kills its whole driver each time: small real drivers, a real registry, nobody inside to count."""

from __future__ import annotations

import pytest

from lakeward.registry import batches, events, observations, restarts, streams
from lakeward.supervision.backends.base import Life
from lakeward.supervision.reconcile import reconcile_once


@pytest.fixture
def die(connected, runtime, backend, eventually):
    """Launch the driver, let it die in its batch, and bury it; what its streams then wait for."""
    runtime.drivers.mkdir(parents=True, exist_ok=True)
    (runtime.drivers / "mode").write_text("poison")

    def once():
        def run():
            reconcile_once(connected, runtime, backend, holder="test", chance=lambda: 0.0, startup_grace_s=0.0)

        before = failures()
        run()
        eventually(lambda: Life.ALIVE not in [job.life for job in backend.find()])
        while failures() == before:
            run()  # buries, and at once launches the next attempt
            eventually(lambda: Life.ALIVE not in [job.life for job in backend.find()])
        with connected() as connection:
            return {item.id: item.blocked for item in streams.all_streams(connection)}

    def failures():
        with connected() as connection:
            return len(restarts.recent(connection, "nyc", 100))

    return once


def test_a_batch_that_kills_its_driver_three_times_waits_with_its_offsets_error_and_log(
    die, deployed, connected, runtime
) -> None:
    deployed("poison-flights")
    with connected() as connection:
        observations.record(connection, "poison-flights", batch_id=41, query_state="running")
        batches.record(
            connection, stream="poison-flights", query_id="q", batch_id=41, generation=1, start_offsets={},
            end_offsets={"source": '{"flights":{"0":100}}'},
        )  # fmt: skip
    found = {}
    for _ in range(3):
        found = die()
        if found["poison-flights"]:
            break
    blocked = found["poison-flights"]
    assert blocked["reason"] == "poison"
    assert blocked["batch"] == 42
    assert blocked["offsets"]["source"]["start"] == '{"flights":{"0":100}}'
    assert "cannot decode record 17: a\\u0000b" in blocked["error"], "spelled out: no NUL ends a pass"
    assert any("batch begins" in line and "a\\u0000\\ud800b" in line for line in blocked["log"])
    assert blocked["what"] == (
        "Stream poison-flights: batch 42 kills its driver: the same batch failed 3 times in the same way"
    )
    with connected() as connection:
        assert restarts.newest(connection)["nyc", None].failure_class == "poison"


def test_a_neighbour_that_lands_in_between_is_not_to_blame_and_goes_on(die, deployed) -> None:
    deployed("flights", "poison-flights")
    found = {}
    for _ in range(4):
        found = die()
        if any(found.values()):
            break
    assert found["poison-flights"]["reason"] == "poison"
    assert found["flights"] is None


def test_two_that_may_both_be_to_blame_are_started_apart_and_then_it_is_one(die, deployed, connected) -> None:
    deployed("poison-a", "poison-b")
    found = {}
    for _ in range(5):
        found = die()
        if any(found.values()):
            break
    assert found["poison-a"]["reason"] == "poison"
    assert found["poison-b"] is None
    with connected() as connection:
        (apart, *_) = [item for item in events.newest(connection, "driver", "nyc") if item.kind == "apart"]
    assert "poison-a is started first" in apart.text


def test_three_kills_from_outside_are_nobodys_fault(die, deployed, runtime, connected) -> None:
    deployed("poison-flights")
    script = runtime.drivers / "mode"
    script.write_text("killed")
    assert [die()["poison-flights"] for _ in range(4)] == [None] * 4
    with connected() as connection:
        assert restarts.newest(connection)["nyc", None].failure_class == "infra"
