"""Writing to a topic: at least once. Kafka keeps no position of ours, so only the lease fences a second driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.connectors.kafka import java
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.spec.sinks import KafkaSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def shape(rows: DataFrame, sink: KafkaSink) -> DataFrame:
    """Rows as records: `key` and `value`; the whole row as JSON unless the spec says otherwise.

    The expressions are the user's own SQL over the row's columns.
    """
    from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows it by

    value = F.expr(sink.value) if sink.value else F.to_json(F.struct(*(F.col(f"`{c}`") for c in rows.columns)))
    key = F.expr(sink.key) if sink.key else F.lit(None)
    return rows.select(key.cast("string").alias("key"), value.cast("string").alias("value"))


def write(rows: DataFrame, sink: KafkaSink, cluster: Cluster) -> None:
    """Send one batch. A batch that is replayed is sent again."""
    records = shape(rows, sink)
    (
        records.write.format("kafka")
        .options(**java.options(cluster))
        .option("kafka.enable.idempotence", "true")
        .option("kafka.acks", "all")
        .option("topic", sink.topic)
        .save()
    )
