"""What a backfill lands, in steps between two positions of its own: a range of topics, or named files."""

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
"""Files of one batch where the stream's source is none of files."""
_PATH = "_file_path"
_ENDINGS = {
    ".json": "json", ".jsonl": "json", ".ndjson": "json", ".txt": "text", ".log": "text", ".parquet": "parquet",
    ".orc": "orc", ".avro": "avro", ".csv": "csv",
}  # fmt: skip


class BackfillRange(Protocol):
    """A range to land; positions are canonical texts."""

    @property
    def inlet(self) -> StreamSource:
        """What reads it: `again` gives the raw records between two of its positions."""
        ...

    @property
    def start(self) -> str: ...
    @property
    def end(self) -> str: ...

    def next(self, at: str) -> str | None:
        """Where the batch that begins at `at` ends; None at the end."""
        ...

    def goes_on(self, begun: Position) -> None:
        """Raise where it cannot go on after what an earlier run landed."""
        ...

    def before(self, start: str, end: str) -> None:
        """A look at a batch before it is read; raises where it cannot be."""
        ...

    def unchanged(self, start: str, end: str) -> None:
        """Raise where the batch is not any more what was read; asked when nobody sees it yet."""
        ...

    def placed(self, bad: DataFrame, start: str, end: str) -> DataFrame:
        """Bad rows with where they came from, where they do not say it themselves."""
        ...


@dataclass(frozen=True)
class TopicRange:
    """Offsets of topics, about `most` records a batch (0: all at once)."""

    inlet: StreamSource
    start: str
    end: str
    most: int

    def next(self, at: str) -> str | None:
        to = next_end(kafka_position.parse(at), kafka_position.parse(self.end), self.most)
        return None if to is None else kafka_position.render(to)

    def goes_on(self, begun: Position) -> None:
        """From any offset."""

    def before(self, start: str, end: str) -> None:
        """Spark fails where a range is gone."""

    def unchanged(self, start: str, end: str) -> None:
        """A record never changes."""

    def placed(self, bad: DataFrame, start: str, end: str) -> DataFrame:
        return bad


@dataclass(frozen=True)
class FilesRange:
    """Named files, `most` a batch."""

    stream: str
    inlet: StreamSource
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
        """Only after the very files that landed."""
        self.listing.goes_on(begun.end[self.inlet.name], begun.at)

    def before(self, start: str, end: str) -> None:
        self.inlet.before_reading(self.stream, start, end)

    def unchanged(self, start: str, end: str) -> None:
        self.listing.unchanged(self.listing.within(start, end))

    def placed(self, bad: DataFrame, start: str, end: str) -> DataFrame:
        """A row that broke a rule may not carry its file: it gets those of its batch, so that equal rows of two
        batches are two."""
        from pyspark.sql import functions as F

        files = [each.url for each in self.listing.within(start, end)]
        among = files[0] if len(files) == 1 else f"{files[0]} .. {files[-1]}"
        known = F.col(_PATH) if _PATH in bad.columns else F.lit(None).cast("string")
        return bad.withColumn(_PATH, F.coalesce(known, F.lit(among)))


def of_files(
    spec: StreamSpec, runtime: Runtime, listing: Listing, kind: str | None = None, most: int | None = None
) -> FilesRange:
    """Files as input of a stream whose source is files, or topics that were kept in files.

    Args:
        kind: the format; default: the source's own, or what the names end in.
        most: files of one batch.

    Raises:
        SpecError: the stream cannot read that format, or a file does not hold it.
    """
    ((name, source),) = spec.sources.items()
    if source.files is not None:
        _known(spec, kind or source.files.format, (source.files.format,))
        inlet: StreamSource = FilesStreamSource(str(name), source, log=listing, stream=str(spec.id))
        most = most or source.files.max_files_per_trigger
    else:
        kafka = expect(source.kafka, "a source `kafka`: others were refused")
        found = kind or _by_name(listing)
        _known(spec, found, FORMATS)
        at = cluster.find(kafka.connection, runtime)
        inlet = TopicArchiveSource(str(name), source, at, listing=listing, format=cast(Kind, found))
    inlet.prepare()
    return FilesRange(str(spec.id), inlet, listing, most or FILES_A_STEP)


def _known(spec: StreamSpec, kind: str, valid: tuple[str, ...]) -> None:
    if kind not in valid:
        own = spec.source.connector
        raise SpecError(
            f"Stream {spec.id} cannot read files of {kind}",
            why=f"its source is {own}: "
            + ("files are read as the source declares them" if own == "files" else "a file must hold whole records"),
            next=f"--format: {', '.join(valid)}",
            code="LW-2008",
        )


def _by_name(listing: Listing) -> str:
    """The format that all names end in."""
    found = set()
    for each in listing.files:
        ending = each.path.with_suffix("").suffix if each.path.suffix in (".gz", ".bz2", ".zst") else each.path.suffix
        found.add(_ENDINGS.get(ending.lower(), ""))
    if len(found) == 1 and (only := found.pop()):
        return only
    raise SpecError(
        "The names of the files do not tell their format",
        why=f"e.g. {listing.files[0].path}",
        next=f"--format: {', '.join(FORMATS)}",
        code="LW-2007",
    )
