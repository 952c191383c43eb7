"""Upsert by key: which row of a key is the newest, the same for every table format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.platform.errors import SpecError
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RANK = "_lw_rank"
_LATER = ("_kafka_offset",)
"""Columns that order the records of a key, which are in one partition. A Kinesis sequence number is not usable: it is
text, and a key moves to another shard when shards are split."""


@dataclass(frozen=True)
class ByKey:
    """The key of a row, and the order of rows with the same key.

    Args:
        keys: the columns that identify a row; null is a value like any other.
        order_by: the column by which the newest row of a key wins, null the oldest. Without it the later record wins.
        ties: whether a row replaces a table row with an equal `order_by`: a later row of the stream does, a row from
            quarantine does not.
        delete_when: the condition of rows that delete their key. A deleted key leaves no trace: an older row of the
            key in a later batch is inserted again.
    """

    keys: Sequence[str]
    order_by: str | None = None
    delete_when: str | None = None
    ties: bool = True

    def order(self, columns: Sequence[str]) -> list[str]:
        """The columns that order rows of a key, the most significant first; empty if there are none."""
        return [*([self.order_by] if self.order_by else []), *(name for name in _LATER if name in columns)]

    def newest(self, rows: DataFrame, order: Sequence[str]) -> DataFrame:
        """The newest row of each key."""
        from pyspark.sql import functions as F
        from pyspark.sql.window import Window

        by_key = Window.partitionBy(*(F.col(quote(name)) for name in self.keys))
        ranked = by_key.orderBy(*(F.col(quote(name)).desc_nulls_last() for name in order))
        return rows.withColumn(_RANK, F.row_number().over(ranked)).where(F.col(_RANK) == 1).drop(_RANK)

    def one_each(self, rows: DataFrame) -> None:
        """Refuse rows if two of them have the same key."""
        from pyspark.sql import functions as F

        duplicate = rows.groupBy(*(F.col(quote(name)) for name in self.keys)).count().where(F.col("count") > 1).first()
        if duplicate is not None:
            raise self.several(", ".join(f"{name}={duplicate[name]}" for name in self.keys), duplicate["count"])

    def several(self, key: str, times: int) -> SpecError:
        """The error for a key with several rows; `key` as text."""
        return SpecError(
            "A batch has several rows of one key, and no column orders them",
            why=f"key {key} has {times} rows",
            next="name the column that orders them (order_by:) under the sink, or keep _kafka_offset in the transform",
            code="LW-3023",
        )
