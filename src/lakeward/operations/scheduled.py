"""Scheduled run of a stream: whether it may begin, and when it is over.

A run starts the stream and is over when a query that began afterwards has landed all available records. A scheduled run
never overrides a person: a stream that is blocked, was stopped by a person or is held stays so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from lakeward.operations.request import Request, StreamOperation
from lakeward.operations.runner import Runner
from lakeward.operations.waiting import next_of
from lakeward.platform.errors import Refused
from lakeward.registry import events, generations, observations, streams
from lakeward.registry.events import Event
from lakeward.registry.observations import Observation
from lakeward.registry.streams import Stream
from lakeward.supervision.observe import Connect

COMMENT = "by its schedule"


@dataclass(frozen=True)
class RunStart:
    """Result of a start: `since` is the database's time before it; `why_not` is the reason if nothing was started."""

    since: datetime
    why_not: str | None = None


@dataclass(frozen=True)
class RunResult:
    """A run that is over; `well` says whether it succeeded."""

    well: bool
    text: str


def begin(operator: Runner, stream: str) -> RunStart:
    """Start the stream, unless a person stopped or holds it.

    Raises:
        SpecError: the stream does not exist.
        Refused: the stream is blocked, or another operation on it runs.
    """
    with operator.connect() as connection:
        now = connection.execute(select(func.now())).scalar_one()
        row = streams.get(connection, stream)
        running = generations.get(connection, stream, row.generation)
        seen = observations.latest(connection, whole=False).get(stream)
    why_not = reason_not_to_start(row, {} if running is None else running.spec, seen, now)
    if why_not is not None:
        return RunStart(now, why_not)
    if row.blocked is not None:
        raise Refused(
            f"Stream {stream} is blocked: {row.blocked.get('what')}",
            why=str(row.blocked.get("why") or ""),
            next=next_of(row, running),
            code="LW-2072",
        )
    operator.run(Request(StreamOperation.START, stream, comment=COMMENT, wait=False))
    return RunStart(now)


def reason_not_to_start(row: Stream, spec: Mapping[str, Any], seen: Observation | None, now: datetime) -> str | None:
    """Why a scheduled run must not start the stream; None if it may. Pure."""
    start = f"lakeward streams start {row.id}"
    if row.removed_at is not None:
        return f"stream {row.id} is retired"
    if (spec.get("trigger") or {}).get("schedule") is None:
        return f"the deployed generation {row.generation} has no schedule; to change that: lakeward deploy"
    if not spec.get("enabled", True):
        return f"stream {row.id} is not enabled; to run it once: {start}"
    if row.hold_until is not None and row.hold_until > now:
        return f"stream {row.id} is held until {row.hold_until:%Y-%m-%d %H:%M} UTC"
    rests = seen is None or seen.query_state == "completed"
    if row.desired != "running" and row.blocked is None and not rests:
        return f"stream {row.id} was stopped by a person; its schedule continues after: {start}"
    return None


def run_result(connect: Connect, stream: str, since: datetime) -> RunResult | None:
    """The result of a run that began at `since`; None while it runs.

    Raises:
        DependencyDown: the registry cannot be reached.
    """
    with connect() as connection:
        row = streams.get(connection, stream)  # first: the end of a run is written together with its event
        done = events.newest_of_kind(connection, "stream", "completed", stream).get(stream)
    return result_of(row, done, since)


def result_of(row: Stream, completed: Event | None, since: datetime) -> RunResult | None:
    """Whether a run is over, from the stream's row and its newest event `completed`. Pure."""
    if completed is not None and datetime.fromisoformat(str(completed.fields["begun"])) >= since:
        return RunResult(True, completed.text)
    if row.blocked is not None:
        why = row.blocked.get("what") or row.blocked.get("reason")
        return RunResult(False, f"the stream is blocked: {why}")
    if row.removed_at is not None or row.desired != "running":
        return RunResult(False, "the stream was stopped before all available records had landed")
    return None
