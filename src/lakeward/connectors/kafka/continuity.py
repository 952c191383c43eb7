"""Checks that the broker still has the records after a position (pure).

Spark detects missing records too, but in the middle of a batch, with a stack trace, and again after every restart.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.connectors.kafka import position
from lakeward.platform.errors import Blocked


def check(stream: str, at: str, begins: Mapping[str, Mapping[int, int]], ends: Mapping[str, Mapping[int, int]]) -> None:
    """Compare a position with the first and last offsets of the broker's partitions.

    Args:
        stream: the stream's id, for the message.
        at: the position; its offsets are the next ones to read.
        begins, ends: topic -> partition -> offset. Topics that the broker did not return are not checked.

    Raises:
        Blocked: records that were never landed are no longer there, or a partition ends before the position.
    """
    expired, shorter = [], []
    for topic, partitions in position.parse(at).items():
        for partition, offset in partitions.items():
            first = begins.get(topic, {}).get(partition)
            last = ends.get(topic, {}).get(partition)
            if first is not None and first > offset:
                expired.append(f"{topic}/{partition}: {offset} to {first - 1} ({first - offset:,} offsets)")
            elif last is not None and last < offset:
                shorter.append(f"{topic}/{partition}: landed up to {offset}, it ends at {last}")
    if expired:
        raise Blocked(
            f"Kafka no longer has records that stream {stream} has not landed",
            why="retention deleted " + "; ".join(expired),
            next=f'lakeward streams reset {stream} --to available --comment "records expired"   continues with the '
            "available records, records the range as skipped, and asks first",
            reason="source-expired",
            code="LW-3113",
        )
    if shorter:
        raise Blocked(
            f"A topic of stream {stream} ends before the position of the stream",
            why="; ".join(shorter) + ": the topic was deleted and created again, or these are other brokers",
            next=f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy; "
            "or if these are other brokers than before, correct the connection",
            reason="topic-replaced",
            code="LW-3114",
        )
