"""Does the broker still have what comes after a position? Pure.

Spark finds out too, but in the middle of a batch, with a stack trace, and again at every restart.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.connectors.kafka import position
from lakeward.platform.errors import Blocked


def check(stream: str, at: str, begins: Mapping[str, Mapping[int, int]], ends: Mapping[str, Mapping[int, int]]) -> None:
    """Compare a position with the first and last offsets of the broker's partitions.

    Args:
        stream: for the text.
        at: the position, exclusive.
        begins, ends: topic -> partition -> offset. Topics the broker did not name are not judged.

    Raises:
        Blocked: records are gone that were never landed, or the partition is shorter than what was landed.
    """
    gone, shorter = [], []
    for topic, partitions in position.parse(at).items():
        for partition, offset in partitions.items():
            first = begins.get(topic, {}).get(partition)
            last = ends.get(topic, {}).get(partition)
            if first is not None and first > offset:
                gone.append(f"{topic}/{partition}: {offset} to {first - 1} ({first - offset:,} offsets)")
            elif last is not None and last < offset:
                shorter.append(f"{topic}/{partition}: landed up to {offset}, it ends at {last}")
    if gone:
        raise Blocked(
            f"Kafka no longer has records that stream {stream} never landed",
            why="retention took " + "; ".join(gone),
            next=f"lakeward streams reset {stream} --to available --dry-run   goes on with what is left, "
            "and keeps the range as skipped",
            reason="source-expired",
            code="LW-3113",
        )
    if shorter:
        raise Blocked(
            f"A topic of stream {stream} is shorter than what was landed from it",
            why="; ".join(shorter) + ": it was deleted and created again, or these are other brokers",
            next=f"check the connection, or give the stream a new id and table (conf/streams/{stream}.yaml) and deploy",
            reason="topic-replaced",
            code="LW-3114",
        )
