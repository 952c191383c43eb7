"""Check requests: request a check run once for each unchecked snapshot that a stream landed.

Reads the registry only, so that a pass stays cheap. Commits of other writers, and requests that were not served, are
found by the periodic scan of the tables.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import cast

from sqlalchemy import Connection

from lakeward.platform.boundary import Failure, attempt
from lakeward.registry import heartbeats, verifications
from lakeward.registry.verifications import Verification
from lakeward.supervision import observe
from lakeward.supervision.observe import Facts

REQUESTED = "checks_asked"
SKEW = timedelta(seconds=30)
"""Allowed clock difference: a run is dated by the checker's clock, a batch by the registry's."""
SLACK = timedelta(seconds=10)
"""Tolerance for the interval of the passes: without it every second pass would be a moment too early."""


@dataclass(frozen=True)
class ObservedHead:
    """The newest check run of a table: when it began, and the newest snapshot it checked."""

    at: datetime
    snapshot: int | None


def decide(
    facts: Facts, suites: Collection[str], seen: Mapping[str, ObservedHead], requested: Mapping[str, int]
) -> dict[str, int]:
    """Table -> the newest snapshot that a stream landed in it and no run has checked or was requested for. Pure.

    Args:
        suites: the tables with a suite.
        seen: table -> its newest run, for tables that were ever checked.
        requested: table -> the snapshot that a run was last requested for.
    """
    newest: dict[str, tuple[datetime, int]] = {}
    for stream in facts.streams:
        table = attempt(f"table of stream {stream.id}", partial(facts.table, stream.id))
        observed = facts.observations.get(stream.id)
        if isinstance(table, Failure) or table is None or table not in suites or observed is None:
            continue
        if observed.committed_at is not None and observed.snapshot_id is not None:
            commit = (observed.committed_at, observed.snapshot_id)
            newest[table] = max(newest.get(table, (observed.committed_at, 0)), commit)
    return {
        table: snapshot
        for table, (at, snapshot) in newest.items()
        if requested.get(table) != snapshot and not _covered(seen.get(table), at, snapshot)
    }


def unseen(connection: Connection, suites: Collection[str], every: timedelta) -> dict[str, int]:
    """`decide` on the registry's facts; empty if the last request is less than `every` ago."""
    tick = heartbeats.newest(connection, REQUESTED)
    if not suites or (tick is not None and tick.age_s < (every - SLACK).total_seconds()):
        return {}
    seen = {name: _observed_head(run) for name in suites for run in verifications.newest(connection, name, limit=1)}
    return decide(observe.read(connection, whole=False), suites, seen, _requested(connection))


def remember(connection: Connection, requested: Mapping[str, int]) -> None:
    """Store that runs were requested."""
    heartbeats.record(connection, REQUESTED, duration_s=0.0, tables={**_requested(connection), **requested})


def _requested(connection: Connection) -> dict[str, int]:
    tick = heartbeats.newest(connection, REQUESTED)
    return {} if tick is None else cast("dict[str, int]", tick.detail.get("tables") or {})


def _observed_head(run: Verification) -> ObservedHead:
    return ObservedHead(run["at"], run["to_snapshot"])


def _covered(run: ObservedHead | None, at: datetime, snapshot: int) -> bool:
    """Whether a run has checked a batch: up to its snapshot, or up to a later one, e.g. a compaction's."""
    return run is not None and (run.snapshot == snapshot or run.at - SKEW > at)
