"""Which tables streams have landed rows in that no check has seen: a check run is asked for once for each snapshot.

From the registry alone, so that it costs a pass nothing; what is written otherwise, and what was asked for in vain,
is found by the look at the tables.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from lakeward.registry import heartbeats, verifications
from lakeward.supervision import observe
from lakeward.supervision.observe import Facts

ASKED = "checks_asked"
SKEW = timedelta(seconds=30)
"""A run is dated by the checker's clock, a batch by the registry's."""
SLACK = timedelta(seconds=10)
"""Passes come once a minute, give or take: without it every second one would come a moment too early."""


@dataclass(frozen=True)
class ObservedHead:
    """The newest run of a table: when it began, and the snapshot it looked up to."""

    at: datetime
    snapshot: int | None


def decide(
    facts: Facts, suites: Collection[str], seen: Mapping[str, ObservedHead], asked: Mapping[str, int]
) -> dict[str, int]:
    """Table -> the newest snapshot a stream has landed in it, where no run has looked at it or was asked to. Pure.

    Args:
        suites: the tables with a suite.
        seen: of tables that were ever checked.
        asked: table -> the snapshot a run was last asked for.
    """
    newest: dict[str, tuple[datetime, int]] = {}
    for stream in facts.streams:
        table, found = facts.table(stream.id), facts.observations.get(stream.id)
        if table is None or table not in suites or found is None:
            continue
        if found.committed_at is not None and found.snapshot_id is not None:
            newest[table] = max(newest.get(table, (found.committed_at, 0)), (found.committed_at, found.snapshot_id))
    return {
        table: snapshot
        for table, (at, snapshot) in newest.items()
        if asked.get(table) != snapshot and not _covered(seen.get(table), at, snapshot)
    }


def unseen(connection: Connection, suites: Collection[str], every: timedelta) -> dict[str, int]:
    """The same from the registry; nothing while the last time something was asked for is less than `every` ago."""
    tick = heartbeats.newest(connection, ASKED)
    if not suites or (tick is not None and tick.age_s < (every - SLACK).total_seconds()):
        return {}
    seen = {name: _seen(run) for name in suites for run in verifications.newest(connection, name, limit=1)}
    return decide(observe.read(connection, whole=False), suites, seen, _asked(connection))


def remember(connection: Connection, found: Mapping[str, int]) -> None:
    """Keep that runs were asked for."""
    heartbeats.record(connection, ASKED, duration_s=0.0, tables={**_asked(connection), **found})


def _asked(connection: Connection) -> dict[str, int]:
    tick = heartbeats.newest(connection, ASKED)
    return {} if tick is None else dict(tick.detail.get("tables") or {})


def _seen(run: Mapping[str, Any]) -> ObservedHead:
    return ObservedHead(run["at"], run["to_snapshot"])


def _covered(run: ObservedHead | None, at: datetime, snapshot: int) -> bool:
    """Whether a run has looked at a batch: up to its snapshot, or up to a later one, a compaction's."""
    return run is not None and (run.snapshot == snapshot or run.at - SKEW > at)
