"""Which row of a key is the newest, whatever the table's format."""

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
"""Where a key's records come in order (one partition), this says which came later. A shard's sequence numbers are text,
and a key moves to another shard when shards are split."""


@dataclass(frozen=True)
class ByKey:
    """How rows of one key are told apart.

    Args:
        keys: the columns that identify a row; null is a value like any other.
        order_by: says which of two rows of a key is newer, null the oldest. Without it the later record wins.
        ties: whether a row replaces one of the table that `order_by` calls as new: what comes later in the stream does,
            what comes out of quarantine does not.
        delete_when: rows for which this holds delete their key. What is deleted is forgotten: an older row of the key
            that comes in a later batch is inserted again.
    """

    keys: Sequence[str]
    order_by: str | None = None
    delete_when: str | None = None
    ties: bool = True

    def order(self, columns: Sequence[str]) -> list[str]:
        """The columns that say which of two rows is newer, the first that differs deciding; empty: none does."""
        return [*([self.order_by] if self.order_by else []), *(name for name in _LATER if name in columns)]

    def newest(self, rows: DataFrame, order: Sequence[str]) -> DataFrame:
        """One row a key."""
        from pyspark.sql import functions as F
        from pyspark.sql.window import Window

        by_key = Window.partitionBy(*(F.col(quote(name)) for name in self.keys))
        ranked = by_key.orderBy(*(F.col(quote(name)).desc_nulls_last() for name in order))
        return rows.withColumn(_RANK, F.row_number().over(ranked)).where(F.col(_RANK) == 1).drop(_RANK)

    def one_each(self, rows: DataFrame) -> None:
        """Refuse rows of which two have one key."""
        from pyspark.sql import functions as F

        twice = rows.groupBy(*(F.col(quote(name)) for name in self.keys)).count().where(F.col("count") > 1).first()
        if twice is not None:
            raise self.several(", ".join(f"{name}={twice[name]}" for name in self.keys), twice["count"])

    def several(self, key: str, times: int) -> SpecError:
        """The error for a key that comes several times, the key in words."""
        return SpecError(
            "A batch has several rows of one key, and nothing says which of them is newer",
            why=f"{key} is there {times} times",
            next="name the column that says it (order_by:) under the sink, or let the transform keep _kafka_offset",
            code="LW-3023",
        )
