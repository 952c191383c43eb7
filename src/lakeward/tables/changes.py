"""Whether tables need another observation: what is cheap to ask is compared with what it was at the last one.

Reading the metadata of every table costs an Airflow task and its imports. The state of the lake is one text: of the
catalog's rows, of the logs of Delta tables, of the policies, suites and waivers. While it is the same, an observation
would find what the last one found, but for what only time makes due; the fallback schedule is for that.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection

from lakeward.connectors.delta import location
from lakeward.connectors.delta.delta_log import LOG
from lakeward.connectors.iceberg.catalog import kind_of
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import Lake, Project, Runtime
from lakeward.registry import heartbeats, waivers

Connect = Callable[[], AbstractContextManager[Connection]]
HEARTBEAT = "tables_observe"
REPEAT_S = 60.0
"""A request that no observation followed is repeated after this long: its task may have died."""


@dataclass(frozen=True)
class LastObservation:
    """The newest observation of all tables that succeeded.

    Attributes:
        at: when it ended.
        age_s: how long ago that was, by the registry's clock.
        state: of the lake when it began; None if only the tables tell.
        next_at: when a table that had to wait is due; None without one.
        unread: the tables that could not be read.
    """

    at: datetime
    age_s: float
    state: str | None
    next_at: datetime | None
    unread: frozenset[str]


def record(
    connection: Connection, state: str | None, next_at: datetime | None, unread: Collection[str], duration_s: float
) -> None:
    """Record an observation; the arguments are those of `LastObservation`."""
    at = None if next_at is None else next_at.isoformat()
    heartbeats.record(connection, HEARTBEAT, duration_s=duration_s, state=state, next_at=at, unread=sorted(unread))


def newest(connection: Connection) -> LastObservation | None:
    """The newest recorded observation; None before the first."""
    beat = heartbeats.newest(connection, HEARTBEAT)
    if beat is None:
        return None
    state, at, unread = (beat.detail.get(name) for name in ("state", "next_at", "unread"))
    return LastObservation(
        beat.at,
        beat.age_s,
        state if isinstance(state, str) else None,
        datetime.fromisoformat(at) if isinstance(at, str) else None,
        frozenset(map(str, unread)) if isinstance(unread, list) else frozenset(),
    )


def state_of(connection: Connection, runtime: Runtime, project: Project) -> str | None:
    """The state of the lake as a short text; None for a catalog that only its tables tell about.

    Raises:
        DependencyDown: the catalog does not answer.
    """
    digest = hashlib.sha256()
    for lake in (runtime.lake, *runtime.lake.others):
        catalog = kind_of(lake).state(lake, runtime.pgpass)
        if catalog is None:
            return None
        digest.update(catalog.encode())
    for part in (*_delta_logs(runtime.lake), *_files(project), [each.id for each in waivers.in_force(connection)]):
        digest.update(f"\n{part}".encode())
    return digest.hexdigest()[:32]


def decide(last: LastObservation | None, state: Callable[[], str | None], every_s: float, now: datetime) -> str:
    """Why the tables are to be observed now; empty if they need not be.

    Args:
        state: of the lake now; queried only if the last observation is old enough.
        every_s: how long after an observation the next one may follow, in seconds.
    """
    if last is None:
        return "the tables have not been observed yet"
    if last.age_s < every_s:
        return ""
    if last.next_at is not None and last.next_at <= now:
        return "a table that waited is due"
    current = state()
    if current is None:
        return "the catalog does not say whether tables changed"
    return "tables changed" if current != last.state else ""


class TableChanges:
    """Asks, cheaply and often, whether tables need another observation."""

    def __init__(
        self,
        connect: Connect,
        runtime: Runtime,
        project: Callable[[], Project],
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args:
        every_s: the shortest time between two observations, in seconds.
        """
        self._connect, self._runtime, self._project = connect, runtime, project
        self._every_s, self._clock = every_s, clock
        self._requested: tuple[datetime | None, float] | None = None

    def poll(self) -> list[str]:
        """The reason for an observation now; empty if there is none, if it was just said, or if a part is away."""
        try:
            with self._connect() as connection:
                last = newest(connection)
                after = None if last is None else last.at
                if self._requested is not None and self._requested[0] == after and self._clock() < self._requested[1]:
                    return []
                reason = decide(last, lambda: self._state(connection), self._every_s, datetime.now(UTC))
        except DependencyDown:
            return []
        if not reason:
            return []
        self._requested = (after, self._clock() + max(REPEAT_S, self._every_s))
        return [reason]

    def _state(self, connection: Connection) -> str | None:
        return state_of(connection, self._runtime, self._project())


def _delta_logs(lake: Lake) -> Iterator[str]:
    """The log of each Delta table on a disk, with the time of its newest file: a folder of a store has no time."""
    root = location.warehouse(lake)
    if isinstance(root, Path) and root.is_dir():
        for log in sorted(root.glob(f"*/*/{LOG}")):
            yield f"{log}:{_changed(log)}"


def _files(project: Project) -> Iterator[str]:
    """What a person writes about tables: the policies, and which suites there are."""
    yield f"{project.tables_file}:{_changed(project.tables_file)}"
    yield from sorted(project.suites)


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
