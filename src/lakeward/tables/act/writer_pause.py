"""The maintenance pause: streams that change rows of a table pause between two batches while it is rewritten.

A rewrite fails if a MERGE changes rows of its files meanwhile, whatever it has cost. Append streams are not paused. A
stream never pauses longer than its freshness limit allows; after that the rewrite runs against it as without a pause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep

import structlog

from lakeward.registry import leases, writer_pauses
from lakeward.tables.guard.actor import Transaction, hold_lease

log = structlog.get_logger(__name__)

WAIT_S = 60.0
"""The running batch gets this long to end; then the rewrite starts beside the stream."""
LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class PausedWriters:
    """The outcome of the request: the streams, those that did not pause in time, and the waiting time."""

    streams: tuple[str, ...]
    awake: tuple[str, ...] = ()
    waited_s: float = 0.0

    @property
    def words(self) -> str:
        """For the log and the ledger; empty if no stream was asked."""
        if not self.streams:
            return ""
        if self.awake:
            return f"{', '.join(self.awake)} did not pause within {self.waited_s:.0f} s and ran beside it"
        return f"{', '.join(self.streams)} paused after {self.waited_s:.1f} s"


@contextmanager
def pause_writers(
    transaction: Transaction, table: str, streams: Sequence[str], wait_s: float = WAIT_S
) -> Iterator[PausedWriters]:
    """Ask streams to pause for the block; it starts once they have, or after `wait_s`.

    Only the holder of the table's lease may call it. If this process dies, the pause ends with the lease, in seconds.
    """
    if not streams:
        yield PausedWriters(())
        return
    with transaction() as connection:  # left by a dead run: this process holds the table's lease
        leases.forget(connection, writer_pauses.WINDOW, table)
        for stream in streams:  # an answer to the earlier request does not count
            leases.forget(connection, writer_pauses.RESTS, stream)
    with hold_lease(transaction, table, ttl=writer_pauses.TTL, scope=writer_pauses.WINDOW):
        begun = monotonic()
        while True:
            with transaction() as connection:
                awake = writer_pauses.running(connection, list(streams))
            waited = monotonic() - begun
            if not awake or waited >= wait_s:
                break
            sleep(LOOK_EVERY_S)
        rested = PausedWriters(tuple(streams), tuple(awake), waited)
        log.info("Maintenance pause", table=table, streams=list(rested.streams), running=list(rested.awake),
                 waited_s=round(rested.waited_s, 1))  # fmt: skip
        yield rested
