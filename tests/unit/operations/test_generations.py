"""upgrade and rollback: what is refused before anything is touched, and what the registry says afterwards."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func

from lakeward.operations import waiting
from lakeward.operations.operation import HeldLocks
from lakeward.operations.request import Request, StreamOperation
from lakeward.operations.rollback import Rollback
from lakeward.operations.runner import Runner
from lakeward.platform.errors import Refused, Unhealthy
from lakeward.registry import changes, drivers, events, generations, observations, streams
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.decide.stability import Proving
from lakeward.supervision.startup_grace import StartupGracePeriod

UPGRADE, ROLLBACK = (
    Request(operation, "flights", wait=False) for operation in (StreamOperation.UPGRADE, StreamOperation.ROLLBACK)
)


def document(**more: Any) -> dict[str, Any]:
    return {
        "id": "flights",
        "owner": "ops",
        "source": {"kafka": {"topics": ["flights"], "max_offsets_per_trigger": 10}},
        "decode": {"json": "n INT"},
        "sink": {"iceberg": {"table": "nyc.flights"}},
        "resources": {"driver": "nyc"},
        "trigger": {"every": "10s"},
        **more,
    }


@pytest.fixture
def generation(connected):
    def add(number: int, checkpoint: str = "flights", **more: Any) -> None:
        with connected() as connection:
            if number == 1:
                streams.accept(connection, "flights", generation=1, driver="nyc", desired="running")
            else:
                streams.set_pending(connection, "flights", number)
            generations.add(
                connection,
                stream="flights",
                generation=number,
                spec=StreamSpec.model_validate(document(**more)).document(),
                digest=str(number),
                sql=None,
                code={},
                versions={},
                author="ann",
                checkpoint=checkpoint,
            )

    return add


@pytest.fixture
def operator(connected, runtime, backend, monkeypatch):
    monkeypatch.setattr(
        StartupGracePeriod, "answered", lambda self, server_up_s: None
    )  # the test's server has only just started

    def make(wrong: list[str] | None = None, sleep=lambda s: None, say=lambda text: None) -> Runner:
        return Runner(
            connected, runtime, author="ada", holder="test", backend=backend,
            analyse=lambda spec, has, runtime: wrong or [], timeout_s=120.0, sleep=sleep, say=say,
        )  # fmt: skip

    return make


def row(connected):
    with connected() as connection:
        return streams.get(connection, "flights")


def test_an_upgrade_makes_the_waiting_generation_the_one_to_run_and_to_prove(operator, generation, connected) -> None:
    generation(1)
    generation(2, trigger={"every": "5s"})
    planned = operator().dry_run(UPGRADE)
    assert planned.result == "skipped"
    assert "trigger" in planned.detail
    assert row(connected).generation == 1
    outcome = operator().run(UPGRADE)
    now = row(connected)
    assert (now.generation, now.pending_generation, now.desired) == (2, None, "running")
    assert (now.proving["generation"], now.proving["previous"], now.proving["author"]) == (2, 1, "ada")
    assert "takes over at the next batch boundary" in outcome.detail
    with connected() as connection:
        change = changes.newest(connection, "stream", "flights")[0]
    assert (change.detail["before"], change.detail["after"]) == ({"generation": 1}, {"generation": 2})


def test_a_generation_with_a_slow_trigger_has_time_for_its_batches(operator, generation, connected) -> None:
    generation(1)
    generation(2, trigger={"every": "10m"})
    assert "lands 5 batches within 70 min" in operator().run(UPGRADE).detail
    proof = Proving.of(row(connected).proving)
    # A pass may have looked at it by now: the time that does not count extends it.
    assert abs(proof.until - proof.since - timedelta(minutes=70, seconds=proof.lost_s)) < timedelta(seconds=1)


def test_an_upgrade_whose_sql_fails_analysis_stops_nothing(operator, generation, connected) -> None:
    generation(1)
    generation(2, trigger={"every": "5s"})
    with pytest.raises(Refused, match="nothing was stopped") as refused:
        operator(wrong=["transform.sql: no such column: x"]).run(UPGRADE)
    assert "no such column: x" in refused.value.why
    now = row(connected)
    assert (now.generation, now.pending_generation, now.desired, now.proving) == (1, 2, "running", None)


def test_an_upgrade_that_cannot_continue_the_checkpoint_is_refused(operator, generation, connected) -> None:
    generation(1)
    generation(2, source={"kafka": {"topics": ["others"], "max_offsets_per_trigger": 10}})
    with pytest.raises(Refused, match="cannot continue the checkpoint") as refused:
        operator().run(UPGRADE)
    assert "no longer reads flights" in refused.value.why
    assert row(connected).generation == 1


def test_an_upgrade_without_anything_waiting_or_while_one_is_proven_is_refused(operator, generation, connected) -> None:
    generation(1)
    with pytest.raises(Refused, match="no pending generation"):
        operator().run(UPGRADE)
    generation(2, trigger={"every": "5s"})
    operator().run(UPGRADE)
    generation(3, trigger={"every": "6s"})
    with pytest.raises(Refused, match="while generation 2 is being proven"):
        operator().run(UPGRADE)


def test_waiting_for_an_upgrade_ends_well_when_it_is_proven_and_with_3_when_it_is_taken_back(
    operator, generation, connected
) -> None:
    def prove(_: float) -> None:
        with connected() as connection:
            generations.mark_stable(connection, "flights", 2)
            streams.set_proving(connection, "flights", None)

    def take_back(_: float) -> None:
        with connected() as connection:
            generations.mark_failed(connection, "flights", 3, "40 records wait, the limit is 10")
            assert generations.restore(connection, "flights", 2, before=3)

    generation(1)
    generation(2, trigger={"every": "5s"})
    waiting = Request(StreamOperation.UPGRADE, "flights")
    assert "generation 2 is stable" in operator(sleep=prove).run(waiting).detail
    generation(3, trigger={"every": "6s"})
    with pytest.raises(Unhealthy, match="rolled back; generation 2 runs again") as failed:
        operator(sleep=take_back).run(waiting)
    assert "the limit is 10" in failed.value.why
    assert failed.value.exit_code == 3


@pytest.fixture
def polled(runtime, connected):
    """What the new generation's driver writes once it polls a source without records."""
    runtime.drivers.mkdir(parents=True, exist_ok=True)
    (runtime.drivers / "mode").write_text("quiet")  # the test's driver lands nothing by itself

    def poll(number: int = 2, *, late: bool = False, **seen: Any) -> None:
        with connected() as connection:
            events.record(connection, "stream", "flights", "started", "now", generation=number)
        if late:
            return  # what the registry has is still the report of the old generation
        with connected() as connection:
            observations.record(connection, "flights", **{"query_state": "idle", "lag_records": 0, **seen})

    return poll


