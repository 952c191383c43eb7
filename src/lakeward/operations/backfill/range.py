"""Range of a backfill: offsets of topics or a listing of files, in steps of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.files.listing import Listing
from lakeward.connectors.files.source import FilesStreamSource
from lakeward.connectors.kafka import cluster
from lakeward.connectors.kafka import position as kafka_position
from lakeward.connectors.kafka.archive import FORMATS, Kind, TopicArchiveSource
from lakeward.connectors.source import StreamSource
from lakeward.operations.backfill.eligibility import next_end
from lakeward.platform.errors import SpecError, expect
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.stream import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILES_A_STEP = 10
"""Files in one batch if the stream's source is not a file source."""
_PATH = "_file_path"
_ENDINGS = {
    ".json": "json", ".jsonl": "json", ".ndjson": "json", ".txt": "text", ".log": "text", ".parquet": "parquet",
    ".orc": "orc", ".avro": "avro", ".csv": "csv",
}  # fmt: skip


class BackfillRange(Protocol):
    """A range to land. Positions are canonical texts."""

    @property
    def source(self) -> StreamSource:
        """The source that reads the range: `again` returns the raw records between two positions."""
        ...

    @property
    def start(self) -> str: ...
    @property
    def end(self) -> str: ...

    def next(self, at: str) -> str | None:
        """Where the batch that begins at `at` ends; None at the end of the range."""
        ...

    def goes_on(self, begun: Position) -> None:
        """Raise if the range cannot continue after what an earlier run landed."""
        ...

    def before(self, start: str, end: str) -> None:
        """Check a batch before it is read; raise if it cannot be read."""
        ...

    def unchanged(self, start: str, end: str) -> None:
        """Raise if the input of a batch has changed since it was read; called before the batch is published."""
        ...

    def placed(self, bad: DataFrame, start: str, end: str) -> DataFrame:
        """Invalid rows with their origin, where they do not carry it."""
        ...


@dataclass(frozen=True)
class TopicRange:
    """Offsets of topics, about `most` records a batch (0: all at once)."""

    source: StreamSource
    start: str
    end: str
    most: int

    def next(self, at: str) -> str | None:
        to = next_end(kafka_position.parse(at), kafka_position.parse(self.end), self.most)
        return None if to is None else kafka_position.render(to)

    def goes_on(self, begun: Position) -> None:
        """From any offset."""

    def before(self, start: str, end: str) -> None:
        """Spark fails if records of the range have expired."""

    def unchanged(self, start: str, end: str) -> None:
        """A record never changes."""

    def placed(self, bad: DataFrame, start: str, end: str) -> DataFrame:
        return bad


@dataclass(frozen=True)
class FilesRange:
    """Listed files, at most `most` a batch."""

    stream: str
    source: StreamSource
    listing: Listing
    most: int

    @property
    def start(self) -> str:
        return self.listing.start

    @property
    def end(self) -> str:
        return self.listing.end

    def next(self, at: str) -> str | None:
        return self.listing.next(at, self.most)

    def goes_on(self, begun: Position) -> None:
        """Only after exactly the files that landed."""
        self.listing.goes_on(begun.end[self.source.name], begun.at)

    def before(self, start: str, end: str) -> None:
        self.source.before_reading(self.stream, start, end)

    def unchanged(self, start: str, end: str) -> None:
        self.listing.unchanged(self.listing.within(start, end))

    def placed(self, bad: DataFrame, start: str, end: str) -> DataFrame:
        """A row that failed a rule may not carry its file: it gets the files of its batch, so that equal rows of two
        batches stay distinct."""
        from pyspark.sql import functions as F

        files = [file.url for file in self.listing.within(start, end)]
        among = files[0] if len(files) == 1 else f"{files[0]} .. {files[-1]}"
        known = F.col(_PATH) if _PATH in bad.columns else F.lit(None).cast("string")
        return bad.withColumn(_PATH, F.coalesce(known, F.lit(among)))


def of_files(
    spec: StreamSpec, runtime: Runtime, listing: Listing, kind: str | None = None, most: int | None = None
) -> FilesRange:
    """Files as input of a stream with a file source, or archived records of a Kafka source.

    Args:
        kind: the format; default: the source's own, or by the names' suffix.
        most: files in one batch.

    Raises:
        SpecError: the stream cannot read that format, or a file is not of it.
    """
    ((name, declared),) = spec.sources.items()
    if declared.files is not None:
        _known(spec, kind or declared.files.format, (declared.files.format,))
        source: StreamSource = FilesStreamSource(str(name), declared, log=listing, stream=str(spec.id))
        most = most or declared.files.max_files_per_trigger
    else:
        kafka = expect(declared.kafka, "a source `kafka`: others were refused")
        format_ = kind or _by_name(listing)
        _known(spec, format_, FORMATS)
        at = cluster.find(kafka.connection, runtime)
        source = TopicArchiveSource(str(name), declared, at, listing=listing, format=cast(Kind, format_))
    source.prepare()
    return FilesRange(str(spec.id), source, listing, most or FILES_A_STEP)


def _known(spec: StreamSpec, kind: str, valid: tuple[str, ...]) -> None:
    if kind not in valid:
        own = spec.source.connector
        raise SpecError(
            f"Stream {spec.id} cannot read files of format {kind}",
            why="its source declares another format"
            if own == "files"
            else f"its source is {own}, and files of that format do not hold whole records",
            next=f"give a valid format: --format {'|'.join(valid)}",
            code="LW-2008",
        )


def _by_name(listing: Listing) -> str:
    """The format by the suffix that all names share."""
    formats = set()
    for file in listing.files:
        ending = file.path.with_suffix("").suffix if file.path.suffix in (".gz", ".bz2", ".zst") else file.path.suffix
        formats.add(_ENDINGS.get(ending.lower(), ""))
    if len(formats) == 1 and (only := formats.pop()):
        return only
    raise SpecError(
        "Cannot derive the format of the files from their names",
        why=f"the suffixes are unknown or differ, e.g. {listing.files[0].path}",
        next=f"give the format: --format {'|'.join(FORMATS)}",
        code="LW-2007",
    )
