"""Writes what happened into the registry: observations, batches, events. Everybody else only leaves it here.

The registry may be away: observations keep only their newest values, batches and events wait in bounded queues. What
falls off the end is a copy; the position in the table is the truth.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any

import structlog
from sqlalchemy import Connection

from lakeward.driver.batch import Done
from lakeward.errors import DependencyDown
from lakeward.registry import batches, events, observations

_log = structlog.get_logger(__name__)

EVERY_S = 0.5
AWAY_S = 2.0
PROGRESS_S = 60.0
"""How long a batch waits for Spark's progress report, which has the rows that came too late."""
KEPT_BATCHES, KEPT_EVENTS = 5_000, 1_000


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
        self._latest: dict[str, dict[str, Any]] = {}
        self._done: dict[tuple[str, int], tuple[float, Done]] = {}
        self._batches: deque[dict[str, Any]] = deque(maxlen=KEPT_BATCHES)
        self._events: deque[tuple[str, str, str, str, dict[str, Any]]] = deque(maxlen=KEPT_EVENTS)
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """Write what is left, if the registry answers."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=15)
        with self._lock:
            waiting, self._done = list(self._done.values()), {}
        for _, done in waiting:
            self._batches.append(_row(done, None, None))
        self._flush()

    def note_batch(self, done: Done) -> None:
        """A batch is over."""
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
            committed_at=done.committed_at,
            query_state="running",
            error=None,
            # A batch that wrote nothing has no snapshot; the newest one stands.
            **{name: value for name, value in known.items() if value is not None},
        )
        _log.info(
            "batch landed" if not outcome.already else "batch was there already",
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

    def note_progress(self, stream: str, progress: dict[str, Any]) -> None:
        """Spark's own report of a batch; it comes after the batch."""
        with self._lock:
            found = self._done.pop((stream, int(progress["batchId"])), None)
        late = sum(int(each.get("numRowsDroppedByWatermark", 0)) for each in progress.get("stateOperators") or [])
        if found is not None:
            self._batches.append(_row(found[1], late, progress))
        self.note(stream, progress=progress, run_id=progress.get("runId"), query_id=progress.get("id"))

    def note(self, stream: str, **values: Any) -> None:
        """What is known of a stream now; the newest value of each column wins."""
        with self._lock:
            self._latest.setdefault(stream, {}).update(values)

    def event(self, scope: str, name: str, kind: str, text: str, **fields: Any) -> None:
        """One line of a timeline."""
        self._events.append((scope, name, kind, text, fields))

    def _run(self) -> None:
        while not self._stop.is_set():
            self._settle()
            self._stop.wait(EVERY_S if self._flush() else AWAY_S)

    def _settle(self) -> None:
        """Batches whose progress report does not come are written without it."""
        limit = time.monotonic() - PROGRESS_S
        with self._lock:
            old = [key for key, (at, _) in self._done.items() if at < limit]
            waiting = [self._done.pop(key)[1] for key in old]
        self._batches.extend(_row(done, None, None) for done in waiting)

    def _flush(self) -> bool:
        """Write everything in one transaction; what could not be written stays. False while the registry is away."""
        with self._lock:
            latest, self._latest = self._latest, {}
        rows, lines = list(self._batches), list(self._events)
        if not (latest or rows or lines):
            return True
        try:
            with self._connect() as connection:
                for stream, values in latest.items():
                    observations.record(connection, stream, **values)
                for row in rows:
                    batches.record(connection, **row)
                for scope, name, kind, text, fields in lines:
                    events.record(connection, scope, name, kind, text, **fields)
        except DependencyDown:
            self._put_back(latest)
            return False
        except Exception:  # noqa: BLE001  # named boundary: a record that cannot be written must not stop the others
            _log.exception("records could not be written and are dropped", batches=len(rows), events=len(lines))
        _forget(self._batches, rows)
        _forget(self._events, lines)
        return True

    def _put_back(self, latest: dict[str, dict[str, Any]]) -> None:
        with self._lock:
            for stream, values in latest.items():
                self._latest[stream] = {**values, **self._latest.get(stream, {})}


def _forget(queue: deque[Any], written: list[Any]) -> None:
    """Remove what was written from the front; the bound may have pushed some of it out already."""
    for each in written:
        if queue and queue[0] is each:
            queue.popleft()


def _row(done: Done, late: int | None, progress: dict[str, Any] | None) -> dict[str, Any]:
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
        # A batch that was there already landed nothing now; how much it landed then is not known here.
        "landed": None if outcome.already else outcome.landed,
        "quarantined": done.quarantined,
        "filtered": None if outcome.already else outcome.filtered,
        "late_dropped": late,
        "duration_s": done.duration_s,
        "replayed": outcome.already,
        "complete_through": _moment(done.complete_through),
        "committed_at": done.committed_at,
    }


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)
