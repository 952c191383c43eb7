"""Recorder: writes observations, batches and events to the registry from queues that the other threads fill.

While the registry is down, observations keep only their newest values, and batches and events wait in bounded queues.
An entry that drops out of a full queue is only a copy; the position in the table is authoritative.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

import structlog
from sqlalchemy import Connection, func

from lakeward.driver import phases
from lakeward.driver.lateness import RecentLateness, dropped_of
from lakeward.engine.batch import FinishedBatch
from lakeward.platform.errors import DependencyDown
from lakeward.platform.text import rfc3339
from lakeward.registry import batches, events, lag_history, observations
from lakeward.registry.observations import Progress, Watch

_log = structlog.get_logger(__name__)

EVERY_S = 0.5
AWAY_S = 2.0
PROGRESS_S = 60.0
"""How long a batch waits for Spark's progress report, which has the number of late rows."""
NEWER_COLUMNS = frozenset({"watch", "phases", "core_s"})
"""Columns of `observations` and `batches` that older registries lack."""
WATCH_S = 10.0
"""`observations.watch` of a stream is written at most once in this time."""
MAX_BATCHES, MAX_EVENTS = 5_000, 1_000


@dataclass(frozen=True)
class _Ago:
    """A time on this process's monotonic clock, written in database time, by which all ages are computed."""

    at: float

    def moment(self, now: float) -> Any:
        return func.now() - timedelta(seconds=max(0.0, now - self.at))


class Recorder:
    """One thread and its queues. Every `note_*` returns at once.

    Args:
        connect: opens a transaction.
        driver: the driver's name, for its own events.
    """

    def __init__(self, connect: Callable[[], AbstractContextManager[Connection]], driver: str) -> None:
        self._connect = connect
        self._driver = driver
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._latest: dict[str, dict[str, object]] = {}
        self._done: dict[tuple[str, int], tuple[float, FinishedBatch]] = {}
        self._watch: dict[str, Watch] = {}
        self._watch_due: dict[str, float] = {}
        self._watch_new: set[str] = set()
        self._columns: tuple[frozenset[str], frozenset[str]] | None = None
        self._keeps_history = False
        self._history_due: dict[str, float] = {}
        self._batches: deque[dict[str, object]] = deque(maxlen=MAX_BATCHES)
        self._late = RecentLateness()
        self._events: deque[tuple[str, str, str, str, dict[str, object]]] = deque(maxlen=MAX_EVENTS)
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """Write the remaining entries, if the registry answers."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=15)
        with self._lock:
            waiting, self._done = list(self._done.values()), {}
        for _, done in waiting:
            self._batches.append(_row(done, None, None))
        self._flush()

    def note_batch(self, done: FinishedBatch) -> None:
        """Queue a finished batch."""
        outcome = done.outcome
        with self._lock:
            self._done[done.stream, done.batch_id] = (time.monotonic(), done)
        known = {
            "query_id": outcome.batch.query_id or None,
            "seq": outcome.seq,
            "snapshot_id": outcome.snapshot,
            "complete_through": _moment(done.complete_through),
        }
        self.note(
            done.stream,
            batch_id=done.batch_id,
            committed_at=_Ago(done.ended),
            query_state="running",
            error=None,
            # A batch without rows has no snapshot; the previous one stays.
            **{name: value for name, value in known.items() if value is not None},
        )
        if outcome.seq is not None:
            self.watch(done.stream, totals=outcome.totals.model_dump())
        _log.info(
            "batch landed" if not outcome.already else "batch already landed",
            stream=done.stream,
            batch=done.batch_id,
            seq=outcome.seq,
            consumed=done.consumed,
            landed=outcome.landed,
            quarantined=done.quarantined,
            seconds=round(done.duration_s, 3),
            stage_ms=round(outcome.stage_ms),
            publish_ms=round(outcome.publish_ms),
        )

    def note_progress(self, stream: str, progress: Progress, core_s: float | None = None) -> None:
        """Queue Spark's progress report of a batch, and its core-seconds; it arrives after the batch."""
        with self._lock:
            found = self._done.pop((stream, int(progress["batchId"])), None)
        late = dropped_of(progress.get("stateOperators") or [])
        if found is not None:
            took = phases.of(progress, found[1])
            self._batches.append({**_row(found[1], late, progress), "phases": took, "core_s": core_s})
            self.watch(stream, phases=took)
        if progress.get("stateOperators"):
            self.watch(stream, state=phases.state_of(progress), late=self._late.after(stream, progress))
        self.note(stream, progress=progress, run_id=progress.get("runId"), query_id=progress.get("id"))

    def note(self, stream: str, **values: object) -> None:
        """Queue observed values of a stream; the newest value of each column wins."""
        with self._lock:
            self._latest.setdefault(stream, {}).update(values)

    def watch(self, stream: str, **parts: Unpack[Watch]) -> None:
        """Queue parts of `observations.watch`; the newest value of each key wins."""
        with self._lock:
            self._watch[stream] = {**self._watch.get(stream, {}), **parts}
            self._watch_new.add(stream)

    def event(self, scope: str, name: str, kind: str, text: str, **fields: object) -> None:
        """Queue one event of a timeline."""
        self._events.append((scope, name, kind, text, fields))

    def _run(self) -> None:
        while not self._stop.is_set():
            self._settle()
            self._stop.wait(EVERY_S if self._flush() else AWAY_S)

    def _settle(self) -> None:
        """Queue batches whose progress report is overdue, without it."""
        limit = time.monotonic() - PROGRESS_S
        with self._lock:
            old = [key for key, (at, _) in self._done.items() if at < limit]
            waiting = [self._done.pop(key)[1] for key in old]
        self._batches.extend(_row(done, None, None) for done in waiting)

    def _flush(self) -> bool:
        """Write everything in one transaction; entries stay queued on failure. False while the registry is down."""
        with self._lock:
            latest, self._latest = self._latest, {}
            self._add_watch(latest)
        rows, lines = list(self._batches), list(self._events)
        recorded = [name for name, values in latest.items() if "lag_records" in values and self._history_is_due(name)]
        if not (latest or rows or lines):
            return True
        try:
            with self._connect() as connection:
                now = time.monotonic()  # once: `now()` is constant inside the transaction, too
                if self._columns is None:
                    self._columns = (observations.columns(connection), batches.columns(connection))
                    self._keeps_history = lag_history.exists(connection)
                for stream, values in latest.items():
                    observations.record(connection, stream, **_known(values, now, self._columns[0]))
                for stream in recorded if self._keeps_history else ():
                    self._record_lag(connection, stream, latest[stream])
                for row in rows:
                    batches.record(connection, **_known(row, now, self._columns[1]))
                for scope, name, kind, text, fields in lines:
                    events.record(connection, scope, name, kind, text, **fields)
        except DependencyDown:
            self._put_back(latest)
            return False
        except Exception:  # noqa: BLE001  # named boundary: one bad record must not stop the others
            _log.exception("records dropped", batches=len(rows), events=len(lines))
        _forget(self._batches, rows)
        _forget(self._events, lines)
        self._history_due |= dict.fromkeys(recorded, time.monotonic() + lag_history.EVERY_S)
        return True

    def _history_is_due(self, stream: str) -> bool:
        return time.monotonic() >= self._history_due.get(stream, 0.0)

    def _record_lag(self, connection: Connection, stream: str, values: Mapping[str, Any]) -> None:
        state = self._watch.get(stream, {}).get("state")
        lag_history.record(
            connection,
            stream,
            lag_records=values["lag_records"],
            lag_s=values.get("lag_s"),
            state_rows=state["rows"] if state else None,
            state_bytes=state["bytes"] if state else None,
        )

    def _add_watch(self, latest: dict[str, dict[str, object]]) -> None:
        now = time.monotonic()
        for stream in [stream for stream in self._watch_new if now >= self._watch_due.get(stream, 0.0)]:
            self._watch_new.discard(stream)
            self._watch_due[stream] = now + WATCH_S
            at = rfc3339(datetime.now(UTC), "seconds")
            latest.setdefault(stream, {})["watch"] = {"at": at, **self._watch[stream]}

    def _put_back(self, latest: dict[str, dict[str, object]]) -> None:
        with self._lock:
            for stream, values in latest.items():
                self._latest[stream] = {**values, **self._latest.get(stream, {})}


