"""Rows of a sink that go into quarantine after they have landed, each exactly once: a replay the other way round.

The token of an act ties the two tables together as in `lakeward.connectors.iceberg.replay`, and it is the same
property: of a replay and a removal at once the one that began last goes on. In this order:
1. *begin*: the token into the sink's property. 2. *copy*: the rows into quarantine, marked `moving` with the token and
with `replayed_at` set, so that nobody counts them there. 3. *publish*: the files without those rows and `published`, in
one commit of the sink. From then on rows marked `moving` with that token count as quarantined, whoever looks.
4. *settle* takes the marks off. An act that dies before 3 leaves copies that mean nothing, for ever: their token is
never published, and the next act takes them over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.attempt import RetryCommit
from lakeward.connectors.iceberg import quarantine
from lakeward.connectors.iceberg.replay_markers import change
from lakeward.connectors.kafka.offset_ranges import OffsetRange
from lakeward.platform.runtime import CATALOG
from lakeward.spec.sql.statements import quote, quote_table
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

_COPIES = "_lw_copies"


@dataclass(frozen=True)
class FailingRows(OffsetRange):
    """The rows of a range of offsets for which a condition holds."""

    fails: Column

    def condition(self) -> Column:
        """Narrower than the range's own; Iceberg looks at the range."""
        from pyspark.sql import functions as F

        return super().condition() & F.coalesce(self.fails, F.lit(False))


def copy(session: SparkSession, rows: DataFrame, table: str, token: str, identity: Sequence[str]) -> None:
    """Step 2: put copies into quarantine that do not count yet.

    A row whose record stands there as replayed is taken over; one that still waits there is left as it is.

    Args:
        rows: in the shape of the quarantine table without what marks them, each record once; not a plan over tables.
        table: the quarantine table.
        identity: the columns that identify a record of the source.

    Raises:
        Redo: another act has taken over some of them.
    """
    from pyspark.sql import functions as F

    columns = [quarantine.STREAM, quarantine.SOURCE, *identity]
    marked = rows.withColumns(
        {
            quarantine.REPLAY: F.lit(token),
            quarantine.BECAME: F.lit(quarantine.MOVING),
            quarantine.REPLAYED_AT: F.current_timestamp(),
        }
    ).select(*quarantine.COLUMNS)
    marked.createOrReplaceTempView(_COPIES)
    same = " AND ".join(f"q.{quote(each)} <=> s.{quote(each)}" for each in columns)
    change(
        session,
        table,
        f"MERGE INTO {quote_table(table, CATALOG)} q USING {_COPIES} s ON {same} "
        f"WHEN MATCHED AND q.{quote(quarantine.REPLAYED_AT)} IS NOT NULL THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *",
    )
    there = session.table(quote_table(table, CATALOG)).where(
        (F.col(quarantine.REPLAY) == token) | F.col(quarantine.REPLAYED_AT).isNull()
    )
    if rows.select(*columns).join(there.select(*columns), columns, "left_anti").first() is not None:
        raise RetryCommit("copying: another act has taken some of the rows over")
    failpoints.hit("removal-copied")
