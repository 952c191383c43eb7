"""Makes the sink that a spec names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.offsets import Canonical
from lakeward.connectors.kafka import broker, cluster
from lakeward.connectors.kafka import sink as kafka_sink
from lakeward.connectors.plain import console, data_source
from lakeward.engine.assignment import Assignment
from lakeward.engine.sinks import at_least_once, python
from lakeward.engine.sinks.at_least_once import AtLeastOnceSink
from lakeward.engine.sinks.base import SinkContext, StreamSink
from lakeward.engine.sinks.delta import DeltaStreamSink
from lakeward.engine.sinks.files import FilesStreamSink
from lakeward.engine.sinks.iceberg import IcebergStreamSink
from lakeward.engine.sinks.postgres import PostgresStreamSink
from lakeward.platform.errors import SpecError, expect
from lakeward.platform.runtime import Runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def choose(
    own: SparkSession,
    assignment: Assignment,
    runtime: Runtime,
    topic_ids: Callable[[], Mapping[str, str]],
    check_lease: Callable[[], None],
    canonical: Mapping[str, Canonical],
) -> StreamSink:
    """Make the sink of a stream. The arguments are those of `SinkContext`.

    Raises:
        SpecError: the sink is not built, or names an unknown connection.
    """
    connector = assignment.spec.sink.connector
    make = _SINKS.get(connector)
    if make is None:
        raise SpecError(
            f"Stream {assignment.stream} cannot be run yet",
            why=f"sink {connector} is not built",
            next=f"name another sink in conf/streams/{assignment.stream}.yaml, then: lakeward deploy",
            code="LW-2217",
        )
    return make(SinkContext(own, assignment, runtime, topic_ids, check_lease, canonical))


def _kafka(context: SinkContext) -> AtLeastOnceSink:
    topic = expect(context.spec.sink.kafka, "`sink.kafka`")
    at = cluster.find(topic.connection, context.runtime)
    broker.check_writable(at, str(topic.topic))
    return at_least_once.make(context, lambda rows, _: kafka_sink.write(rows, topic, at), topic.mode)


def _console(context: SinkContext) -> AtLeastOnceSink:
    sink, stream = expect(context.spec.sink.console, "`sink.console`"), context.stream
    return at_least_once.make(
        context, lambda rows, batch: console.write(rows, stream, batch.batch, sink.rows), sink.mode
    )


def _format(context: SinkContext) -> AtLeastOnceSink:
    sink = expect(context.spec.sink.format, "`sink.format`")
    data_source.check(context.session, sink.name, "the sink")
    return at_least_once.make(context, lambda rows, _: data_source.write(rows, sink.name, sink.options))


_SINKS: Mapping[str, Callable[[SinkContext], StreamSink]] = {
    "iceberg": IcebergStreamSink.of,
    "delta": DeltaStreamSink.of,
    "postgres": PostgresStreamSink.of,
    "files": FilesStreamSink.of,
    "kafka": _kafka,
    "console": _console,
    "format": _format,
    "python": python.sink_of,
}
"""Connector -> makes its sink."""
