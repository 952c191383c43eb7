"""A run of a schedule: what stands against it, and when it is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from lakeward.driver import completed
from lakeward.operations import scheduled
from lakeward.operations.request import Request, StreamOperation
from lakeward.operations.runner import Runner
from lakeward.operations.scheduled import RunResult
from lakeward.platform.errors import Refused
from lakeward.registry import drivers, events, observations, operations, streams
from lakeward.registry.schema import generations

NAME = "hourly"


@pytest.fixture
def operator(connected, runtime, backend, deployed) -> Runner:
    deployed(NAME, driver=NAME, desired="stopped")
    spec = {"id": NAME, "owner": "ops", "trigger": {"available_now": True, "schedule": "0 * * * *"}}
    with connected() as connection:
        connection.execute(update(generations).values(spec=spec))
    runtime.drivers.mkdir(parents=True, exist_ok=True)
    (runtime.drivers / "mode").write_text("quiet")  # the driver lands nothing by itself: the tests say what it lands
    return Runner(connected, runtime, author="schedule", holder="test", backend=backend, timeout_s=30.0)


def token(connected) -> str:
    """Of the launch the start made; without one, of one made here."""
    with connected() as connection:
        row = drivers.find(connection, NAME)
        if row is None:
            drivers.record_intent(connection, NAME, token="t", previous=None, backend="local")
    return "t" if row is None else row.token


def end(connected, begun: datetime, *, launch: str | None = None, batches: int = 2) -> None:
    """What the driver writes when the query has landed all there was."""
    write = completed.record(launch or token(connected), NAME, begun, batches, 7)
    with connected() as connection:
        write(connection)


def row(connected) -> Any:
    with connected() as connection:
        return streams.get(connection, NAME)


def now(connected) -> datetime:
    with connected() as connection:
        return connection.execute(select(func.now())).scalar_one()


def look(connected, since: datetime) -> RunResult | None:
    return scheduled.run_result(connected, NAME, since)


def test_a_run_starts_the_stream_and_is_over_when_a_query_since_then_completed(operator, connected) -> None:
    before = now(connected)
    begun = scheduled.begin(operator, NAME)
    assert (begun.why_not, row(connected).desired) == (None, "running")
    assert look(connected, begun.since) is None
    with connected() as connection:
        events.record(connection, "stream", NAME, "completed", "an older query", begun=before.isoformat())
    assert look(connected, begun.since) is None, "what came after that query began may not have landed"
    end(connected, now(connected))
    assert look(connected, begun.since) == RunResult(True, "completed: 2 batches, 7 rows")
    assert row(connected).desired == "stopped"


def test_a_query_that_began_before_somebody_asked_is_followed_by_another(operator, connected) -> None:
    scheduled.begin(operator, NAME)
    query = now(connected)
    again = scheduled.begin(operator, NAME)
    end(connected, query)
    assert row(connected).desired == "running"
    assert look(connected, again.since) is None
    end(connected, now(connected), batches=0)
    assert row(connected).desired == "stopped"
    assert look(connected, again.since) == RunResult(True, "completed: no records to land")


def test_an_older_launch_ends_nobodys_run(operator, connected) -> None:
    scheduled.begin(operator, NAME)
    end(connected, now(connected), launch="older")
    assert row(connected).desired == "running"


def test_what_somebody_stopped_stays_so_until_somebody_starts_it(operator, connected) -> None:
    operator.run(Request(StreamOperation.STOP, NAME))
    assert "stream hourly was stopped by a person" in str(scheduled.begin(operator, NAME).why_not)
    assert row(connected).desired == "stopped"
    operator.run(Request(StreamOperation.START, NAME, wait=False))
    end(connected, now(connected))
    assert scheduled.begin(operator, NAME).why_not is None
    since = now(connected)
    operator.run(Request(StreamOperation.STOP, NAME))
    assert look(connected, since) == RunResult(False, "the stream was stopped before all available records had landed")


def test_a_stop_of_a_completed_stream_is_a_stop(operator, connected) -> None:
    scheduled.begin(operator, NAME)
    end(connected, now(connected))
    assert operator.run(Request(StreamOperation.STOP, NAME)).result == "done"
    assert "was stopped by a person" in str(scheduled.begin(operator, NAME).why_not)


def test_what_waits_for_a_person_is_not_started_over_their_head(operator, connected) -> None:
    since = now(connected)
    with connected() as connection:
        streams.set_desired(connection, [NAME], "running")
        streams.block(connection, NAME, {"reason": "gap", "what": "offsets 5 to 9 are gone", "why": "", "next": "look"})
    with pytest.raises(Refused, match="offsets 5 to 9 are gone") as told:
        scheduled.begin(operator, NAME)
    assert told.value.next == f"look; then: lakeward streams start {NAME}", "as the status says it"
    assert row(connected).blocked is not None
    assert look(connected, since) == RunResult(False, "the stream is blocked: offsets 5 to 9 are gone")


@pytest.mark.parametrize(
    ("values", "spec", "words"),
    [
        ({}, {"trigger": {"every": "10s"}}, "has no schedule"),
        ({}, {"enabled": False}, "is not enabled"),
        ({"hold_until": timedelta(hours=1)}, {}, "is held until"),
        ({"removed_at": timedelta(0)}, {}, "is retired"),
    ],
)
def test_what_prevents_a_run(operator, connected, values: dict, spec: dict, words: str) -> None:
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    changed = {name: moment + span for name, span in values.items()}
    from dataclasses import replace

    stream = replace(row(connected), **changed)
    trigger = {"trigger": {"available_now": True, "schedule": "0 * * * *"}, **spec}
    assert words in str(scheduled.reason_not_to_start(stream, trigger, None, moment))


def test_a_second_operation_is_not_pushed_aside(operator, connected) -> None:
    with connected() as connection:
        operations.begin(connection, NAME, "upgrade", author="bob", holder="bob's shell", token="t")
    with pytest.raises(Refused, match="bob"):
        scheduled.begin(operator, NAME)


def test_the_end_is_written_where_everybody_looks(operator, connected) -> None:
    scheduled.begin(operator, NAME)
    end(connected, now(connected))
    with connected() as connection:
        assert observations.latest(connection)[NAME].query_state == "completed"
