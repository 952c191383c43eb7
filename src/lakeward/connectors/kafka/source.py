"""`KafkaStreamSource`: topics of one Kafka cluster as a source of a stream."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.connectors.kafka import broker, continuity, peek, position, reader
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.record_source import RecordSource
from lakeward.connectors.source import VALUE, LagProbe
from lakeward.platform.errors import LakewardError, Poison, expect
from lakeward.spec.model.sources import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_OVERFLOW = "java.lang.ArithmeticException: long overflow"
_LARGEST_MS = (2**63 - 1) // 1000
"""Spark keeps a record's time in microseconds."""
_LOOK_S = 60.0


@dataclass
class KafkaStreamSource(RecordSource):
    """Records of the topics of one cluster.

    Attributes:
        cluster: the cluster.
        unbatched: whether the query has no micro-batches (real-time mode and continuous processing).
    """

    cluster: Cluster
    unbatched: bool = False

    @property
    def kafka(self) -> KafkaSource:
        """The connector's part of the spec."""
        return expect(self.spec.kafka, "a source `kafka`")

    @property
    def record(self) -> tuple[str, ...]:
        return (VALUE, reader.KEY, reader.HEADERS)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(str(topic) for topic in self.kafka.topics)

    @property
    def undecoded(self) -> str:
        return "_kafka_value"

    def ids(self) -> dict[str, str]:
        return broker.topic_ids(self.cluster, self.kafka)

    def still_has(self, stream: str, at: str, known: Collection[str]) -> None:
        landed = position.parse(at)
        topics = [topic for topic in known if topic in landed or self.kafka.reads(topic)]  # `known`: of all sources
        begins, ends = broker.begin_offsets(self.cluster, topics), broker.end_offsets(self.cluster, topics)
        named = {str(topic) for topic in self.kafka.topics}
        continuity.check(stream, at, begins, ends, from_zero=not self.unbatched, named=named)

    def gauge(self, at: str) -> LagProbe:
        topics = tuple(str(topic) for topic in self.kafka.topics) or tuple(position.parse(at))
        return LagProbe(self.cluster, topics, self.kafka.isolation_level, self.kafka.mirror_offsets is not False)

    def failed_to_read(self, stream: str, text: str, start: str, end: str) -> LakewardError | None:
        if _OVERFLOW not in text or end == NO_DATA:
            return None
        first, last = position.parse(start), position.parse(end)
        begins = {topic: {part: first.get(topic, {}).get(part, 0) for part in parts} for topic, parts in last.items()}
        found = peek.records(
            self.cluster, begins, last, 1, _LOOK_S, self.kafka.isolation_level, lambda millis: millis > _LARGEST_MS
        )
        if not found:
            return None
        record = found[0]
        return Poison(
            f"A record of stream {stream} has a time that Spark cannot read",
            why=f"{record.topic}/{record.partition} offset {record.offset} was written at {record.millis} ms since "
            f"1970, and Spark takes at most {_LARGEST_MS}; its producer has to give milliseconds, "
            "which message.timestamp.after.max.ms of the topic lets the broker demand",
            code="LW-3491",
        )

    def most(self, start: str, end: str) -> int | None:
        return position.span(start, end)

    def read(self, session: SparkSession, *, fresh: bool, begin: str | None) -> DataFrame:
        return reader.read(session, self.kafka, self.cluster, fresh=fresh, begin=begin, unbatched=self.unbatched)

    def again(self, session: SparkSession, start: str, end: str) -> DataFrame:
        return reader.read_range(session, self.kafka, self.cluster, start, end)
