"""Reading topics: as a stream, and one range of offsets again as a batch."""

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
"""What a record has beside its value; they keep their names in rows."""
_CLOCK = "timestamp_millis(CAST(java_method('java.lang.System', 'currentTimeMillis') AS BIGINT))"


def options(source: KafkaSource, cluster: Cluster, *, fresh: bool, begin: str | None = None) -> dict[str, str]:
    """Options of Spark's Kafka source.

    Args:
        source: the spec.
        cluster: where they are.
        fresh: the checkpoint is new: only then does a starting offset mean anything.
        begin: a position that a new checkpoint has to go on from, instead of the spec's `starting_offsets`.
    """
    chosen = {
        **spark_options.options(cluster),
        "kafka.isolation.level": source.isolation_level,
        "kafka.default.api.timeout.ms": "30000",
        "kafka.request.timeout.ms": "20000",
        "failOnDataLoss": "true",  # a lost range must stop the stream, never be skipped
        "includeHeaders": "true",
    }
    chosen["subscribePattern" if source.pattern else "subscribe"] = source.pattern or ",".join(source.topics)
    if source.max_offsets_per_trigger is not None:
        chosen["maxOffsetsPerTrigger"] = str(source.max_offsets_per_trigger)
    if fresh:
        start = source.starting_offsets
        chosen["startingOffsets"] = begin or (start if isinstance(start, str) else json.dumps(start))
    return chosen


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

    With `unbatched` a record's `_ingested_at` is when it was read, and not when its batch began.
    """
    chosen = options(source, cluster, fresh=fresh, begin=begin)
    return _shape(session.readStream.format("kafka").options(**chosen).load(), unbatched=unbatched)


def read_range(session: SparkSession, source: KafkaSource, cluster: Cluster, start: str, end: str) -> DataFrame:
    """The same records once more, as a batch: everything from `start` (inclusive) to `end` (exclusive)."""
    first, last = position.span(start, end)
    chosen = options(source, cluster, fresh=False)
    for name in ("subscribe", "subscribePattern", "maxOffsetsPerTrigger"):
        chosen.pop(name, None)
    assign = {topic: sorted(parts) for topic, parts in last.items()}
    chosen |= {
        "assign": json.dumps(assign),
        "startingOffsets": position.render(first),
        "endingOffsets": position.render(last),
    }
    return _shape(session.read.format("kafka").options(**chosen).load())


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
    # In a streaming plan this is the batch's own timestamp: the same for every task, and the same when it is replayed.
    # Without batches that would be minutes old, and continuous processing refuses it: there each row asks the clock.
    now = F.expr(_CLOCK) if unbatched else F.current_timestamp()
    return raw.select(*(F.col(old).alias(new) for old, new in renamed.items()), now.alias(INGESTED_AT))
