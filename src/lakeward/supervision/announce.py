"""Asset events that other Dags can wait for: a stream's state changed, it committed, an hour or a day is complete.

Each event is emitted once: the registry remembers what was announced (heartbeat `announced`). A stream that is seen for
the first time is only remembered: its past is no event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from lakeward.registry import heartbeats
from lakeward.supervision.observe import Facts

ANNOUNCED = "announced"
COMMITS_EVERY = timedelta(seconds=60)
"""Shortest interval between two `commits` events of a stream."""


@dataclass(frozen=True)
class Announcement:
    """One event: `what` is state | commits | hour | day."""

    stream: str
    what: str
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def asset(self) -> str:
        """Name and URI of the asset: stable, documented in docs/how-to/wait-for-a-stream.md."""
        return f"lakeward://stream/{self.stream}/{self.what}"


def decide(facts: Facts, known: Mapping[str, Any]) -> tuple[list[Announcement], dict[str, Any]]:
    """The events to emit, and the remembered values of every stream afterwards. Pure."""
    events: list[Announcement] = []
    after: dict[str, Any] = {}
    for stream in facts.streams:
        before = known.get(stream.id)
        now = _observed(facts, stream.id) | {"state": stream.state}
        if before is None:
            after[stream.id] = now | {"told_at": facts.now.isoformat(), "told": now["commit"]}
            continue
        values = dict(before) | now
        if before.get("state") != stream.state:
            extra = {"before": before.get("state"), "state": stream.state, "why": stream.why[:500]}
            events.append(Announcement(stream.id, "state", extra | {"since": stream.since.isoformat()}))
        if now["commit"] is not None and now["commit"] != before.get("told") and _due(before, facts.now):
            events.append(Announcement(stream.id, "commits", _commit(facts, stream.id)))
            values |= {"told_at": facts.now.isoformat(), "told": now["commit"]}
        for what in ("hour", "day"):
            closed, earlier = now[what], before.get(what)
            if closed is not None and earlier is not None and closed > earlier:
                events.append(Announcement(stream.id, what, {"from": earlier, "to": closed}))
            values[what] = closed if closed is not None and (earlier is None or closed > earlier) else earlier
        after[stream.id] = values
    return events, after


def read(connection: Connection) -> Mapping[str, Any]:
    """What was announced, by stream."""
    tick = heartbeats.newest(connection, ANNOUNCED)
    return {} if tick is None else tick.detail.get("streams") or {}


def remember(connection: Connection, after: Mapping[str, Any]) -> None:
    """Store what was announced."""
    heartbeats.record(connection, ANNOUNCED, duration_s=0.0, streams=dict(after))


def _observed(facts: Facts, stream: str) -> dict[str, Any]:
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


def _due(before: Mapping[str, Any], now: datetime) -> bool:
    announced_at = before.get("told_at")
    return announced_at is None or now - datetime.fromisoformat(str(announced_at)) >= COMMITS_EVERY


def _commit(facts: Facts, stream: str) -> dict[str, Any]:
    seen = facts.observations[stream]
    final = seen.complete_through
    return {
        "seq": seen.seq,
        "batch_id": seen.batch_id,
        "snapshot_id": None if seen.snapshot_id is None else str(seen.snapshot_id),  # larger than JSON's numbers
        "committed_at": seen.committed_at.isoformat() if seen.committed_at else None,
        "complete_through": final.isoformat() if final else None,
    }
