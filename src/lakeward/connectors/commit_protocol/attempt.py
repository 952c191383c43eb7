"""One attempt at landing a batch: its id, how it may fail, and how long until the next."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable

from lakeward.connectors.commit_protocol.position import Position
from lakeward.platform.errors import DependencyDown

ATTEMPTS = 8
"""How often one batch is tried against a table that keeps changing."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0

Build = Callable[[int | None, int], Position]
"""(published snapshot, its sequence number) -> the position to publish with it."""


class RetryCommit(Exception):
    """This attempt cannot go on; back to step 1."""


class SourceUnavailable(DependencyDown):
    """Raised when it cannot be asked whether the source is still the same: whoever called waits with the batch."""


def new_attempt(stream: str, seq: int) -> str:
    """An id for one write of one batch: unique, and it says whose and which."""
    return f"{stream}/{seq}/{secrets.token_hex(8)}"


def pause(attempt: int) -> None:
    """Full jitter: writers that collided once should not collide again."""
    time.sleep(random.uniform(0.2, 1.0) * min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**attempt))  # noqa: S311  # no secret
