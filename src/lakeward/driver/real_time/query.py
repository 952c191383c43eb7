"""Start of a real-time query: plan, sink, trigger, required cores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeward.connectors.kafka import cluster, spark_options, starting_offsets
from lakeward.connectors.kafka import sink as kafka_sink
from lakeward.connectors.kafka.source import KafkaStreamSource
from lakeward.connectors.source import REASON
from lakeward.driver.real_time.progress_marker import ProgressMarker, ProgressMarkers
from lakeward.engine import rows
from lakeward.engine.flow import Flow
from lakeward.platform.errors import SpecError, expect
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.stream import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SPARE = 1
"""Cores in addition to one for each partition: for the record accounting."""


def begin(source: KafkaStreamSource, marks: ProgressMarkers, topics: list[str], passed: ProgressMarker | None) -> str:
    """Where the query begins if Spark has no batch of it yet; determined at the first start, and stored.

    Args:
        passed: where the checkpoint's finished batches end; None if there are none. Then a marker of earlier batches is
            left over from a former checkpoint.
    """
    known = marks.newest()
    if known is None or (passed is None and known.batch > 0):
        known = passed or ProgressMarker(0, starting_offsets.resolve(source.kafka, source.cluster, topics))
        marks.put(known)
    return starting_offsets.with_new_partitions(known.end, source.cluster, topics)


def check_cores(spec: StreamSpec, partitions: int, cores: int) -> None:
    """Check the number of cores: a partition without a core of its own would silently not be read.

    Raises:
        SpecError: there are too few; names both numbers.
    """
    if cores < partitions + SPARE:
        raise SpecError(
            f"Stream {spec.id} needs {partitions + SPARE} cores and its driver has {cores}",
            why=f"{spec.trigger.kind} permanently uses a core for each of the {partitions} partitions of its topics, "
            f"and the record accounting needs {SPARE} more",
            next=f"resources: {{cores: {partitions + SPARE}}} in conf/streams/{spec.id}.yaml, then: lakeward deploy, "
            f"lakeward streams upgrade {spec.id}",
            code="LW-2403",
        )


def result(built: Flow) -> DataFrame:
    """The rows to send: the transform's, without those that fail a rule.

    Raises:
        SpecError: the plan keeps state.
    """
    from pyspark.sql import functions as F

    if built.stateful or built.transformed is None:
        raise SpecError(
            f"Cannot run stream {built.spec.id} with trigger {built.spec.trigger.kind}",
            why="its transform keeps state, which this trigger does not support",
            next=f"trigger: {{every: 100ms}} in conf/streams/{built.spec.id}.yaml, then: lakeward deploy",
            code="LW-2404",
        )
    if not built.spec.rules:
        return built.transformed
    rules = {str(name): str(condition) for name, condition in built.spec.rules.items()}
    return rows.judged(built.transformed, rules).where(F.col(REASON).isNull()).drop(REASON)


def start(session: SparkSession, built: Flow, runtime: Runtime, checkpoint: str) -> StreamingQuery:
    """Start the query."""
    spec = built.spec
    writer = _into(result(built), spec, runtime).queryName(str(spec.id)).option("checkpointLocation", checkpoint)
    if spec.trigger.continuous is not None:
        return writer.trigger(continuous=str(spec.trigger.continuous.spark)).start()
    every = expect(spec.trigger.real_time, "`trigger: {real_time: ..}`")
    # PySpark has no API for it before 4.2; the JVM has the trigger.
    jvm: Any = session._jvm
    real_time = jvm.org.apache.spark.sql.streaming.Trigger.RealTime(str(every.spark))
    writer._jwrite = writer._jwrite.trigger(real_time)
    return writer.outputMode("update").start()


def _into(leaving: DataFrame, spec: StreamSpec, runtime: Runtime) -> DataStreamWriter:
    if (topic := spec.sink.kafka) is not None:
        at = cluster.find(topic.connection, runtime)
        writer = kafka_sink.shape(leaving, topic).writeStream.format("kafka").options(**spark_options.options(at))
        return writer.options(**kafka_sink.DURABLE).option("topic", topic.topic)
    console = expect(spec.sink.console, "a sink `console`")
    shown = {"numRows": str(console.rows), "truncate": "false"}
    return leaving.writeStream.format("console").options(**shown)
