"""The files sink: a folder of batches, each published by one rename together with its position."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakeward.connectors.folder import store
from lakeward.connectors.folder.writer import FolderWriter
from lakeward.engine.sinks.base import SinkContext
from lakeward.engine.sinks.exact import ExactSink, ObservedSinkTable
from lakeward.platform.errors import SpecError, expect

_NOT_IN_CSV = ("array", "map", "struct", "binary", "variant")


@dataclass
class FilesStreamSink(ExactSink[FolderWriter]):
    """A folder of one stream. It is not a table: no catalog lists it, and its columns may change at any batch."""

    @classmethod
    def of(cls, context: SinkContext) -> FilesStreamSink:
        """Make the sink of a spec."""
        sink = expect(context.spec.sink.files, "`sink.files`")
        path, partition_by = str(sink.path), [str(name) for name in sink.partition_by]
        return cls(context.writer(FolderWriter, path, path=Path(path), format=sink.format, partition_by=partition_by))

    def observe_table(self) -> ObservedSinkTable:
        """Read the position of the newest batch. A folder of another stream is refused here."""
        return ObservedSinkTable(self.writer.load(self.writer.session))

    def location(self) -> None:
        """None: only folders of batches may be in it, no copies of a source's log."""

    def prepare(self, columns: Any, *, stateful: bool) -> None:
        """Create the folder, and check that the columns fit files of this format."""
        writer = self.writer
        writer.stateful = stateful
        kinds = {column.name: column.dataType.typeName() for column in columns.fields}
        parts = writer.partition_by
        wrong = [f"no column {name} to partition by" for name in parts if name not in kinds]
        if not set(kinds) - set(parts):
            wrong.append("no column is left beside those to partition by")
        if "seq" in (name.lower() for name in kinds):
            wrong.append("a column seq: that is the name of each batch's folder")
        if writer.format == "csv":
            nested = [name for name, kind in kinds.items() if kind in _NOT_IN_CSV and name not in parts]
            wrong += [f"CSV has no place for {name}, which is {kinds[name].upper()}" for name in nested]
        if wrong:
            raise SpecError(
                f"The columns of stream {writer.stream} do not fit its files", why="; ".join(wrong),
                next=f"correct the transform or the sink in conf/streams/{writer.stream}.yaml, then: lakeward deploy",
             code="LW-2221")  # fmt: skip
        store.prepare(writer.path, writer.stream)
