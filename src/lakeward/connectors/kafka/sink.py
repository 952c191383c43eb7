"""Writes to a topic, at least once. Kafka stores no stream position, so only the lease fences a second driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.connectors.kafka import spark_options
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.peek import SHOWN
from lakeward.connectors.row_json import row_json
from lakeward.platform.errors import SpecError
from lakeward.spec.model.sinks import KafkaSink
from lakeward.telemetry.mask import mask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


DURABLE = {"kafka.enable.idempotence": "true", "kafka.acks": "all"}
"""A record counts as sent when every in-sync replica has it, and a retry of the producer does not duplicate it."""


def shape(rows: DataFrame, sink: KafkaSink) -> DataFrame:
    """Rows as records: `key` and `value`. Without expressions in the spec the value is the whole row as JSON.

    The expressions are the user's SQL over the columns of a row.
    """
    from pyspark.sql import functions as F

    value = F.expr(sink.value) if sink.value else row_json(rows, rows.columns)
    key = F.expr(sink.key) if sink.key else F.lit(None)
    return rows.select(key.cast("string").alias("key"), value.cast("string").alias("value"))


def write(rows: DataFrame, sink: KafkaSink, cluster: Cluster) -> None:
    """Send one batch. A batch that is replayed is sent again.

    Raises:
        SpecError: mode is `update`, and two groups have the same key or a group has no key.
    """
    records = shape(rows, sink)
    if sink.mode == "update":
        _check_keys_unique(records, sink)
    records.write.format("kafka").options(**spark_options.options(cluster), **DURABLE).option(
        "topic", sink.topic
    ).save()


def _check_keys_unique(records: DataFrame, sink: KafkaSink) -> None:
    """Raise if two groups have the same key. A batch has each changed group once; a reader that keeps the newest record
    of a key would lose one of two groups with the same key."""
    from pyspark.sql import functions as F

    groups = records.groupBy("key").count().where(F.col("key").isNull() | (F.col("count") > 1)).limit(1).collect()
    if groups:
        key, count = groups[0]
        why = f"{count} groups have the key {mask(str(key))[:SHOWN]!r}" if key is not None else "a group has no key"
        raise SpecError(
            f"The groups sent to topic {sink.topic} have no unique key",
            why=f"key: {sink.key}: {why}",
            next="make the key of every column of GROUP BY: key: to_json(struct(a, b)), then deploy and start again",
            code="LW-3121",
        )
