"""Delivering: every text of every incident once, in order, and again until it arrived.

A receiver that is away ends the pass: everything waits for it. A message it refuses waits alone, in pauses that grow.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta

import structlog
from sqlalchemy import func, select

from lakeward.platform.text import span
from lakeward.registry import incidents
from lakeward.registry.incidents import Incident
from lakeward.supervision.notify.channel import Channel, MessageRefused, Undelivered
from lakeward.supervision.observe import Connect

log = structlog.get_logger(__name__)

_LOCK = 0x6E6F7469  # one sender at a time: the reconcile task and the triggerer may both want to
BOX_S = 15.0
"""A pass sends no longer than this; the rest is the next one's."""
PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(minutes=10)
"""After a refusal the same text waits this long, twice as long after each further one."""


@dataclass(frozen=True)
class Delivery:
    """What became of one pass: ids sent, and why not all of them were (empty: all were)."""

    sent: tuple[int, ...] = ()
    trouble: str = ""


def deliver(connect: Connect, channel: Channel, *, box_s: float = BOX_S) -> Delivery:
    """Send what no message has yet.

    A text counts as sent when the receiver took it. Whoever dies between that and the record of it sends it again, with
    the same idempotency key.

    Raises:
        DependencyDown: the registry cannot be reached.
    """
    end = time.monotonic() + box_s
    sent: list[int] = []
    trouble = ""
    with connect() as guard:
        if not guard.execute(select(func.pg_try_advisory_xact_lock(_LOCK))).scalar_one():
            return Delivery()
        for incident in incidents.unsaid(guard):
            if time.monotonic() > end:
                return Delivery(tuple(sent), "the time for messages of this pass is over")
            try:
                message = channel.send(incident)
            except MessageRefused as error:
                pause = _pause(incident)
                with connect() as connection:
                    incidents.remember_refusal(connection, incident, pause)
                again = f"{error.what}; it is sent again in {span(pause.total_seconds())}"
                log.error(again, why=error.why, incident=incident.id)
                trouble = f"{error.what}: {error.why}"
                continue
            except Undelivered as error:
                log.error(f"{error.what}; it is sent again with the next pass", why=error.why, incident=incident.id)
                return Delivery(tuple(sent), f"{error.what}: {error.why}")
            # At once and by itself: what was said must be known as said, whatever happens to the next.
            said = {**message, "channel_name": channel.name, "text": incident.text}
            with connect() as connection:
                incidents.remember_message(connection, incident.id, said)
            sent.append(incident.id)
    return Delivery(tuple(sent), trouble)


def _pause(incident: Incident) -> timedelta:
    """How long a text waits that was refused just now."""
    doubled = 1 << min(incident.refusals, 10)
    return min(LONGEST_PAUSE, PAUSE * doubled)
