"""One attempt at landing a batch: what it gives, how else it may end, and how long until the next."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakeward.connectors.commit_protocol.position import Position, Totals
from lakeward.platform.errors import DependencyDown

ATTEMPTS = 8
"""How often one batch is tried against a table that keeps changing."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0

Build = Callable[[int | None, int], Position]
"""(published snapshot, its sequence number) -> the position to publish with it."""


@dataclass(frozen=True)
class Landed:
    """What became of one batch.

    Attributes:
        seq, snapshot: of the position that counts it; `snapshot` is None if nothing was written at all.
        start, end: source name -> canonical offset.
        counts: this batch's records; zeros for a batch that was there already.
        totals: since the stream's first position.
        already: the table had it before (a replay).
        written: something was published; False for a batch without rows that advances nothing.
        stage_ms, publish_ms: how long step 2 and step 3 took.
        position: as it stands in the table after the batch; None if there is none.
    """

    seq: int
    snapshot: int | None
    start: Mapping[str, str]
    end: Mapping[str, str]
    counts: Totals
    totals: Totals
    already: bool = False
    written: bool = True
    stage_ms: float = 0.0
    publish_ms: float = 0.0
    position: Position | None = None


class Redo(Exception):
    """This attempt cannot go on; back to step 1."""


class SourceAway(DependencyDown):
    """Raised when it cannot be asked whether the source is still the same: whoever called waits with the batch."""


def new_attempt(stream: str, seq: int) -> str:
    """An id for one write of one batch: unique, and it says whose and which."""
    return f"{stream}/{seq}/{secrets.token_hex(8)}"


def pause(attempt: int) -> None:
    """Full jitter: writers that collided once should not collide again."""
    time.sleep(random.uniform(0.2, 1.0) * min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**attempt))  # noqa: S311  # no secret
