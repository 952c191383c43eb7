"""Archived records of Kafka topics: reads files as if their records came from the topics.

A line of a `json` or `text` file is the value of a record. A Parquet, ORC or Avro file has the value in a column
`value`, and may have the other columns of Spark's Kafka source: `key headers topic partition offset timestamp`. Columns
that the file lacks are null; without `offset` the offset of the record is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, cast, get_args

from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files import headers
from lakeward.connectors.files import reader as files_source
from lakeward.connectors.files.listing import Listing
from lakeward.connectors.kafka import reader
from lakeward.connectors.kafka.source import KafkaStreamSource
from lakeward.connectors.source import VALUE
from lakeward.platform.errors import SpecError
from lakeward.spec.model.position_columns import INGESTED_AT, OWN_COLUMNS
from lakeward.spec.model.sources import TYPED, FilesSource
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Kind = Literal["json", "text", "parquet", "orc", "avro"]
FORMATS: tuple[Kind, ...] = get_args(Kind)
"""The supported file formats. CSV is not one of them: a record has one value, not columns."""
_PATH = "_file_path"
_PLAIN = ("string", "binary")
_COLUMNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "value": (VALUE, _PLAIN),
    "key": (reader.KEY, _PLAIN),
    "headers": (reader.HEADERS, ("array<struct<key:string,value:binary>>",)),
    "topic": ("_kafka_topic", ("string",)),
    "partition": ("_kafka_partition", ("int",)),
    "offset": ("_kafka_offset", ("bigint",)),
    "timestamp": ("_kafka_timestamp", ("timestamp", "timestamp_ntz")),
}
"""Column of a file -> the column of a record, and the allowed types."""
_TYPES = {VALUE: "BINARY", **OWN_COLUMNS}


@dataclass
class TopicArchiveSource(KafkaStreamSource):
    """Records of a stream's topics from the files of `listing`, in `format`."""

    listing: Listing = field(kw_only=True)
    format: Kind = field(kw_only=True)

    @property
    def identity(self) -> tuple[str, ...]:
        """The same as for any file: the file and the content of the record."""
        return (_PATH, "reason", "raw")

    @property
    def traces(self) -> tuple[str, ...]:
        """The same as for the topics: a row comes from one record."""
        return super().identity

    @property
    def hidden(self) -> tuple[str, ...]:
        return (_PATH,)

    def prepare(self) -> None:
        """Prepare the decoder, and check the columns of every file.

        Raises:
            SpecError: a file does not have the columns of a record; the error names the file.
        """
        super().prepare()
        if self.format not in TYPED:
            return
        for file in self.listing.files:
            differences = headers.differences(FileAccess(), file.url, self._files, self._schema)
            if differences:
                raise SpecError(
                    f"The columns of file {file.path} differ from those of the first file",
                    why=f"{'; '.join(differences)}; first file: {self.listing.files[0].path}",
                    next="land the files in groups of equal columns: one --from-files for each group, --into the same "
                    "stream's table by key",
                    code="LW-3107",
                )

    def ids(self) -> dict[str, str]:
        """Empty: nothing is read from the topics."""
        return {}

    def read(self, session: SparkSession, *, fresh: bool, begin: str | None) -> DataFrame:
        """The topics' columns, for planning; nothing is read."""
        from pyspark.sql import functions as F

        return super().read(session, fresh=fresh, begin=begin).withColumn(_PATH, F.lit(None).cast("string"))

    def again(self, session: SparkSession, start: str, end: str) -> DataFrame:
        """The records of the files between two positions of the listing."""
        from pyspark.sql import functions as F

        paths = [file.path for file in self.listing.between(start, end)]
        raw = files_source.read_files(session, self.name, self._files, self._schema if self._typed else None, paths)
        record = files_source.record_column(self.name)
        present = {VALUE: F.col(VALUE)}
        if self._typed:
            present = {_COLUMNS[name][0]: F.col(record)[name] for name in self._record_columns}
        columns = (reader.KEY, VALUE, reader.HEADERS, *self.spec.position_columns[:-1])
        return raw.select(
            *(present.get(name, F.lit(None)).cast(_TYPES[name]).alias(name) for name in columns), INGESTED_AT, _PATH
        )

    @property
    def _typed(self) -> bool:
        return self.format in TYPED

    @cached_property
    def _record_columns(self) -> dict[str, str]:
        """The columns of a record that the first file has -> their types.

        Raises:
            SpecError: the file has no column `value`, or a column of another type.
        """
        first = self.listing.files[0]
        with FileAccess().open(str(first.path)) as file:
            columns = headers.columns_of(file, self.format)
        present = {name: columns[name] for name in _COLUMNS if name in columns}
        mistyped = [f"{name} is {kind}" for name, kind in present.items() if kind not in _COLUMNS[name][1]]
        if mistyped or "value" not in present:
            why = "; ".join(mistyped) or f"it has no column value; its columns: {', '.join(columns) or 'none'}"
            valid = "; ".join(f"{name}: {' or '.join(kinds)}" for name, (_, kinds) in _COLUMNS.items())
            raise SpecError(
                f"File {first.path} does not have the records of a topic",
                why=why,
                next=f"valid columns of a record: {valid}",
                code="LW-3106",
            )
        return present

    @cached_property
    def _files(self) -> FilesSource:
        columns = (
            ", ".join(f"{quote(name)} {kind}" for name, kind in self._record_columns.items()) if self._typed else None
        )
        # The checks of a stream's source are skipped: times in ORC are read as Spark wrote them.
        return FilesSource.model_construct(
            path=self.listing.pattern, format=self.format, columns=columns, max_files_per_trigger=1, nulls=None,
            header=True, after="keep",
        )  # fmt: skip

    @cached_property
    def _schema(self) -> StructType:
        from pyspark.sql.types import StructType

        return cast("StructType", StructType.fromDDL(self._files.columns or ""))
