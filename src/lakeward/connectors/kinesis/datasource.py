"""Spark's Python data source for Kinesis: `latestOffset` reads ahead in the driver, workers read the same again.

Import it only where Spark runs: its classes extend Spark's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (  # noqa: TID253  # imported by the source when a stream starts, and by Spark's workers
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from lakeward.connectors.kinesis import shard_offsets
from lakeward.connectors.kinesis.read_ahead import ReadAhead
from lakeward.connectors.kinesis.shard_offsets import ShardOffset
from lakeward.connectors.kinesis.stream import Place, Row, Stream, row
from lakeward.platform.errors import expect_type

NAME = "lakeward_kinesis"
COLUMNS = (
    "_value BINARY, _kinesis_key STRING, _kinesis_stream STRING, _kinesis_shard STRING, _kinesis_sequence STRING, "
    "_kinesis_arrived TIMESTAMP"
)
MOST, START, END = "max_records_per_trigger", "start", "end"
"""Other options: of a stream the cap and the start, of a range the two positions. Spark lower-cases their names."""


@dataclass
class ShardRange(InputPartition):
    """A range of records of one shard."""

    shard: str
    first: ShardOffset
    last: ShardOffset


class KinesisSource(DataSource):
    """The data source: one Kinesis stream, or a range of it."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: Any) -> KinesisStreamReader:  # noqa: N802  # Spark's name
        return KinesisStreamReader(dict(self.options))

    def reader(self, schema: Any) -> KinesisRangeReader:
        return KinesisRangeReader(dict(self.options))


class KinesisRangeReader(DataSourceReader):
    """The records between two positions, as a batch."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.place = Place.of(options)
        self.start, self.end = options[START], options[END]

    def partitions(self) -> list[ShardRange]:
        return _ranges(shard_offsets.parse(self.start), shard_offsets.parse(self.end))

    def read(self, partition: InputPartition) -> Iterator[Row]:
        return _read(self.place, expect_type(partition, ShardRange, "a partition"))


class KinesisStreamReader(DataSourceStreamReader):
    """The stream reader. Spark creates one in the driver's Python; those in workers only `read`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.place = Place.of(options)
        self.most, self.start = int(options[MOST]), options[START]
        self._ahead: ReadAhead | None = None
        self._first: shard_offsets.Marks | None = None
        self._at: shard_offsets.Marks | None = None

    def initialOffset(self) -> dict[str, str]:  # noqa: N802  # Spark's name
        if self._first is None:
            given = self.start.startswith("{")
            self._first = (
                shard_offsets.parse(self.start) if given else self._reading().begin(ShardOffset.parse(self.start))
            )
        return self._first

    def latestOffset(self) -> dict[str, str]:  # noqa: N802  # Spark's name
        # After a restart Spark calls `partitions` first, which sets the position; in a new query it calls this first.
        at = self.initialOffset() if self._at is None else self._at
        self._at = self._reading().step(at)
        return self._at

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[ShardRange]:
        if self._at is None:
            self._at = dict(end)
        return _ranges(start, end)

    def read(self, partition: InputPartition) -> Iterator[Row]:
        return _read(self.place, expect_type(partition, ShardRange, "a partition"))

    def _reading(self) -> ReadAhead:
        if self._ahead is None:
            self._ahead = ReadAhead(Stream(self.place), self.most)
        return self._ahead


def _ranges(start: Mapping[str, str], end: Mapping[str, str]) -> list[ShardRange]:
    return [ShardRange(shard, first, last) for shard, (first, last) in shard_offsets.ranges(start, end).items()]


def _read(place: Place, part: ShardRange) -> Iterator[Row]:
    for record in Stream(place).between(part.shard, part.first, part.last):
        yield row(place, part.shard, record)
