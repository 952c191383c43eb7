"""Trouble: which streams are an incident of their own, and which are affected by another incident. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from lakeward.registry.streams import Stream
from lakeward.supervision.decide.health import TROUBLE, State, Verdict

GRACE_S = 60.0
"""A restart that succeeds within this time is a timeline entry and no incident."""
ATTEMPTS = 3
"""A stream that failed this many times in a row is an incident at once."""


def of_their_own(
    streams: Iterable[Stream],
    verdicts: Mapping[str, Verdict],
    now: datetime,
    *,
    explained: Mapping[str, str],
    attempts: Mapping[str, int],
    reported: Collection[str] = (),
) -> dict[str, str]:
    """Stream -> its trouble in a sentence, for the streams that are an incident of their own.

    Args:
        streams: with `state` and `since` as they were recorded.
        explained: streams affected by a dependency or by thrash: those are incidents of their own kind.
        attempts: number of the next attempt, for streams that failed.
        reported: streams whose own incident is open: a restart does not close it.
    """
    by_stream = {}
    for stream in streams:
        seen = verdicts[stream.id]
        if seen.state not in TROUBLE or (stream.id in explained and seen.state is not State.BLOCKED):
            continue
        graced = seen.state is State.RESTARTING and stream.id not in reported
        if graced and attempts.get(stream.id, 0) < ATTEMPTS:
            since = (now - stream.since).total_seconds() if stream.state == seen.state.value else 0.0
            if since < GRACE_S:
                continue
        by_stream[stream.id] = f"Stream {stream.id} is {seen.state}: {seen.why}"
    return by_stream
