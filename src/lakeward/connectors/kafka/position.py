"""A Kafka position as text: canonical JSON `{"topic":{"partition":offset}}`; the offset is the next one to read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

Offsets = dict[str, dict[int, int]]
"""topic -> partition -> offset."""

NO_DATA = "-"
EARLIEST = -2
"""The offset by which Spark's source starts at the beginning of a partition."""


def canonical(offsets: str) -> str:
    """The canonical text of a position, independent of the order in which Spark wrote it."""
    return render(parse(offsets))


def parse(text: str) -> Offsets:
    """Parse a position; `-` is a source without data yet."""
    if text == NO_DATA:
        return {}
    return {
        topic: {int(partition): int(offset) for partition, offset in partitions.items()}
        for topic, partitions in json.loads(text).items()
    }


def render(offsets: Mapping[str, Mapping[int, int]]) -> str:
    """The position as canonical text."""
    plain = {t: {str(p): o for p, o in sorted(parts.items())} for t, parts in sorted(offsets.items())}
    return json.dumps(plain, separators=(",", ":"))


def same_partitions(start: str, end: str) -> tuple[Offsets, Offsets]:
    """Start and end with the partitions of the end. A partition that `start` lacks starts at its beginning."""
    last = parse(end)
    first = parse(start)
    return {t: {p: first.get(t, {}).get(p, EARLIEST) for p in parts} for t, parts in last.items()}, last


REPLACED = "its topic is missing, or ends before the landed position"
CREATED_AGAIN = "its topic was deleted and created again"


def replaced(position: str, ends: Mapping[str, Mapping[int, int]], topics: Iterable[str]) -> bool:
    """Whether a topic is missing or ends before the landed position: it was deleted, or these are other brokers. No
    record of it waits, and yet the stream has not caught up: it stops at its next batch (`kafka.continuity`).
    """
    return any(topic not in ends for topic in topics) or any(
        ends[topic].get(partition, -1) < offset  # Kafka takes no partition away: the topic that had it is another one
        for topic, partitions in parse(position).items()
        if topic in ends
        for partition, offset in partitions.items()
    )


def span(start: str, end: str) -> int | None:
    """The number of offsets of a range; None if the beginning of a partition is not known."""
    first, last = same_partitions(start, end)
    parts = [(first[topic][part], to) for topic, parts in last.items() for part, to in parts.items()]
    return None if any(begin < 0 for begin, _ in parts) else sum(to - begin for begin, to in parts)


def behind(position: str, ends: Mapping[str, Mapping[int, int]]) -> int:
    """The number of offsets between a position and the ends; partitions that the position lacks count from 0."""
    landed = parse(position)
    return sum(
        max(0, end - landed.get(topic, {}).get(partition, 0))
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    )
