"""Sources of which Spark alone knows how far they are: a range of them cannot be read a second time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.connectors import table_rows
from lakeward.connectors.source import StreamSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class NotReplayableSource(StreamSource):
    """Rows that come in a batch of Spark's and never again by themselves."""

    @property
    def identity(self) -> tuple[str, ...]:
        return table_rows.IDENTITY

    @property
    def replays(self) -> bool:
        return False

    @property
    def begins(self) -> bool:
        return False

    def again(self, session: SparkSession, start: str, end: str) -> DataFrame:
        raise NotImplementedError("`replays` is False: nobody asks for this")
