"""Trouble: which streams are an incident of their own, and which only show somebody else's. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from lakeward.registry.streams import Stream
from lakeward.supervision.decide.health import TROUBLE, State, Verdict

GRACE_S = 60.0
"""A restart that succeeds within this is a line in the timeline and nobody's message."""
ATTEMPTS = 3
"""A restart that fails this often in a row is an incident however quick it is."""


def of_their_own(
    streams: Iterable[Stream],
    verdicts: Mapping[str, Verdict],
    now: datetime,
    *,
    explained: Mapping[str, str],
    attempts: Mapping[str, int],
    told: Collection[str] = (),
) -> dict[str, str]:
    """Stream -> its trouble in a sentence, for the streams people should hear of one by one.

    Args:
        streams: with `state` and `since` as they were recorded.
        explained: streams that show the trouble of a dependency, or of all: that is one incident, not theirs.
        attempts: number of the coming attempt, for streams that failed.
        told: streams with an incident of their own that is open: being restarted is not its end.
    """
    found = {}
    for stream in streams:
        seen = verdicts[stream.id]
        if seen.state not in TROUBLE or (stream.id in explained and seen.state is not State.BLOCKED):
            continue
        graced = seen.state is State.RESTARTING and stream.id not in told
        if graced and attempts.get(stream.id, 0) < ATTEMPTS:
            since = (now - stream.since).total_seconds() if stream.state == seen.state.value else 0.0
            if since < GRACE_S:
                continue
        found[stream.id] = f"Stream {stream.id} is {seen.state}: {seen.why}"
    return found
