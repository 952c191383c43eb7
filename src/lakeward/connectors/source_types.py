"""Choice of the source class by the connector that a spec declares."""

from __future__ import annotations

from lakeward.connectors.delta.source.source import DeltaStreamSource
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files.source import FilesStreamSource
from lakeward.connectors.iceberg.source.source import IcebergStreamSource
from lakeward.connectors.kafka import cluster
from lakeward.connectors.kafka.source import KafkaStreamSource
from lakeward.connectors.kinesis.source import KinesisStreamSource, place_of
from lakeward.connectors.plain.format_source import FormatStreamSource
from lakeward.connectors.plain.rate import RateStreamSource
from lakeward.connectors.plain.socket_source import SocketStreamSource
from lakeward.connectors.source import StreamSource
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.sources import Source
from lakeward.spec.model.stream import StreamSpec


def of(spec: StreamSpec, runtime: Runtime) -> list[StreamSource]:
    """The sources of a stream, in the order of the spec.

    Raises:
        SpecError: the connector or decoder is not implemented, or the connection is unknown.
    """
    sources = [_one(spec, str(name), source, runtime) for name, source in spec.sources.items()]
    for source in sources:
        source.prepare()
    return sources


def _one(spec: StreamSpec, name: str, source: Source, runtime: Runtime) -> StreamSource:
    if source.kafka is not None:
        return KafkaStreamSource(name, source, cluster.find(source.kafka.connection, runtime), spec.trigger.unbatched)
    if source.files is not None:
        return FilesStreamSource(name, source, stream=str(spec.id), access=FileAccess(runtime.lake))
    if source.kinesis is not None:
        return KinesisStreamSource(name, source, place_of(source.kinesis, runtime))
    if source.iceberg is not None:
        return IcebergStreamSource(name, source, runtime, str(spec.id))
    if source.delta is not None:
        return DeltaStreamSource(name, source, runtime, str(spec.id))
    if source.rate is not None:
        return RateStreamSource(name, source)
    if source.socket is not None:
        return SocketStreamSource(name, source)
    if source.format is not None:
        return FormatStreamSource(name, source)
    raise SpecError(
        f"Cannot run stream {spec.id}",
        why=f"the connector {source.connector} of source {name} is not implemented yet",
        next="choose a connector of docs/reference/sources.md, then: lakeward deploy",
        code="LW-3168",
    )