def test_waiting_for_the_upgrade_of_an_idle_stream_ends_when_its_driver_polls(
    operator, generation, connected, polled
) -> None:
    generation(1)
    generation(2, trigger={"every": "5s"})
    lines: list[str] = []
    outcome = operator(sleep=lambda _: polled(), say=lines.append).run(Request(StreamOperation.UPGRADE, "flights"))
    assert "generation 2 runs and nothing waits at the source; its first batch is still to come" in outcome.detail
    assert row(connected).proving["generation"] == 2  # supervision goes on with it
    assert "waits for its proof: 5 batches landed within 10 min" in lines[0]
    assert "Ends earlier if nothing waits" in lines[0]


@pytest.mark.parametrize(
    "seen",
    [
        {"query_state": "running"},
        {"lag_records": 3, "lag_s": 1.0},
        {"number": 1},
        {"committed_at": func.now() + timedelta(seconds=1)},
        {"late": True},
    ],
    ids=["has not polled", "records wait", "the old one", "has just landed", "reported before"],
)
def test_it_is_not_idle_while(operator, generation, connected, polled, seen) -> None:
    generation(1)
    operator().reconcile()  # its driver runs
    generation(2, trigger={"every": "5s"})
    with connected() as connection:
        observations.record(connection, "flights", query_state="idle", lag_records=0)
    looks: list[int] = []

    def prove(_: float) -> None:
        looks.append(1)
        polled(**seen)
        if len(looks) > 3:
            with connected() as connection:
                generations.mark_stable(connection, "flights", 2)
                streams.set_proving(connection, "flights", None)

    assert "generation 2 is stable" in operator(sleep=prove).run(Request(StreamOperation.UPGRADE, "flights")).detail


def test_a_long_wait_says_what_is_missing(operator, generation, connected, polled, monkeypatch) -> None:
    monkeypatch.setattr(waiting, "RECONCILE_EVERY_S", 0.0)
    monkeypatch.setattr(waiting, "REPORT_EVERY_S", 0.0)
    generation(1)
    generation(2, trigger={"every": "5s"})
    lines: list[str] = []

    def poll(_: float) -> None:
        if any("generation 2: 0 of 5 batches landed" in line for line in lines):
            polled()

    operator(sleep=poll, say=lines.append).run(Request(StreamOperation.UPGRADE, "flights"))
    assert any("flights is starting after" in line for line in lines)


def test_a_rollback_restores_the_last_stable_generation_from_the_registry(operator, generation, connected) -> None:
    generation(1)
    generation(2, trigger={"every": "5s"})
    with connected() as connection:
        generations.mark_stable(connection, "flights", 1)
    operator().run(UPGRADE)
    operator().run(ROLLBACK)
    now = row(connected)
    assert (now.generation, now.proving) == (1, None)
    with connected() as connection:
        assert generations.get(connection, "flights", 2).failure == "ada rolled it back"


def test_a_rollback_keeps_the_checkpoint_that_was_made_since(operator, generation, connected) -> None:
    generation(1, checkpoint="flights")
    generation(2, checkpoint="flights.2", trigger={"every": "5s"})
    with connected() as connection:
        generations.mark_stable(connection, "flights", 1)
        streams.accept(connection, "flights", generation=2, driver="nyc")
    operator().run(ROLLBACK)
    with connected() as connection:
        kept = generations.get(connection, "flights", streams.get(connection, "flights").generation)
    assert (kept.generation, kept.checkpoint) == (3, "flights.2")
    assert kept.spec["trigger"] == {"every": "10s"}


