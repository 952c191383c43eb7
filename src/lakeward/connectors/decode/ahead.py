"""Records from the future: an event further ahead of the wall clock than `watermark: {max_ahead: ..}` is quarantined.

One such record would move the watermark there, and all other records would be dropped as late. The wall clock is the
record's `_ingested_at`, the time of its batch: a batch that is repeated or read again judges its records as before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.connectors.source import ERROR, RAW, REASON
from lakeward.spec.model.position_columns import INGESTED_AT
from lakeward.spec.model.types import Duration
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AHEAD = "ahead"
"""The reason of a record from the future."""
SENT = "_lw_sent"
"""The bytes of a record, carried along until its event is judged; for `explain`, the error found here."""


@dataclass(frozen=True)
class AheadOfClock:
    """Judges decoded records by their event time.

    Attributes:
        column: the watermark's column.
        most: how far it may be ahead.
    """

    column: str
    most: Duration

    def judged(self, decoded: DataFrame) -> DataFrame:
        """`decoded`, which has `SENT`, with REASON, ERROR and RAW of records from the future; without `SENT`."""
        from pyspark.sql import functions as F

        event, now = F.col(quote(self.column)).cast("timestamp"), F.col(INGESTED_AT)
        late = F.col(REASON).isNull() & (F.unix_micros(event) > F.unix_micros(now) + round(self.most.seconds * 1e6))
        ahead = F.coalesce(late, F.lit(False))
        error = F.concat(
            F.lit(f"{self.column} is "),
            event.cast("string"),
            F.lit(f", more than max_ahead ({self.most}) after "),
            now.cast("string"),
        )
        return decoded.withColumns(
            {
                RAW: F.when(ahead, F.col(SENT)).otherwise(F.col(RAW)),
                ERROR: F.when(ahead, error).otherwise(F.col(ERROR)),
                REASON: F.when(ahead, F.lit(AHEAD)).otherwise(F.col(REASON)),
            }
        ).drop(SENT)
