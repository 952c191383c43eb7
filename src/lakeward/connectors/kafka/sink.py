"""Writing to a topic: at least once. Kafka keeps no position of ours, so only the lease fences a second driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.connectors.kafka import spark_options
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.peek import SHOWN
from lakeward.platform.errors import SpecError
from lakeward.spec.model.sinks import KafkaSink
from lakeward.telemetry.mask import mask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


SURE = {"kafka.enable.idempotence": "true", "kafka.acks": "all"}
"""A record counts as sent when every replica has it, and a retry of the producer does not double it."""


def shape(rows: DataFrame, sink: KafkaSink) -> DataFrame:
    """Rows as records: `key` and `value`; the whole row as JSON unless the spec says otherwise.

    The expressions are the user's own SQL over the row's columns.
    """
    from pyspark.sql import functions as F

    value = F.expr(sink.value) if sink.value else F.to_json(F.struct(*(F.col(f"`{c}`") for c in rows.columns)))
    key = F.expr(sink.key) if sink.key else F.lit(None)
    return rows.select(key.cast("string").alias("key"), value.cast("string").alias("value"))


def write(rows: DataFrame, sink: KafkaSink, cluster: Cluster) -> None:
    """Send one batch. A batch that is replayed is sent again.

    Raises:
        SpecError: the sink sends changes of groups, and their keys do not tell them apart.
    """
    records = shape(rows, sink)
    if sink.mode == "update":
        _one_a_key(records, sink)
    records.write.format("kafka").options(**spark_options.options(cluster), **SURE).option("topic", sink.topic).save()


def _one_a_key(records: DataFrame, sink: KafkaSink) -> None:
    """A batch holds each group that changed once. Two of one key would overwrite each other wherever it is read."""
    from pyspark.sql import functions as F

    groups = records.groupBy("key").count().where(F.col("key").isNull() | (F.col("count") > 1)).limit(1).collect()
    if groups:
        key, count = groups[0]
        what = f"{count} groups have the key {mask(str(key))[:SHOWN]!r}" if key is not None else "a group has no key"
        raise SpecError(
            f"The changes for topic {sink.topic} cannot be told apart",
            why=f"key: {sink.key}: {what}",
            next="make the key of every column of GROUP BY: key: to_json(struct(a, b)), then deploy and start again",
            code="LW-3121",
        )
