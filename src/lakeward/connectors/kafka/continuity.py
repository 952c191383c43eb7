"""Checks that the broker still has the records after a position (pure).

Spark detects missing records too, but in the middle of a batch, with a stack trace, and again after every restart.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.connectors.kafka import position
from lakeward.platform.errors import Blocked, Refused


def check(
    stream: str,
    at: str,
    begins: Mapping[str, Mapping[int, int]],
    ends: Mapping[str, Mapping[int, int]],
    *,
    from_zero: bool = True,
) -> None:
    """Compare a position with the first and last offsets of the broker's partitions.

    Args:
        stream: the stream's id, for the message.
        at: the position; its offsets are the next ones to read.
        begins, ends: topic -> partition -> offset. Topics that the broker did not return are not checked.
        from_zero: whether the query reads a partition that the position lacks from offset 0, as Spark's micro-batches
            do; they fail for ever if that offset has expired.

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
    if from_zero and at != position.NO_DATA:
        known = position.parse(at)
        expired += [
            f"{topic}/{partition}: 0 to {first - 1} ({first:,} offsets) of a partition that the stream has not read yet"
            for topic, partitions in sorted(begins.items())
            for partition, first in sorted(partitions.items())
            if first > 0 and partition not in known.get(topic, {})
        ]
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


def check_same(stream: str, doing: str, known: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Check that the topics are those that the stream landed from, before their records are read by old offsets.

    Args:
        doing: what cannot be done, e.g. `reset stream flights`.
        known, now: topic -> its id, as the position has it and as the broker has it.

    Raises:
        Refused: a topic was deleted and created again: equal offsets name other records.
    """
    other = sorted(topic for topic, each in known.items() if now.get(topic, each) != each)
    if other:
        raise Refused(
            f"Cannot {doing}; topic {', '.join(other)} was deleted and created again",
            why="; ".join(f"{topic}: landed from {known[topic]}, now {now[topic]}" for topic in other)
            + "; its offsets name other records than those that landed",
            next=f"give the stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
            code="LW-3481",
        )
