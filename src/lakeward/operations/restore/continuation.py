"""Continuation after a restore: a new checkpoint must be possible at the old offsets, and the source must have them."""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.connectors.commit_protocol.position import NO_DATA, Position
from lakeward.connectors.kafka import broker
from lakeward.connectors.kafka import position as kafka_position
from lakeward.operations import sink_position
from lakeward.operations.context import Context
from lakeward.platform.errors import Refused
from lakeward.platform.text import count
from lakeward.spec.deploy.plan import keeps_state
from lakeward.spec.model.stream import StreamSpec


def exact(table: str, stream: str, spec: StreamSpec) -> None:
    """Check that a writer keeps its position in the table."""
    if spec.sink.iceberg is not None and spec.sink.iceberg.commit != "exact":
        raise _no(
            table,
            f"stream {stream} writes it with commit: {spec.sink.iceberg.commit}",
            "such a stream keeps no position in the table; only its checkpoint records what landed",
            f"set commit: exact   (lakeward streams import {stream} continues its checkpoint)",
        )


def offsets(
    context: Context, table: str, stream: str, spec: StreamSpec, at: Position, end: Mapping[str, str]
) -> dict[str, str]:
    """The offsets where a new checkpoint begins, including partitions that were added since.

    Raises:
        Refused: the stream keeps state, its source has no offsets, or records have expired.
        DependencyDown: a broker does not answer.
    """
    _stateless(table, stream, spec)
    now = sink_position.topic_ids(context, spec)
    if at.topic_ids and now != at.topic_ids:
        raise _no(
            table,
            f"a topic of stream {stream} was deleted and created again",
            f"the topic ids were {at.topic_ids} and are {now} now: the old records no longer exist",
            "restore to a snapshot after the topic was created again",
        )
    lost = []
    for source, (_, cluster, _) in sink_position.kafka_of(context, spec).items():
        end_offsets = kafka_position.parse(end.get(source, NO_DATA))
        first = broker.begin_offsets(cluster, sorted(end_offsets))
        for topic, parts in sorted(end_offsets.items()):
            for part, offset in sorted(parts.items()):
                until = first.get(topic, {}).get(part, offset)
                if until > offset:
                    lost.append(f"{topic}/{part}: {count(until - offset, 'record')} ({offset} to {until - 1})")
    if lost:
        raise _no(
            table,
            f"the source of stream {stream} no longer has what would land again",
            "; ".join(lost),
            "restore to a later snapshot; after this one these rows would be lost",
        )
    return sink_position.with_new_partitions(context, spec, end)


def _stateless(table: str, stream: str, spec: StreamSpec) -> None:
    next_ = f"rebuild the table if the source still has all records: lakeward streams rebuild {stream} --dry-run"
    other = [str(name) for name, source in spec.sources.items() if source.kafka is None]
    if other:
        why = f"its position does not define where to continue in {', '.join(other)}; only Kafka offsets do"
        raise _no(table, f"stream {stream} cannot follow", why, next_)
    state = keeps_state(spec)
    if state or (state is None and spec.lineage != "rows"):
        why = "it keeps state (windows, aggregates, keys for deduplication), and state is stored in its checkpoint"
        raise _no(table, f"stream {stream} cannot follow", why, next_)


def _no(table: str, what: str, why: str, next_: str) -> Refused:
    return Refused(f"Cannot restore table {table}: {what}", why=why, next=next_, code="LW-2058")
