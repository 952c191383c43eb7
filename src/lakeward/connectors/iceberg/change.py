"""The write of a batch to an Iceberg table: append, replace all rows, or upsert (insert, update, delete) by key.

Each is one Spark write, staged by `stage`. A write that depends on existing rows (`depends`) is published only if
main's head is still the one it was written against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lakeward.connectors.commit_protocol.row_count import tally
from lakeward.connectors.commit_protocol.upsert import ByKey
from lakeward.connectors.iceberg import jvm
from lakeward.connectors.iceberg.check import no_merge
from lakeward.connectors.iceberg.qualified import in_lake
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BATCH, _DELETE = "_lw_batch", "_lw_delete"


class Change(Protocol):
    """A kind of write."""

    @property
    def mode(self) -> str:
        """The sink's mode."""
        ...

    @property
    def depends(self) -> bool:
        """Whether the written rows depend on rows in the table."""
        ...

    def write(self, rows: DataFrame, table: str) -> int | None:
        """Write `rows` into `namespace.table`; returns the number of applied rows, None: `added-records` has it."""
        ...


@dataclass(frozen=True)
class Append:
    """Add the rows."""

    mode = "append"
    depends = False

    def write(self, rows: DataFrame, table: str) -> None:
        """One append."""
        rows.writeTo(in_lake(rows.sparkSession, table)).append()


@dataclass(frozen=True)
class Replace:
    """Replace all rows."""

    mode = "complete"
    depends = True

    def write(self, rows: DataFrame, table: str) -> None:
        """One overwrite of everything."""
        from pyspark.sql import functions as F

        rows.writeTo(in_lake(rows.sparkSession, table)).overwrite(F.lit(True))


@dataclass(frozen=True)
class Upsert(ByKey):
    """Insert, update and delete by key; the newest row of a key wins. See `ByKey`."""

    mode = "upsert"
    depends = True

    def write(self, rows: DataFrame, table: str) -> int:
        """One MERGE of the newest row of each key.

        Raises:
            SpecError: a key has several rows, and no column orders them.
            Blocked: Iceberg cannot read a property of the table that a MERGE needs (`property-unreadable`).
        """
        order = self.order(rows.columns)
        # MERGE reads its source more than once and must read the same rows; a stateful batch must run only once.
        batch = (self.newest(rows, order) if order else rows).persist()
        try:
            (count,) = tally(batch)
            if count == 0:
                Append().write(batch, table)  # an empty MERGE makes no snapshot, and the batch needs one
                return 0
            if not order:
                self.one_each(batch)
            batch.createOrReplaceTempView(_BATCH)
            self._run(batch.sparkSession, self.merge(in_lake(rows.sparkSession, table), batch.columns), table)
            return count
        finally:
            batch.unpersist()

    def _run(self, session: SparkSession, statement: str, table: str) -> None:
        try:
            session.sql(statement).collect()
        except Exception as error:
            if why := jvm.stops_merges(session, table):
                raise no_merge(table, why).error() from error
            raise

    def merge(self, place: str, columns: Sequence[str]) -> str:
        """The MERGE statement for `columns`; the batch's rows are a temporary view.

        Args:
            place: the table, quoted, with its catalog.
        """
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
            f"MERGE INTO {place} t USING {source} s ON {same}",
            *([f"WHEN MATCHED AND {deleted}{newer} THEN DELETE"] if deleted else []),
            f"WHEN MATCHED{newer} THEN UPDATE SET {update}",
            f"WHEN NOT MATCHED{fresh} THEN INSERT ({names}) VALUES ({values})",  # noqa: S608  # every name is quoted
        ]
        return "\n".join(clauses)
