"""Reads topics with Spark: as a stream, and one range of offsets as a batch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakeward.connectors.kafka import position, spark_options
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.source import VALUE
from lakeward.spec.model.position_columns import INGESTED_AT
from lakeward.spec.model.sources import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY, HEADERS = "_kafka_key", "_kafka_headers"
"""The columns of a record beside its value; rows have the same names."""
_CLOCK = "timestamp_millis(CAST(java_method('java.lang.System', 'currentTimeMillis') AS BIGINT))"


def options(source: KafkaSource, cluster: Cluster, *, fresh: bool, begin: str | None = None) -> dict[str, str]:
    """Options of Spark's Kafka source.

    Args:
        source: the source of the spec.
        cluster: its brokers.
        fresh: whether the checkpoint is new; Spark ignores starting offsets otherwise.
        begin: the position from which a new checkpoint continues, instead of the spec's `starting_offsets`.
    """
    settings = {
        **spark_options.options(cluster),
        "kafka.isolation.level": source.isolation_level,
        "kafka.default.api.timeout.ms": "30000",
        "kafka.request.timeout.ms": "20000",
        "failOnDataLoss": "true",  # a lost range must stop the stream, never be skipped
        "includeHeaders": "true",
    }
    settings["subscribePattern" if source.pattern else "subscribe"] = source.pattern or ",".join(source.topics)
    if source.max_offsets_per_trigger is not None:
        settings["maxOffsetsPerTrigger"] = str(source.max_offsets_per_trigger)
    if fresh:
        start = source.starting_offsets
        settings["startingOffsets"] = begin or (start if isinstance(start, str) else json.dumps(start))
    return settings


def read(
    session: SparkSession,
    source: KafkaSource,
    cluster: Cluster,
    *,
    fresh: bool,
    begin: str | None = None,
    unbatched: bool = False,
) -> DataFrame:
    """The topics as a stream of raw records: `_kafka_key _value _kafka_headers` and the position columns.

    `_ingested_at` is the start of the batch; with `unbatched` it is when the record was read.
    """
    kafka_options = options(source, cluster, fresh=fresh, begin=begin)
    return _shape(session.readStream.format("kafka").options(**kafka_options).load(), unbatched=unbatched)


def read_range(session: SparkSession, source: KafkaSource, cluster: Cluster, start: str, end: str) -> DataFrame:
    """The records from `start` (inclusive) to `end` (exclusive) as a batch."""
    first, last = position.same_partitions(start, end)
    kafka_options = options(source, cluster, fresh=False)
    for name in ("subscribe", "subscribePattern", "maxOffsetsPerTrigger"):
        kafka_options.pop(name, None)
    assign = {topic: sorted(parts) for topic, parts in last.items()}
    kafka_options |= {
        "assign": json.dumps(assign),
        "startingOffsets": position.render(first),
        "endingOffsets": position.render(last),
    }
    return _shape(session.read.format("kafka").options(**kafka_options).load())


def _shape(raw: DataFrame, *, unbatched: bool = False) -> DataFrame:
    from pyspark.sql import functions as F

    renamed: Mapping[str, str] = {
        "key": KEY,
        "value": VALUE,
        "headers": HEADERS,
        "topic": "_kafka_topic",
        "partition": "_kafka_partition",
        "offset": "_kafka_offset",
        "timestamp": "_kafka_timestamp",
    }
    # In a streaming plan current_timestamp is the batch's timestamp, the same for every task and every retry. Without
    # batches it would be minutes old, and continuous processing refuses it, so each row reads the clock.
    now = F.expr(_CLOCK) if unbatched else F.current_timestamp()
    return raw.select(*(F.col(old).alias(new) for old, new in renamed.items()), now.alias(INGESTED_AT))
