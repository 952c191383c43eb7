"""Since when a stream is in its state: when it happened, as far as commits, heartbeats and failures can tell. Pure.

A pass records when it noticed. What happened before that is in the facts: a driver was alive at its last heartbeat, a
query failed when its driver reported it, a stream that lands has landed since its last commit at the latest.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from lakeward.supervision.backends.base import Life
from lakeward.supervision.decide.health import HealthInput, State, Verdict


def since(inputs: HealthInput, seen: Verdict) -> datetime:
    """The moment; never later than `inputs.now`. Without any evidence: when it was recorded, else now."""
    stream, now = inputs.stream, inputs.now
    recorded = stream.since if stream.state == seen.state.value else None
    if seen.state is State.BLOCKED and (at := (stream.blocked or {}).get("at")) is not None:
        return datetime.fromisoformat(str(at))
    if seen.state in (State.RESTARTING, State.STALLED, State.UNKNOWN, State.LAGGING):
        return min([now, *_known([recorded, _began(inputs, seen.state)])])
    if recorded is not None:
        return recorded
    happened = inputs.observation
    if seen.state in (State.HEALTHY, State.COMPLETED) and happened is not None:
        # Not before the state that is recorded: a commit before a failure does not tell when the failure was over.
        return min(now, max(_known([happened.committed_at or happened.at, stream.since])))
    if seen.state is State.STARTING and inputs.driver is not None:
        return min(now, max(inputs.driver.launched_at, stream.since))
    if seen.state is State.STARTING:  # no pass has seen it since the request
        return min(now, max(stream.updated_at, stream.since))
    return now


def _began(inputs: HealthInput, state: State) -> datetime | None:
    """The last evidence before the trouble; None if nothing but the recorded state tells it."""
    driver, seen, now = inputs.driver, inputs.observation, inputs.now
    if state is State.LAGGING:
        over = (seen.least_s or 0.0) - inputs.limits.freshness.seconds if seen is not None else 0.0
        return now - timedelta(seconds=over) if over > 0 else None
    if state is State.STALLED:
        evidence = [driver.launched_at if driver else None, seen.committed_at if seen else None]
        return max(_known(evidence), default=None)
    ended = driver is not None and (inputs.process is Life.GONE or driver.ended or state is State.UNKNOWN)
    if ended and driver is not None:
        return driver.heartbeat or driver.launched_at
    if seen is not None and seen.query_state == "failed":
        return seen.at
    return None


def _known(moments: Iterable[datetime | None]) -> list[datetime]:
    return [moment for moment in moments if moment is not None]
