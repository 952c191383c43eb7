"""Attempts and retries of landing a batch: the id of an attempt, its errors, and the pause before the next."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable

from lakeward.connectors.commit_protocol.position import Position
from lakeward.platform.errors import DependencyDown

ATTEMPTS = 8
"""The most attempts of one batch while the table keeps changing."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0

Build = Callable[[int | None, int], Position]
"""(published snapshot, its sequence number) -> the position to publish with it."""


class RetryCommit(Exception):
    """Raised when this attempt cannot be completed: the writer returns to step 1."""


class SourceUnavailable(DependencyDown):
    """Raised when the source does not answer, so its identity cannot be checked: the caller waits inside the batch."""


def new_attempt(stream: str, seq: int) -> str:
    """A unique id for one write of one batch: `<stream>/<seq>/<nonce>`."""
    return f"{stream}/{seq}/{secrets.token_hex(8)}"


def pause(attempt: int) -> None:
    """Sleep before the next attempt, with full jitter, so that writers that collided once do not collide again."""
    time.sleep(random.uniform(0.2, 1.0) * min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**attempt))  # noqa: S311  # no secret