@pytest.mark.parametrize("checkpoint", ["flights", "flights.2"])
def test_a_rollback_does_not_undo_what_was_chosen_since_it_was_planned(
    operator, generation, connected, checkpoint
) -> None:
    generation(1)
    generation(2, checkpoint=checkpoint, trigger={"every": "5s"})
    generation(3, checkpoint=checkpoint, trigger={"every": "6s"})
    with connected() as connection:
        generations.mark_stable(connection, "flights", 1)
        streams.accept(connection, "flights", generation=2, driver="nyc")
    rollback = Rollback(operator(), ROLLBACK)
    plan = rollback.plan()
    with connected() as connection:
        streams.accept(connection, "flights", generation=3, driver="nyc")
    with pytest.raises(Refused, match="its generation changed since"):
        rollback.apply(plan, HeldLocks())
    assert row(connected).generation == 3


def test_a_rollback_without_a_stable_generation_or_forwards_is_refused(operator, generation) -> None:
    generation(1)
    with pytest.raises(Refused, match="no stable generation") as refused:
        operator().run(ROLLBACK)
    assert "the first one" in refused.value.why
    assert refused.value.next.startswith("change conf/streams/flights.yaml, then: lakeward deploy")
    with pytest.raises(Refused, match="Cannot roll back stream flights to generation 1"):
        operator().run(Request(StreamOperation.ROLLBACK, "flights", generation=1))
    with pytest.raises(Refused, match="Cannot roll back stream flights to generation 7"):
        operator().run(Request(StreamOperation.ROLLBACK, "flights", generation=7))


def test_a_rollback_forwards_names_a_way_that_there_is(operator, generation, connected) -> None:
    def told() -> str:
        with pytest.raises(Refused, match="a rollback goes to an earlier one") as refused:
            operator().run(Request(StreamOperation.ROLLBACK, "flights", generation=9))
        return str(refused.value.next)

    generation(1)
    assert told() == "change conf/streams/flights.yaml, then: lakeward deploy"
    generation(2, trigger={"every": "5s"})
    assert told().startswith("lakeward streams upgrade flights --wait")
    with connected() as connection:
        streams.accept(connection, "flights", generation=2, driver="nyc")
    assert told().startswith("lakeward streams rollback flights --to-generation 1")


def test_a_rollback_to_no_stable_generation_names_the_one_before(operator, generation, connected) -> None:
    generation(1)
    generation(2, trigger={"every": "5s"})
    with connected() as connection:
        streams.accept(connection, "flights", generation=2, driver="nyc")
    with pytest.raises(Refused, match="no stable generation") as refused:
        operator().run(ROLLBACK)
    assert refused.value.next == "the one before it: lakeward streams rollback flights --to-generation 1"
    assert Rollback(operator(), Request(StreamOperation.ROLLBACK, "flights", generation=1)).plan().target == 1


def test_a_rollback_waits_until_its_driver_says_that_it_runs_just_that(operator, generation, connected) -> None:
    generation(1)
    generation(2, trigger={"every": "5s"})
    with connected() as connection:
        generations.mark_stable(connection, "flights", 1)
        streams.accept(connection, "flights", generation=2, driver="nyc")
        events.record(connection, "stream", "flights", "started", "before", generation=1)
    looks = []

    def started(_: float) -> None:
        looks.append(1)
        if len(looks) > 1:
            with connected() as connection:
                events.record(connection, "stream", "flights", "started", "now", generation=1)

    outcome = operator(sleep=started).run(Request(StreamOperation.ROLLBACK, "flights"))
    assert "generation 1 runs again" in outcome.detail
    assert len(looks) >= 2


def test_python_code_is_restored_from_the_registry(operator, generation, connected) -> None:
    code = {"flights/clean.py": "def run(source): ..."}
    generation(1, transform={"python": "flights.clean:run", "code": code})
    generation(2, transform={"python": "flights.clean:run", "code": {"flights/clean.py": "broken"}})
    with connected() as connection:
        streams.accept(connection, "flights", generation=2, driver="nyc", desired="stopped")
        streams.set_desired(connection, ["flights"], "stopped")
    operator().run(Request(StreamOperation.ROLLBACK, "flights", generation=1))
    with connected() as connection:
        [plan] = drivers.plans(connection, {("flights", row(connected).generation)}).values()
    assert plan.spec["transform"]["code"] == code


def test_python_code_that_is_not_in_the_registry_is_not_restored(operator, generation, connected) -> None:
    generation(1, transform={"python": "flights.clean:run"})
    generation(2)
    with connected() as connection:
        streams.accept(connection, "flights", generation=2, driver="nyc")
    with pytest.raises(Refused, match="Cannot restore generation") as refused:
        operator().run(Request(StreamOperation.ROLLBACK, "flights", generation=1))
    assert "the code is not in the registry" in refused.value.why
    assert "check the old code out" in refused.value.next
