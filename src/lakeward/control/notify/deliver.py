"""Delivering: every text of every incident once, in order, and again until it arrived."""

from __future__ import annotations

import time
from dataclasses import dataclass

import structlog
from sqlalchemy import func, select

from lakeward.control.look import Connect
from lakeward.control.notify.channel import Channel, Undelivered
from lakeward.registry import incidents

log = structlog.get_logger(__name__)

_LOCK = 0x6E6F7469  # one sender at a time: the reconcile task and the triggerer may both want to
BOX_S = 15.0
"""A pass sends no longer than this; the rest is the next one's."""


@dataclass(frozen=True)
class Delivery:
    """What became of one pass: ids sent, and why it stopped before the end (empty: it did not)."""

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
    with connect() as guard:
        if not guard.execute(select(func.pg_try_advisory_xact_lock(_LOCK))).scalar_one():
            return Delivery()
        for incident in incidents.unsaid(guard):
            if time.monotonic() > end:
                return Delivery(tuple(sent), "the time for messages of this pass is over")
            try:
                message = channel.send(incident)
            except Undelivered as error:
                log.error(f"{error.what}; it is sent again with the next pass", why=error.why, incident=incident.id)
                return Delivery(tuple(sent), f"{error.what}: {error.why}")
            # At once and by itself: what was said must be known as said, whatever happens to the next.
            said = {**message, "channel_name": channel.name, "text": incident.text}
            with connect() as connection:
                incidents.remember_message(connection, incident.id, said)
            sent.append(incident.id)
    return Delivery(tuple(sent))
