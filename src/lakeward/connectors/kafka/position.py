"""The position form of Kafka: canonical JSON `{"topic":{"partition":offset}}`, offsets exclusive at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping

Offsets = dict[str, dict[int, int]]
"""topic -> partition -> offset."""

NO_DATA = "-"
EARLIEST = -2
"""What Spark's source takes for "from the beginning of the partition"."""


def canonical(offsets: str) -> str:
    """One text for one position, whatever order Spark wrote it in."""
    return render(parse(offsets))


def parse(text: str) -> Offsets:
    """Read a position; `-` is a source without data yet."""
    if text == NO_DATA:
        return {}
    return {
        topic: {int(partition): int(offset) for partition, offset in partitions.items()}
        for topic, partitions in json.loads(text).items()
    }


def render(offsets: Mapping[str, Mapping[int, int]]) -> str:
    """Write a position in canonical form."""
    plain = {t: {str(p): o for p, o in sorted(parts.items())} for t, parts in sorted(offsets.items())}
    return json.dumps(plain, separators=(",", ":"))


def span(start: str, end: str) -> tuple[Offsets, Offsets]:
    """Start and end with the same partitions: a partition that appeared meanwhile starts at its beginning."""
    last = parse(end)
    first = parse(start)
    return {t: {p: first.get(t, {}).get(p, EARLIEST) for p in parts} for t, parts in last.items()}, last


def behind(position: str, ends: Mapping[str, Mapping[int, int]]) -> int:
    """Records (by offsets) between a position and the broker's ends; partitions the position lacks count whole."""
    landed = parse(position)
    return sum(
        max(0, end - landed.get(topic, {}).get(partition, 0))
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    )
