"""The inlet that a source of a spec names."""

from __future__ import annotations

from lakeward.connectors.delta.source.source import DeltaInlet
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files.source import FilesInlet
from lakeward.connectors.iceberg.source.source import IcebergInlet
from lakeward.connectors.kafka import cluster
from lakeward.connectors.kafka.source import KafkaInlet
from lakeward.connectors.kinesis.source import KinesisInlet, place_of
from lakeward.connectors.plain.format_source import FormatInlet
from lakeward.connectors.plain.rate import RateInlet
from lakeward.connectors.plain.socket_source import SocketInlet
from lakeward.connectors.source import Inlet
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.sources import Source
from lakeward.spec.model.stream import StreamSpec


def of(spec: StreamSpec, runtime: Runtime) -> list[Inlet]:
    """The sources of a stream, in the order of the spec.

    Raises:
        SpecError: a connector or decoder that is not built yet, or a connection nobody knows.
    """
    found = [_one(spec, str(name), each, runtime) for name, each in spec.sources.items()]
    for inlet in found:
        inlet.prepare()
    return found


def _one(spec: StreamSpec, name: str, source: Source, runtime: Runtime) -> Inlet:
    if source.kafka is not None:
        return KafkaInlet(name, source, cluster.find(source.kafka.connection, runtime), spec.trigger.unbatched)
    if source.files is not None:
        return FilesInlet(name, source, stream=str(spec.id), access=FileAccess(runtime.lake))
    if source.kinesis is not None:
        return KinesisInlet(name, source, place_of(source.kinesis, runtime))
    if source.iceberg is not None:
        return IcebergInlet(name, source, runtime, str(spec.id))
    if source.delta is not None:
        return DeltaInlet(name, source, runtime, str(spec.id))
    if source.rate is not None:
        return RateInlet(name, source)
    if source.socket is not None:
        return SocketInlet(name, source)
    if source.format is not None:
        return FormatInlet(name, source)
    raise SpecError(f"Stream {spec.id} cannot be run yet", why=f"source {name} is {source.connector}; it is not built")
