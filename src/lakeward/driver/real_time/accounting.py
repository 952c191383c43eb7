"""Record accounting of a real-time query: after each boundary its records are read again, counted, and the invalid ones
quarantined. The rows themselves were sent long before.

It follows the checkpoint, because continuous processing reports no progress. Its own progress marker is beside the
checkpoint, so that a restart continues there: no invalid record is lost, and none is quarantined twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.result import BatchResult
from lakeward.connectors.kafka import position
from lakeward.connectors.source import StreamSource
from lakeward.driver.real_time.progress_marker import ProgressMarker, ProgressMarkers
from lakeward.driver.real_time.stop import halt
from lakeward.engine.batch import BatchFunction, FinishedBatch
from lakeward.engine.checkpoint import layout
from lakeward.engine.checkpoint.files import Files
from lakeward.engine.gate import Draining, wait_until
from lakeward.engine.sinks.at_least_once import RealTimeSink
from lakeward.platform.errors import expect

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_log = structlog.get_logger(__name__)

LOOK_S, LEAST_LOOK_S = 5.0, 0.5
SHORTEST_S = 10.0
"""Epochs of a second are accounted for together."""
IDLE_S = 60.0
"""How often an idle real-time query is reported as alive."""


@dataclass
class RecordAccounting:
    """Record accounting of one start of a real-time query; one thread.

    Args:
        function: counts and quarantines records, as for batches.
        sink: the sink of the query.
        source, files, folder: the source, and the checkpoint.
        marks: progress markers.
        check: (partitions) raises if there are too few cores.
        interval_s: between two boundaries.
    """

    function: BatchFunction
    sink: RealTimeSink
    source: StreamSource
    files: Files
    folder: str
    marks: ProgressMarkers
    check: Callable[[int], None]
    interval_s: float
    done: ProgressMarker = field(init=False)
    newest: int = field(default=-1, init=False)
    """The newest boundary, by its batch."""
    stop_after: int | None = field(default=None, init=False)
    """The boundary after which the query is to be stopped; None while it is not."""
    query: StreamingQuery | None = field(default=None, init=False)
    _closed: threading.Event = field(default_factory=threading.Event, init=False)
    _due: float = field(default=0.0, init=False)
    _reported_at: float | None = field(default=None, init=False)

    def begin(self) -> None:
        """Read the progress marker and the newest boundary."""
        self.done = expect(self.marks.newest(), "a mark: a start puts the first one")
        self.newest = self._committed()

    def run(self) -> None:
        """Follow the query until it has ended and all its records are accounted for, or until `close`."""
        query = expect(self.query, "the query")
        try:
            while not self._closed.is_set():
                ended = not query.isActive
                self._observe(query)
                if ended:
                    self._account()
                    return
                if time.monotonic() >= self._due:
                    self._account()
                    self._due = time.monotonic() + (SHORTEST_S if self.interval_s < SHORTEST_S else 0.0)
                self._closed.wait(self._pause_s)
        except Draining:
            return
        except Exception as error:  # noqa: BLE001  # named boundary: a failed accounting ends the query
            self.function.failure = self.function.failure or error
            halt(query, self.function.session)

    def close(self) -> None:
        """Stop as soon as possible; the next start accounts for the rest."""
        self._closed.set()

    def settled(self, timeout_s: float) -> bool:
        """Wait until all passed records are accounted for; False after the timeout."""
        return wait_until(lambda: self._closed.is_set() or self.done.batch > self._committed(), timeout_s)

    @property
    def _pause_s(self) -> float:
        if self.stop_after is not None:
            return 0.05
        return min(LOOK_S, max(LEAST_LOOK_S, self.interval_s / 10))

    def _observe(self, query: StreamingQuery) -> None:
        self.newest = self._committed()
        if self.stop_after is not None and self.newest > self.stop_after:
            halt(query, self.function.session)  # at once: records after the boundary are sent again

    def _committed(self) -> int:
        names = self.files.names(f"{self.folder}/commits")
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def _account(self) -> None:
        batch = self.newest
        if batch < self.done.batch:
            return
        entry = layout.parse_offsets(self.files.text(f"{self.folder}/offsets/{batch}") or "")
        [end] = entry.ends
        self.check(sum(len(parts) for parts in position.parse(end).values()))
        name, start, query = self.source.name, self.done.end, str(self.query.id if self.query else "")
        self.sink.batch = RunningBatch(query, batch, {name: start}, {name: end})
        if position.canonical(start) != end:
            self.function(self.source.again(self.function.session, start, end), batch)
        else:
            self._empty_boundary(batch)
        self.done = ProgressMarker(batch + 1, end)
        self.marks.put(self.done)

    def _empty_boundary(self, batch: int) -> None:
        """Handle a boundary without records; reported at an interval."""
        with self.function.gate.batch(batch):
            pass
        now = time.monotonic()
        if self._reported_at is None or now - self._reported_at >= IDLE_S or self.interval_s >= IDLE_S:
            self._reported_at = now
            outcome = BatchResult(self.sink.running(batch), filtered=0)
            function = self.function
            function.report(FinishedBatch(function.stream, function.generation, batch, outcome, 0, 0, None, now, 0.0))
