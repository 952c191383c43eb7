"""Reads what has arrived at a consumer, and when it was written.

`Consumer.consume(count, timeout)` waits until all of `count` are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.platform.text import instant

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message


def arrived(consumer: Consumer, most: int, timeout_s: float) -> list[Message]:
    """At most `most` messages; waits for the first one only, and returns nothing if it does not come in time."""
    first = consumer.consume(1, timeout=timeout_s)
    return [*first, *consumer.consume(most - 1, timeout=0)] if first else []


def written(message: Message) -> float | None:
    """When a record was written, in seconds since 1970; None if the record has no time, which Kafka writes as -1.

    A producer may give microseconds for milliseconds: a time that is no date of a calendar is the latest that is one.
    """
    millis = message.timestamp()[1]
    return None if millis < 0 else instant(millis).timestamp()
