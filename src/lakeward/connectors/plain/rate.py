"""Generated rows as a source: for experiments and benchmarks. They follow from the second alone, so they replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.connectors.source import ERROR, RAW, REASON, StreamSource
from lakeward.platform.errors import expect
from lakeward.spec.model.position_columns import INGESTED_AT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class RateStreamSource(StreamSource):
    """`timestamp` and `value`, so many rows a second; the position is the second since the checkpoint began."""

    @property
    def identity(self) -> tuple[str, ...]:
        """A row is known by its content: no two have one `value`."""
        return ("reason", "raw")

    @property
    def per_second(self) -> int:
        """Rows."""
        return expect(self.spec.rate, "a source `rate`").rows_per_second

    def read(self, session: SparkSession, *, fresh: bool, begin: str | None) -> DataFrame:
        from pyspark.sql import functions as F

        rows = session.readStream.format("rate").option("rowsPerSecond", str(self.per_second)).load()
        return rows.select("timestamp", "value", F.current_timestamp().alias(INGESTED_AT))

    def again(self, session: SparkSession, start: str, end: str) -> DataFrame:
        """As many rows with the same values; their times are not known here, and nobody asks for them: none is bad."""
        from pyspark.sql import functions as F

        first = 0 if start == NO_DATA else int(start)
        rows = session.range(first * self.per_second, int(end) * self.per_second)
        now = F.current_timestamp()
        return rows.select(now.alias("timestamp"), F.col("id").alias("value"), now.alias(INGESTED_AT))

    def decode(self, raw: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        nothing = [F.lit(None).cast(kind).alias(name) for name, kind in ((REASON, "string"), (ERROR, "string"))]
        return raw.select("timestamp", "value", INGESTED_AT, *nothing, F.lit(None).cast("binary").alias(RAW))
