"""What a batch does to a table: add its rows, replace all rows, or insert, update and delete by key.

Each is one Spark write, staged by `stage`. What depends on the rows that are there already is published only on the
very head it was written against (`depends`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lakeward.connectors.commit_protocol.row_count import tally
from lakeward.connectors.commit_protocol.upsert import ByKey
from lakeward.platform.runtime import CATALOG
from lakeward.spec.sql.statements import quote, quote_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BATCH, _DELETE = "_lw_batch", "_lw_delete"


class Change(Protocol):
    """One way to write a batch."""

    @property
    def mode(self) -> str:
        """The sink's word for it."""
        ...

    @property
    def depends(self) -> bool:
        """Whether what is written follows from what is in the table."""
        ...

    def write(self, rows: DataFrame, table: str) -> int | None:
        """Write `rows` into `namespace.table`; how many rows that applies, None: the snapshot's own count says it."""
        ...


@dataclass(frozen=True)
class Append:
    """Add the rows."""

    mode = "append"
    depends = False

    def write(self, rows: DataFrame, table: str) -> None:
        """One append."""
        rows.writeTo(quote_table(table, CATALOG)).append()


@dataclass(frozen=True)
class Replace:
    """Replace all rows."""

    mode = "complete"
    depends = True

    def write(self, rows: DataFrame, table: str) -> None:
        """One overwrite of everything."""
        from pyspark.sql import functions as F

        rows.writeTo(quote_table(table, CATALOG)).overwrite(F.lit(True))


@dataclass(frozen=True)
class Upsert(ByKey):
    """Insert, update and delete by key, the newest row of a key winning; see `ByKey`."""

    mode = "upsert"
    depends = True

    def write(self, rows: DataFrame, table: str) -> int:
        """One MERGE of the newest row of each key.

        Raises:
            SpecError: a key has several rows, and nothing says which is newer.
        """
        order = self.order(rows.columns)
        # MERGE reads its source more than once, and must read the same; a batch with state must run once only.
        kept = (self.newest(rows, order) if order else rows).persist()
        try:
            (count,) = tally(kept)
            if count == 0:
                Append().write(kept, table)  # a MERGE of nothing makes no snapshot, and the batch needs one
                return 0
            if not order:
                self.one_each(kept)
            kept.createOrReplaceTempView(_BATCH)
            kept.sparkSession.sql(self.merge(table, kept.columns)).collect()
            return count
        finally:
            kept.unpersist()

    def merge(self, table: str, columns: Sequence[str]) -> str:
        """The MERGE of `columns`, the batch's rows being a view."""
        same = " AND ".join(f"t.{quote(name)} <=> s.{quote(name)}" for name in self.keys)
        newer = ""
        if self.order_by:
            column = quote(self.order_by)
            newer = f" AND (t.{column} IS NULL OR s.{column} {'>=' if self.ties else '>'} t.{column})"
        deleted = f"s.{quote(_DELETE)}" if self.delete_when else ""
        source = _BATCH
        if deleted:  # the user's own expression, parsed as one when the spec was read
            source = f"(SELECT *, ({self.delete_when}) <=> true AS {quote(_DELETE)} FROM {_BATCH})"  # noqa: S608  # see above
        update = ", ".join(f"t.{quote(name)} = s.{quote(name)}" for name in columns)
        names = ", ".join(quote(name) for name in columns)
        values = ", ".join(f"s.{quote(name)}" for name in columns)
        fresh = f" AND NOT {deleted}" if deleted else ""
        clauses = [
            f"MERGE INTO {quote_table(table, CATALOG)} t USING {source} s ON {same}",
            *([f"WHEN MATCHED AND {deleted}{newer} THEN DELETE"] if deleted else []),
            f"WHEN MATCHED{newer} THEN UPDATE SET {update}",
            f"WHEN NOT MATCHED{fresh} THEN INSERT ({names}) VALUES ({values})",  # noqa: S608  # every name is quoted
        ]
        return "\n".join(clauses)