def _forget(queue: deque[Any], written: list[Any]) -> None:
    """Remove written entries from the front; the bound may have dropped some already."""
    for entry in written:
        if queue and queue[0] is entry:
            queue.popleft()


def _known(values: Mapping[str, object], now: float, columns: frozenset[str]) -> dict[str, object]:
    """The values as written: ages as times, without columns that an older registry lacks.

    A column that no version has stays, so that the bug raises an error.
    """
    newer = NEWER_COLUMNS - columns
    return {n: v.moment(now) if isinstance(v, _Ago) else v for n, v in values.items() if n not in newer}


def _row(done: FinishedBatch, late: int | None, progress: Progress | None) -> dict[str, object]:
    outcome = done.outcome
    return {
        "stream": done.stream,
        "query_id": outcome.batch.query_id or (progress or {}).get("id") or "",
        "batch_id": done.batch_id,
        "seq": outcome.seq,
        "generation": done.generation,
        "snapshot_id": outcome.snapshot,
        "start_offsets": dict(outcome.batch.start),
        "end_offsets": dict(outcome.batch.end),
        "consumed": done.consumed,
        # A batch that had landed already has no row count here.
        "landed": None if outcome.already else outcome.landed,
        "quarantined": done.quarantined,
        "filtered": None if outcome.already else outcome.filtered,
        # The records that were kept, where they are: Spark counts their groups.
        "late_dropped": late if done.late is None else done.late,
        "duration_s": done.duration_s,
        "replayed": outcome.already,
        "complete_through": _moment(done.complete_through),
        "committed_at": _Ago(done.ended),
    }


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)
