"""Topics as a source of a stream."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lakeward.connectors.decode.json import JsonDecoder
from lakeward.connectors.kafka import broker, continuity, position, source
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.source import ERROR, RAW, REASON, VALUE, Gauge, Inlet
from lakeward.errors import SpecError
from lakeward.spec.sources import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class KafkaInlet(Inlet):
    """Records of the topics of one cluster. `unbatched`: they leave as they come."""

    cluster: Cluster
    unbatched: bool = False

    @property
    def kafka(self) -> KafkaSource:
        """The connector's own part of the spec."""
        assert self.spec.kafka is not None
        return self.spec.kafka

    @property
    def record(self) -> tuple[str, ...]:
        return (VALUE, source.KEY, source.HEADERS)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(str(topic) for topic in self.kafka.topics)

    def prepare(self) -> None:
        _ = self.decoder and self.decoder.schema

    def ids(self) -> dict[str, str]:
        return broker.topic_ids(self.cluster, self.kafka)

    def still_has(self, stream: str, at: str, known: Collection[str]) -> None:
        topics = list(known)
        begins, ends = broker.begin_offsets(self.cluster, topics), broker.end_offsets(self.cluster, topics)
        continuity.check(stream, at, begins, ends)

    def gauge(self, at: str) -> Gauge:
        return Gauge(self.cluster, tuple(str(topic) for topic in self.kafka.topics) or tuple(position.parse(at)))

    def explain(self, bad: DataFrame) -> DataFrame:
        return bad if self.decoder is None else self.decoder.explain(bad, list(self.spec.kept_columns))

    @cached_property
    def decoder(self) -> JsonDecoder | None:
        """None: the record's bytes are the columns."""
        decode = self.spec.decode
        if decode is None:
            return None
        if decode.json_ is None:
            raise SpecError(f"Source {self.name}: only decode: json: is implemented yet")
        return JsonDecoder(decode.json_, decode.longest)

    def read(self, session: SparkSession, *, fresh: bool, begin: str | None) -> DataFrame:
        return source.read(session, self.kafka, self.cluster, fresh=fresh, begin=begin, unbatched=self.unbatched)

    def again(self, session: SparkSession, start: str, end: str) -> DataFrame:
        return source.read_range(session, self.kafka, self.cluster, start, end)

    def decode(self, raw: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows it by

        decoder = self.decoder
        if decoder is not None:
            return decoder.apply(raw, list(self.spec.kept_columns))
        nothing = [F.lit(None).cast(kind).alias(name) for name, kind in ((REASON, "string"), (ERROR, "string"))]
        value = F.col(VALUE).alias("_kafka_value")
        columns = [F.col(source.KEY), F.col(source.HEADERS), value, *map(F.col, self.spec.position_columns)]
        return raw.select(*columns, *nothing, F.lit(None).cast("binary").alias(RAW))
