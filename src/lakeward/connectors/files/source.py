"""File source of a stream."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lakeward.connectors.aws import store
from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.connectors.decode import text
from lakeward.connectors.decode.columns import ColumnsDecoder
from lakeward.connectors.decode.json import JsonDecoder
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files import cleaning, headers, mirror, reader, unread
from lakeward.connectors.files.cleaning import Cleaner, Owners
from lakeward.connectors.files.listing import Listing
from lakeward.connectors.files.log import SourceLog, log_offset
from lakeward.connectors.files.mirror import Mirror
from lakeward.connectors.source import Reader, StreamSource
from lakeward.platform.errors import Blocked, DependencyDown, Internal, LakewardError, SpecError, expect
from lakeward.spec.model.file_paths import folder_of, local, on_s3
from lakeward.spec.model.sources import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_SHOWN = 5


@dataclass
class FilesStreamSource(StreamSource):
    """Files of one folder or pattern.

    `log` is the source log of the running query, set when its plan is known (`opened`). In a backfill it is the listing
    of the named files. Without `owners` no landed file is cleaned, because nobody can say whose it is.
    """

    log: SourceLog | Listing | None = None
    stream: str = ""
    access: FileAccess = field(default_factory=FileAccess)
    owners: Owners | None = None
    _mirror: Mirror | None = None
    _copy: str | None = None
    _cleaner: Cleaner | None = None

    @property
    def files(self) -> FilesSource:
        """The connector's own part of the spec."""
        return expect(self.spec.files, "a source `files`")

    @property
    def identity(self) -> tuple[str, ...]:
        """A line is identified by file and content, because it has no number. Two equal invalid lines of one file come
        in one batch, and both are quarantined."""
        return ("_file_path", "reason", "raw")

    @property
    def checked(self) -> bool:
        return True

    def prepare(self) -> None:
        if self._decoder is not None:
            _ = self._decoder.schema
        elif self.files.format != "text":
            raise SpecError(
                f"Source {self.name} has no decoder",
                why=f"files of format {self.files.format} need decode: {{json: ..}}",
                next="declare decode: {json: ..}, then: lakeward deploy",
                code="LW-3057",
            )

    def ids(self) -> dict[str, str]:
        folder = folder_of(self.files.path)
        if on_s3(folder):
            store.system(self.access.lake, folder)
            store.check(expect(self.access.lake, "the settings of the object store"), folder)
        elif not Path(folder).is_dir():
            raise DependencyDown(
                f"The folder of source {self.name} does not exist",
                why=f"{folder} is not a local folder",
                next="create or mount it (the stream retries by itself), or correct path:, then: lakeward deploy",
                code="LW-3058",
            )
        return {local(self.files.path): "files"}

    @property
    def logged(self) -> bool:
        return True

    def restorable(self, position: str, beside: str | None) -> bool:
        copy = None if beside is None else mirror.place(beside, self.stream, self.name)
        return position == NO_DATA or (copy is not None and mirror.find(self.access, copy, position) is not None)

    def opened(self, files: Reader, folder: str, beside: str | None) -> None:
        self.log = SourceLog(files, folder)
        if self.files.after == "keep":
            cleaning.forget(self.access, folder)
        elif self.owners is not None:
            self._cleaner = Cleaner(self.name, self.files, self.access, self.log, self.owners)
        self._copy = None if beside is None else mirror.place(beside, self.stream, self.name)
        self._mirror = None if self._copy is None else Mirror(self.access, folder, self._copy)

    def restored(self, position: str, folder: str) -> str:
        number = None if self._copy is None else mirror.find(self.access, self._copy, position)
        if number is None or self._copy is None:
            raise Blocked(
                f"Cannot rebuild the checkpoint of stream {self.stream}: no log of source {self.name}",
                why=f"the landed files are unknown: {self._copy or 'no copy of the log'} does not have {position}",
                next="restore the checkpoint from a backup, or land into a new table under a new id",
                reason="log-missing",
                code="LW-3054",
            )
        return mirror.restore(self.access, self._copy, number, folder)

    def canonical(self, offset: str) -> str:
        if log_offset(offset) is None:
            return offset
        return self._opened().canonical(offset)

    def read(self, session: SparkSession, *, fresh: bool, begin: str | None) -> DataFrame:
        return reader.read(session, self.name, self.files, self._schema)

    def again(self, session: SparkSession, start: str, end: str) -> DataFrame:
        paths = [file.path for file in self._opened().between(start, end)]
        return reader.read_files(session, self.name, self.files, self._schema, paths)

    def decode(self, raw: DataFrame) -> DataFrame:
        keep = list(self.spec.position_columns)
        match self._decoder:
            case None:
                return text.decode(raw, keep)
            case JsonDecoder() as decoder:
                return decoder.apply(raw)
            case decoder:
                return decoder.apply(raw, keep)

    @property
    def decodes_twice(self) -> bool:
        return isinstance(self._decoder, JsonDecoder)

    def decode_fast(self, raw: DataFrame) -> DataFrame:
        decoder = self._decoder
        return decoder.apply_fast(raw) if isinstance(decoder, JsonDecoder) else self.decode(raw)

    def decode_doubtful(self, doubtful: DataFrame) -> DataFrame:
        decoder = self._decoder
        return decoder.apply_strict(doubtful) if isinstance(decoder, JsonDecoder) else doubtful

    def explain(self, bad: DataFrame) -> DataFrame:
        decoder = self._decoder
        return decoder.explain(bad) if isinstance(decoder, JsonDecoder) else bad

    def before_reading(self, stream: str, start: str, end: str) -> None:
        if self.files.format == "json" or end in (start, NO_DATA):  # a line of JSON is judged by itself
            return
        for file in self._opened().between(start, end):
            differences = headers.differences(self.access, file.path, self.files, self._schema)
            if differences:
                raise Blocked(
                    f"A file of stream {stream} is not what source {self.name} declares",
                    why=f"{file.path}: {'; '.join(differences)}",
                    next="replace it with a correct file of the same name (an empty file gives up its rows), "
                    f"then: lakeward streams start {stream}",
                    reason="file-unfit",
                    code="LW-3059",
                )

    def may_start(self, stream: str) -> None:
        if self._cleaner is not None:
            self._cleaner.check(stream)

    def committed(self, stream: str, start: str) -> None:
        if self._cleaner is not None and start != NO_DATA:
            self._cleaner.clean(stream, self._opened().entry_of(start))

    def failed_to_read(self, stream: str, text: str, start: str, end: str) -> LakewardError | None:
        found = unread.file_of(text)
        if found is None:
            return None
        path, words = found
        place = unquote(path)
        fault = None
        if self.files.format == "avro":
            with suppress(OSError), self.access.open(place) as file:
                fault = unread.avro_fault(file)
        return Blocked(
            f"A file of stream {stream} has values that cannot be read",
            why=f"{path}: {f'{fault}; ' if fault else ''}Spark says {words}",
            next="replace it with a correct file of the same name (an empty file gives up its rows), "
            f"then: lakeward streams start {stream}",
            reason="file-unfit",
            code="LW-3490",
        )

    def before_landing(self, stream: str, start: str, end: str, listed: Collection[str]) -> None:
        taken = {file.path for file in self._opened().between(start, end)} if end != start else set()
        missing = sorted(taken - set(listed))
        if missing:
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            raise Blocked(
                f"Files of stream {stream} were removed before they landed",
                why=f"source {self.name} listed them for this batch, and Spark skips missing files silently: "
                f"{', '.join(missing[:_SHOWN])}{more}",
                next="restore them under the same names (an empty file gives up its rows), then: "
                f"lakeward streams start {stream}",
                reason="source-files-gone",
                code="LW-3055",
            )
        if self._mirror is not None and end != NO_DATA:
            self._mirror.copy(self._opened().entry_of(end))

    @cached_property
    def _decoder(self) -> JsonDecoder | ColumnsDecoder | None:
        """The decoder; None if a line stays text."""
        if self.files.columns is not None:
            corrupt = reader.CORRUPT if self.files.format == "csv" else None
            return ColumnsDecoder(self.files.columns, reader.record_column(self.name), corrupt)
        decode = self.spec.decode
        if decode is None or decode.ddl is None:
            return None
        return JsonDecoder(decode.ddl, decode.longest, self.spec.position_columns, decode.formats)

    @property
    def _schema(self) -> StructType | None:
        decoder = self._decoder
        return decoder.schema if isinstance(decoder, ColumnsDecoder) else None

    def _opened(self) -> SourceLog | Listing:
        if self.log is None:
            raise Internal(
                f"The log of source {self.name} is missing",
                why="the source was used before its query was planned",
                code="LW-3056",
            )
        return self.log
