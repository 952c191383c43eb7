"""Checks that the broker still has the records after a position (pure).

Spark detects missing records too, but in the middle of a batch, with a stack trace, and again after every restart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lakeward.connectors.kafka import position
from lakeward.platform.errors import Blocked, Refused


def check(
    stream: str,
    at: str,
    begins: Mapping[str, Mapping[int, int]],
    ends: Mapping[str, Mapping[int, int]],
    *,
    from_zero: bool = True,
    named: Collection[str] = (),
) -> None:
    """Compare a position with the first and last offsets of the broker's partitions.

    Args:
        stream: the stream's id, for the message.
        at: the position; its offsets are the next ones to read.
        begins, ends: topic -> partition -> offset. Topics that the broker did not return are not checked.
        from_zero: whether the query reads a partition that the position lacks from offset 0, as Spark's micro-batches
            do; they fail for ever if that offset has expired.
        named: topics that the spec lists by name: one that the position lacks was added later. A topic of a pattern may
            have been made, and have lost records, while the stream was down.

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
    unread = _unread(at, begins) if from_zero else {}
    late = {topic: ranges for topic, ranges in unread.items() if topic in named and topic not in position.parse(at)}
    expired += [
        f"{each} of a partition that the stream has not read yet"
        for topic, ranges in unread.items()
        if topic not in late
        for each in ranges
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
    if late:
        ranges = "; ".join(each for some in late.values() for each in some)
        raise Blocked(
            f"A topic that was added to stream {stream} no longer has its first records",
            why=f"retention deleted {ranges} before the stream read the topic for the first time, and Spark begins an "
            "added topic at offset 0",
            next=f'lakeward streams reset {stream} --to available --comment "topic added"   begins it at its first '
            f"available record; or give the stream a new id and a new table (conf/streams/{stream}.yaml), then: "
            "lakeward deploy",
            reason="topic-added-late",
            code="LW-3483",
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


def _unread(at: str, begins: Mapping[str, Mapping[int, int]]) -> dict[str, list[str]]:
    """Topic -> the expired ranges of its partitions that the position lacks."""
    if at == position.NO_DATA:
        return {}
    known = position.parse(at)
    found: dict[str, list[str]] = {}
    for topic, partitions in sorted(begins.items()):
        for partition, first in sorted(partitions.items()):
            if first > 0 and partition not in known.get(topic, {}):
                found.setdefault(topic, []).append(f"{topic}/{partition}: 0 to {first - 1} ({first:,} offsets)")
    return found


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
