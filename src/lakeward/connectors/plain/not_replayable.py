"""Base class of sources whose offsets only Spark interprets: a range cannot be read a second time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.connectors import table_rows
from lakeward.connectors.source import StreamSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class NotReplayableSource(StreamSource):
    """Rows that Spark delivers in one batch and that cannot be requested again."""

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
        raise NotImplementedError("`replays` is False: this method must not be called")
