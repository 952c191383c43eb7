"""Rate source: generated rows for experiments and benchmarks. Ranges can be replayed, because time determines rows."""

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
    """Columns `timestamp` and `value`, at a fixed rate; the position is the number of seconds since the first batch."""

    @property
    def identity(self) -> tuple[str, ...]:
        """A row is identified by its content: `value` is unique."""
        return ("reason", "raw")

    @property
    def per_second(self) -> int:
        """Rows generated per second."""
        return expect(self.spec.rate, "a source `rate`").rows_per_second

    def read(self, session: SparkSession, *, fresh: bool, begin: str | None) -> DataFrame:
        from pyspark.sql import functions as F

        rows = session.readStream.format("rate").option("rowsPerSecond", str(self.per_second)).load()
        return rows.select("timestamp", "value", F.current_timestamp().alias(INGESTED_AT))

    def again(self, session: SparkSession, start: str, end: str) -> DataFrame:
        """The same values; `timestamp` is the present time instead of the original one, which is not recorded."""
        from pyspark.sql import functions as F

        first = 0 if start == NO_DATA else int(start)
        rows = session.range(first * self.per_second, int(end) * self.per_second)
        now = F.current_timestamp()
        return rows.select(now.alias("timestamp"), F.col("id").alias("value"), now.alias(INGESTED_AT))

    def decode(self, raw: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        no_error = [F.lit(None).cast(kind).alias(name) for name, kind in ((REASON, "string"), (ERROR, "string"))]
        return raw.select("timestamp", "value", INGESTED_AT, *no_error, F.lit(None).cast("binary").alias(RAW))
