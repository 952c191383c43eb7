"""Reads what has arrived at a consumer. `Consumer.consume(count, timeout)` waits until all of `count` are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message


def arrived(consumer: Consumer, most: int, timeout_s: float) -> list[Message]:
    """At most `most` messages; waits for the first one only, and returns nothing if it does not come in time."""
    first = consumer.consume(1, timeout=timeout_s)
    return [*first, *consumer.consume(most - 1, timeout=0)] if first else []
