"""Removal: moves landed rows of a sink into quarantine, each exactly once. The reverse of a replay.

The removal's token ties the two tables together as in `lakeward.connectors.iceberg.replay`, in the same property: of a
concurrent replay and removal, the one that began last continues. The steps:
1. *begin* writes the token into the sink's property.
2. *copy* writes the rows into quarantine, marked `moving` with the token and with `replayed_at` set, so they do not
   count there yet.
3. *publish* commits the files without those rows and `published` in one commit of the sink. From then on, every reader
   counts rows marked `moving` with that token as quarantined.
4. *settle* removes the marks.
A removal that dies before step 3 leaves copies that never count: their token is not published, and the next removal
takes them over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.attempt import RetryCommit
from lakeward.connectors.iceberg import quarantine
from lakeward.connectors.iceberg.qualified import in_lake
from lakeward.connectors.iceberg.replay_markers import change
from lakeward.connectors.kafka.offset_ranges import OffsetRange
from lakeward.spec.sql.statements import quote
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
        """The range's condition and `fails`; Iceberg validates the whole range."""
        from pyspark.sql import functions as F

        return super().condition() & F.coalesce(self.fails, F.lit(False))


def copy_to_quarantine(session: SparkSession, rows: DataFrame, table: str, token: str, identity: Sequence[str]) -> None:
    """Step 2: write copies into quarantine that do not count yet.

    If quarantine has the record as replayed, the copy replaces that row; if not yet replayed, the row stays.

    Args:
        rows: columns of the quarantine table without the marker columns, each record once; not a plan over tables.
        table: the quarantine table.
        identity: the columns that identify a record of the source.

    Raises:
        RetryCommit: another removal or replay has taken over some of them.
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
    same = " AND ".join(f"q.{quote(column)} <=> s.{quote(column)}" for column in columns)
    change(
        session,
        table,
        f"MERGE INTO {in_lake(session, table)} q USING {_COPIES} s ON {same} "
        f"WHEN MATCHED AND q.{quote(quarantine.REPLAYED_AT)} IS NOT NULL THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *",
    )
    present = session.table(in_lake(session, table)).where(
        (F.col(quarantine.REPLAY) == token) | F.col(quarantine.REPLAYED_AT).isNull()
    )
    if rows.select(*columns).join(present.select(*columns), columns, "left_anti").first() is not None:
        raise RetryCommit("copying: another removal or replay has taken over some of the rows")
    failpoints.hit("removal-copied")
