"""Asset events that other Dags can wait for: a stream's state changed, it committed, an hour or a day is complete.

Each event is emitted once: the registry remembers what was announced (heartbeat `announced`). A stream that is seen for
the first time is only remembered: its past is no event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal, TypedDict, cast

from sqlalchemy import Connection

from lakeward.platform.boundary import Failure, attempt
from lakeward.registry import batches, heartbeats
from lakeward.registry.streams import Stream
from lakeward.supervision.observe import Facts

ANNOUNCED = "announced"
COMMITS_EVERY = timedelta(seconds=60)
"""Shortest interval between two `commits` events of a stream."""


_SPANS: tuple[Literal["hour", "day"], ...] = ("hour", "day")


class Announced(TypedDict, total=False):
    """What was announced of one stream; times are RFC 3339.

    Attributes:
        commit: its newest commit; `told` is the one that was announced last, at `told_at`, and `seq` its number.
        hour, day: the newest complete ones.
    """

    state: str
    commit: str | None
    hour: str | None
    day: str | None
    told: str | None
    told_at: str
    seq: int | None


@dataclass(frozen=True)
class Announcement:
    """One event: `what` is state | commits | hour | day."""

    stream: str
    what: str
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def asset(self) -> str:
        """Name and URI of the asset: stable, documented in docs/how-to/wait-for-a-stream.md."""
        return f"lakeward://stream/{self.stream}/{self.what}"


def decide(facts: Facts, known: Mapping[str, Announced]) -> tuple[list[Announcement], dict[str, Announced]]:
    """The events to emit, and the remembered values of every stream afterwards. Pure."""
    events: list[Announcement] = []
    after: dict[str, Announced] = {}
    for stream in facts.streams:
        decided = attempt(f"events of stream {stream.id}", partial(_of_stream, facts, stream, known.get(stream.id)))
        if isinstance(decided, Failure):  # as if it were seen for the first time: what was remembered cannot be read
            decided = attempt(f"events of stream {stream.id}", partial(_of_stream, facts, stream, None))
        if not isinstance(decided, Failure):
            events += decided[0]
            after[stream.id] = decided[1]
    return events, after


def _of_stream(facts: Facts, stream: Stream, before: Announced | None) -> tuple[list[Announcement], Announced]:
    events: list[Announcement] = []
    now = _observed(facts, stream.id)
    now["state"] = stream.state
    if before is None:
        return events, {**now, "told_at": facts.now.isoformat(), "told": now["commit"], "seq": _seq(facts, stream.id)}
    values: Announced = {**before, **now}
    if before.get("state") != stream.state:
        extra: dict[str, object] = {"before": before.get("state"), "state": stream.state, "why": stream.why[:500]}
        events.append(Announcement(stream.id, "state", extra | {"since": stream.since.isoformat()}))
    if now["commit"] is not None and now["commit"] != before.get("told") and _due(before, facts.now):
        events.append(Announcement(stream.id, "commits", {**_commit(facts, stream.id), "after_seq": before.get("seq")}))
        values["told_at"], values["told"] = facts.now.isoformat(), now["commit"]
        values["seq"] = _seq(facts, stream.id)
    for what in _SPANS:
        closed, earlier = now[what], before.get(what)
        if closed is not None and earlier is not None and closed > earlier:
            events.append(Announcement(stream.id, what, {"from": earlier, "to": closed}))
        values[what] = closed if closed is not None and (earlier is None or closed > earlier) else earlier
    return events, values


def with_rows(connection: Connection, events: Iterable[Announcement]) -> list[Announcement]:
    """The events; each commit with the number of rows that landed since the one announced before, if it is known."""
    return [_with_rows(connection, event) if event.what == "commits" else event for event in events]


def _with_rows(connection: Connection, event: Announcement) -> Announcement:
    after, upto = event.extra["after_seq"], event.extra["seq"]
    rows = None
    if isinstance(after, int) and isinstance(upto, int) and after < upto:
        rows = batches.landed_between(connection, event.stream, after, upto)
    return replace(event, extra={**event.extra, "rows": rows})


def read(connection: Connection) -> Mapping[str, Announced]:
    """What was announced, by stream."""
    tick = heartbeats.newest(connection, ANNOUNCED)
    return {} if tick is None else cast("dict[str, Announced]", tick.detail.get("streams") or {})


def remember(connection: Connection, after: Mapping[str, Announced]) -> None:
    """Store what was announced."""
    heartbeats.record(connection, ANNOUNCED, duration_s=0.0, streams=dict(after))


def _observed(facts: Facts, stream: str) -> Announced:
    seen = facts.observations.get(stream)
    if seen is None:
        return {"commit": None, "hour": None, "day": None}
    final = seen.complete_through
    return {
        "commit": None if seen.committed_at is None else seen.committed_at.isoformat(),
        "hour": None if final is None else _floor(final, "hour"),
        "day": None if final is None else _floor(final, "day"),
    }


def _floor(moment: datetime, unit: str) -> str:
    whole = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return (whole if unit == "hour" else whole.replace(hour=0)).isoformat()


def _due(before: Announced, now: datetime) -> bool:
    announced_at = before.get("told_at")
    return announced_at is None or now - datetime.fromisoformat(announced_at) >= COMMITS_EVERY


def _seq(facts: Facts, stream: str) -> int | None:
    seen = facts.observations.get(stream)
    return None if seen is None else seen.seq


def _commit(facts: Facts, stream: str) -> dict[str, object]:
    seen = facts.observations[stream]
    final = seen.complete_through
    return {
        "seq": seen.seq,
        "batch_id": seen.batch_id,
        "snapshot_id": None if seen.snapshot_id is None else str(seen.snapshot_id),  # larger than JSON's numbers
        "committed_at": seen.committed_at.isoformat() if seen.committed_at else None,
        "complete_through": final.isoformat() if final else None,
    }
