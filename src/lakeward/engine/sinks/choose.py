"""The landing that a spec names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.offsets import Canonical
from lakeward.connectors.commit_protocol.upsert import ByKey
from lakeward.connectors.delta import change as delta_change
from lakeward.connectors.delta import location
from lakeward.connectors.delta.writer import DeltaWriter
from lakeward.connectors.folder.writer import FolderWriter
from lakeward.connectors.iceberg.change import Append, Change, Replace, Upsert
from lakeward.connectors.iceberg.writer import IcebergWriter
from lakeward.connectors.kafka import broker, cluster
from lakeward.connectors.kafka import sink as kafka_sink
from lakeward.connectors.plain import console, data_source
from lakeward.connectors.postgres import connection
from lakeward.connectors.postgres.name import Name
from lakeward.connectors.postgres.writer import PostgresWriter
from lakeward.connectors.python import sink as python_sink
from lakeward.engine.assignment import Assignment
from lakeward.engine.sinks import python
from lakeward.engine.sinks.at_least_once import AtLeastOnce
from lakeward.engine.sinks.base import Landing
from lakeward.engine.sinks.delta import DeltaLanding
from lakeward.engine.sinks.files import FilesLanding
from lakeward.engine.sinks.iceberg import IcebergLanding
from lakeward.engine.sinks.postgres import PostgresLanding
from lakeward.engine.sinks.sent import RealTimeLanding
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.sinks import DeltaSink, IcebergSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def choose(
    own: SparkSession,
    wanted: Assignment,
    runtime: Runtime,
    topic_ids: Callable[[], Mapping[str, str]],
    held: Callable[[], None],
    canonical: Mapping[str, Canonical],
) -> Landing:
    """Make the landing of a stream.

    Args:
        own: the session that starts its query.
        topic_ids: topic -> id in the broker, asked at every batch.
        held: raises unless this driver's lease of the stream is live.
        canonical: source -> how its offsets are made canonical.

    Raises:
        SpecError: its sink is not built, or names a connection nobody knows.
    """
    spec, stream = wanted.spec, wanted.stream
    sources = [str(name) for name in spec.sources]
    additive = spec.schema_.evolution == "additive"
    at_least_once = partial(AtLeastOnce, own, stream, sources, held, canonical=canonical)
    if (table := spec.sink.iceberg) is not None:
        if table.commit != "exact":
            raise SpecError(
                f"Stream {stream} cannot be run yet", why=f"commit {table.commit} is not built", code="LW-2218"
            )
        writer = IcebergWriter(
            session=own,
            stream=stream,
            table=str(table.table),
            query_name=stream,
            sources=sources,
            generation=wanted.generation,
            canonical=canonical,
            topic_ids=topic_ids,
            change=_change(table),
        )
        return IcebergLanding(writer, table.mode, additive, sink=table)
    if (delta := spec.sink.delta) is not None:
        into = DeltaWriter(
            session=own,
            stream=stream,
            table=str(delta.table),
            query_name=stream,
            sources=sources,
            generation=wanted.generation,
            canonical=canonical,
            topic_ids=topic_ids,
            folder=location.folder_of(runtime.lake, str(delta.table)),
            change=_delta_change(delta),
        )
        return DeltaLanding(into, delta.mode, additive, sink=delta, lake=runtime.lake)
    if (served := spec.sink.postgres) is not None:
        place_ = Name.of(str(served.table))
        lands = PostgresWriter(
            session=own,
            stream=stream,
            table=place_.text,
            query_name=stream,
            sources=sources,
            generation=wanted.generation,
            canonical=canonical,
            topic_ids=topic_ids,
            database=connection.find(str(served.connection), runtime.postgres),
            place=place_,
            pgpass=runtime.pgpass,
            upsert=None if served.keys is None else ByKey(served.keys, served.order_by),
        )
        return PostgresLanding(lands, served.mode, additive, sink=served)
    if (topic := spec.sink.kafka) is not None:
        at = cluster.find(topic.connection, runtime)
        broker.check_writable(at, str(topic.topic))
    if spec.trigger.unbatched:
        return RealTimeLanding.of(own, stream, sources, held)
    if topic is not None:
        return at_least_once(lambda rows, _: kafka_sink.write(rows, topic, at), output_mode=topic.mode)
    if (files := spec.sink.files) is not None:
        folder = FolderWriter(
            session=own,
            stream=stream,
            table=str(files.path),
            query_name=stream,
            sources=sources,
            generation=wanted.generation,
            canonical=canonical,
            topic_ids=topic_ids,
            path=Path(str(files.path)),
            format=files.format,
            partition_by=[str(name) for name in files.partition_by],
        )
        return FilesLanding(folder)
    if (shown := spec.sink.console) is not None:
        return at_least_once(lambda rows, n: console.write(rows, stream, n, shown.rows), output_mode=shown.mode)
    if (passed := spec.sink.format) is not None:
        data_source.check(own, passed.name, "the sink")
        return at_least_once(lambda rows, _: data_source.write(rows, passed.name, passed.options))
    if spec.sink.python is not None:
        return python.landing(at_least_once, wanted, python_sink.load(stream, spec.sink, runtime))
    raise SpecError(
        f"Stream {stream} cannot be run yet", why=f"sink {spec.sink.connector} is not built", code="LW-2217"
    )


def _change(sink: IcebergSink) -> Change:
    """What a batch does to the table."""
    if sink.mode == "complete":
        return Replace()
    return Append() if sink.keys is None else Upsert(sink.keys, sink.order_by, sink.delete_when)


def _delta_change(sink: DeltaSink) -> delta_change.Change:
    """What a batch does to the table."""
    if sink.mode == "complete":
        return delta_change.Replace()
    if sink.keys is None:
        return delta_change.Append()
    return delta_change.Upsert(sink.keys, sink.order_by, sink.delete_when)
