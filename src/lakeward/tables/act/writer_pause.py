"""The cooperative window: streams that change a table's rows rest between two batches while it is rewritten.

A rewrite of files whose rows a MERGE changes meanwhile fails, whatever it cost. Streams that only add rows are left
alone. A stream never rests longer than its freshness allows; what is not done by then races as without a window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep

import structlog

from lakeward.registry import leases, writer_pauses
from lakeward.tables.guard.actor import Transaction, actor

log = structlog.get_logger(__name__)

WAIT_S = 60.0
"""The batch that is under way gets this long to end; then the rewrite goes on beside the stream."""
LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class PausedWriters:
    """What came of asking: the streams that did not stand aside in time, and how long it took to know."""

    streams: tuple[str, ...]
    awake: tuple[str, ...] = ()
    waited_s: float = 0.0

    @property
    def words(self) -> str:
        """For the log and the ledger; empty where nobody was asked."""
        if not self.streams:
            return ""
        if self.awake:
            return f"{', '.join(self.awake)} came to no batch boundary in {self.waited_s:.0f} s and went on beside it"
        return f"{', '.join(self.streams)} rested after {self.waited_s:.1f} s"


@contextmanager
def window(
    transaction: Transaction, table: str, streams: Sequence[str], wait_s: float = WAIT_S
) -> Iterator[PausedWriters]:
    """Ask streams to rest for the length of the block, once they do or after `wait_s`.

    Only the holder of the table's lease may call it. Whoever dies inside lets go: the lease lapses in seconds.
    """
    if not streams:
        yield PausedWriters(())
        return
    with transaction() as connection:  # of a maintenance that died: the table's lease is ours, so this is over
        leases.forget(connection, writer_pauses.WINDOW, table)
        for stream in streams:  # and what they said in it is not said of this one
            leases.forget(connection, writer_pauses.RESTS, stream)
    with actor(transaction, table, ttl=writer_pauses.TTL, scope=writer_pauses.WINDOW):
        begun = monotonic()
        while True:
            with transaction() as connection:
                awake = writer_pauses.awake(connection, list(streams))
            waited = monotonic() - begun
            if not awake or waited >= wait_s:
                break
            sleep(LOOK_EVERY_S)
        rested = PausedWriters(tuple(streams), tuple(awake), waited)
        log.info(f"Window on {table}: {rested.words}")
        yield rested
