"""Starting a hop: its plan, its sink, its trigger, and the cores it holds."""

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
"""Cores beside those of the partitions: what accounts for the records runs on it."""


def begin(inlet: KafkaStreamSource, marks: ProgressMarkers, topics: list[str], passed: ProgressMarker | None) -> str:
    """Where the query begins if Spark has no batch of it yet; settled at the very first start, and kept.

    Args:
        passed: where the checkpoint's finished batches end; None where there is none. Then a mark of earlier batches is
            one left over beside a folder that is new.
    """
    known = marks.newest()
    if known is None or (passed is None and known.batch > 0):
        known = passed or ProgressMarker(0, starting_offsets.resolve(inlet.kafka, inlet.cluster, topics))
        marks.put(known)
    return starting_offsets.widened(known.end, inlet.cluster, topics)


def check_cores(spec: StreamSpec, partitions: int, cores: int) -> None:
    """A partition without a core of its own would not be read at all, and nobody would say so.

    Raises:
        SpecError: there are too few; names both numbers.
    """
    if cores < partitions + SPARE:
        raise SpecError(
            f"Stream {spec.id} needs {partitions + SPARE} cores and its driver has {cores}",
            why=f"{spec.trigger.kind} holds a core for each of the {partitions} partitions of its topics, for ever, "
            f"and accounting for the records takes {SPARE} more",
            next=f"resources: {{cores: {partitions + SPARE}}} in conf/streams/{spec.id}.yaml, then: lakeward deploy, "
            f"lakeward streams upgrade {spec.id}",
            code="LW-2403",
        )


def result(built: Flow) -> DataFrame:
    """The rows that leave: the transform's, without those that break a rule.

    Raises:
        SpecError: the plan keeps state.
    """
    from pyspark.sql import functions as F

    if built.stateful or built.transformed is None:
        raise SpecError(
            f"Stream {built.spec.id} cannot be run with {built.spec.trigger.kind}",
            why="its transform keeps state, and rows that leave as they come wait for none",
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
    # PySpark has no name for it before 4.2; the trigger itself is there.
    jvm: Any = session._jvm
    real_time = jvm.org.apache.spark.sql.streaming.Trigger.RealTime(str(every.spark))
    writer._jwrite = writer._jwrite.trigger(real_time)
    return writer.outputMode("update").start()


def _into(leaving: DataFrame, spec: StreamSpec, runtime: Runtime) -> DataStreamWriter:
    if (topic := spec.sink.kafka) is not None:
        at = cluster.find(topic.connection, runtime)
        writer = kafka_sink.shape(leaving, topic).writeStream.format("kafka").options(**spark_options.options(at))
        return writer.options(**kafka_sink.SURE).option("topic", topic.topic)
    console = expect(spec.sink.console, "a sink `console`")
    shown = {"numRows": str(console.rows), "truncate": "false"}
    return leaving.writeStream.format("console").options(**shown)
