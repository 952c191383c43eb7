"""Message delivery: every text of every incident once, in order, with retries.

An unavailable receiver ends the pass: all messages wait for it. A rejected message waits alone, with growing pauses.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import cast

import structlog
from sqlalchemy import func, select

from lakeward.platform.boundary import Failure, attempt, failure_of
from lakeward.registry import incidents
from lakeward.registry.incidents import Incident, Message
from lakeward.supervision.notify.channel import Channel, MessageRefused, Undelivered
from lakeward.supervision.observe import Connect

log = structlog.get_logger(__name__)

_LOCK = 0x6E6F7469  # one sender at a time: the reconcile task and the triggerer may both want to
BOX_S = 15.0
"""Time limit of a pass; the next pass sends the rest."""
PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(minutes=10)
"""Pause after a rejection, doubled with each further one."""


@dataclass(frozen=True)
class Delivery:
    """The result of one pass: ids sent, and why some were not (empty: all were sent)."""

    sent: tuple[int, ...] = ()
    trouble: str = ""


def deliver(connect: Connect, channel: Channel, *, box_s: float = BOX_S) -> Delivery:
    """Send all pending texts.

    A text counts as sent when the receiver accepted it. After a crash between that and its record, it is sent again
    with the same idempotency key.

    Raises:
        DependencyDown: the registry cannot be reached.
    """
    end = time.monotonic() + box_s
    sent: list[int] = []
    trouble = ""
    with connect() as guard:
        if not guard.execute(select(func.pg_try_advisory_xact_lock(_LOCK))).scalar_one():
            return Delivery()
        for incident in incidents.pending(guard):
            if time.monotonic() > end:
                return Delivery(tuple(sent), "the time for messages of this pass is over")
            try:
                message = attempt(
                    f"message of incident {incident.id}", partial(channel.send, incident), through=(Undelivered,)
                )
            except MessageRefused as error:
                message = failure_of(f"message of incident {incident.id}", error)
            except Undelivered as error:
                log.error("message not delivered", why=error.why, incident=incident.id)
                return Delivery(tuple(sent), f"{error.what}: {error.why}")
            if isinstance(message, Failure):  # it waits alone, whether the receiver rejected it or it cannot be written
                pause = _pause(incident)
                with connect() as connection:
                    incidents.remember_refusal(connection, incident, pause)
                why, retry_in_s = message.why, pause.total_seconds()
                log.error("message rejected", why=why, incident=incident.id, retry_in_s=retry_in_s)
                trouble = f"{message.what}: {message.why}"
                continue
            # In its own transaction: a sent message must be recorded, whatever happens to the next one.
            record = Message(channel_name=channel.name, text=incident.text)
            record.update(cast("Message", message))
            with connect() as connection:
                incidents.remember_message(connection, incident.id, record)
            sent.append(incident.id)
    return Delivery(tuple(sent), trouble)


def _pause(incident: Incident) -> timedelta:
    """The pause of a text that was just rejected."""
    doubled = 1 << min(incident.refusals, 10)
    return min(LONGEST_PAUSE, PAUSE * doubled)
