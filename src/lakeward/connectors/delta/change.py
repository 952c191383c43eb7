"""The write of a batch to a Delta table: append, replace all rows, or upsert (insert, update, delete) by key.

Each writes data files inside a transaction that is not committed yet. A write that depends on existing rows (`depends`)
is committed only if the table is still at the version it was written against.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from lakeward.connectors import schema_evolution
from lakeward.connectors.columns import relaxed, up_casts
from lakeward.connectors.commit_protocol.row_count import tally
from lakeward.connectors.commit_protocol.upsert import ByKey
from lakeward.connectors.delta import jvm
from lakeward.connectors.delta.folder import plain
from lakeward.platform.errors import SpecError
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_DELETE, _NEW, _OLD, _FILE = "_lw_delete", "_lw_new", "_lw_old", "_lw_file"


@dataclass(frozen=True)
class Files:
    """The file actions of a change.

    Attributes:
        added, removed: file actions, Java objects.
        rows: the number of applied rows; None: the rows of the added files.
    """

    added: Sequence[Any]
    removed: Sequence[Any] = ()
    rows: int | None = None


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

    def write(self, rows: DataFrame, txn: Any) -> Files:
        """Write `rows` as data files of the transaction's table; no reader sees them yet."""
        ...


@dataclass(frozen=True)
class Append:
    """Add the rows."""

    mode = "append"
    depends = False

    def write(self, rows: DataFrame, txn: Any) -> Files:
        """One write."""
        return Files(write_files(rows, txn))


@dataclass(frozen=True)
class Replace:
    """Replace all rows."""

    mode = "complete"
    depends = True

    def write(self, rows: DataFrame, txn: Any) -> Files:
        """One write; all existing files are removed."""
        return Files(write_files(rows, txn), [file.remove() for file in jvm.in_list(txn.filterFiles())])


@dataclass(frozen=True)
class Upsert(ByKey):
    """Insert, update and delete by key; the newest row of a key wins. See `ByKey`.

    Delta's own MERGE commits by itself and cannot commit a position, so this class does its work: the files that hold a
    key of the batch are rewritten with the rows of the batch, all other files stay.

    A row of the batch replaces a table row with an equal `order_by`. `ties` is not read: only a replay and a backfill
    by key set it to False, and both refuse a Delta sink.
    """

    mode = "upsert"
    depends = True

    def write(self, rows: DataFrame, txn: Any) -> Files:
        """One write of the rewritten files.

        Raises:
            SpecError: a key has several rows, and no column orders them.
        """
        order = self.order(rows.columns)
        # The batch is read several times with the same rows; a stateful batch must run only once.
        newest = (self.newest(rows, order) if order else rows).persist()
        try:
            (count,) = tally(newest)
            if count == 0:
                return Files((), (), 0)
            if not order:
                self.one_each(newest)
            batch = self._marked(newest, txn)
            touched = self._touched(batch, txn)
            added = write_files(self._merged(batch, touched, txn), txn)
            return Files(added, [file.remove() for file in touched], count)
        finally:
            newest.unpersist()

    def _marked(self, rows: DataFrame, txn: Any) -> DataFrame:
        """The batch in the table's columns, with a column that says whether the row deletes its key."""
        from pyspark.sql import functions as F

        deleted = F.expr(f"({self.delete_when}) <=> true") if self.delete_when else F.lit(False)
        return fitted(rows, txn, **{_DELETE: deleted}).withColumn(_NEW, F.lit(True))

    def _touched(self, batch: DataFrame, txn: Any) -> list[Any]:
        """The files that hold a key of the batch."""
        from pyspark.sql import functions as F

        files = jvm.in_list(txn.filterFiles())
        if not files:
            return []
        by_path = dict(zip(jvm.paths_of(txn, files), files, strict=True))
        keys = [F.col(quote(name)) for name in self.keys]
        existing = jvm.rows_of(batch.sparkSession, txn, files).select(*keys, F.col("_metadata.file_path").alias(_FILE))
        same = [F.col(f"t.{quote(name)}").eqNullSafe(F.col(f"s.{quote(name)}")) for name in self.keys]
        matched = existing.alias("t").join(batch.select(*keys).alias("s"), same, "left_semi").select(_FILE).distinct()
        return [by_path[plain(row[0])] for row in matched.collect()]

    def _merged(self, batch: DataFrame, touched: list[Any], txn: Any) -> DataFrame:
        """The rows of the touched files and of the batch, one of each key."""
        from pyspark.sql import functions as F

        columns = [name for name in batch.columns if name not in (_DELETE, _NEW)]
        if not touched:
            return batch.where(~F.col(_DELETE)).select(*(F.col(quote(name)) for name in columns))
        old = jvm.rows_of(batch.sparkSession, txn, touched).withColumn(_OLD, F.lit(True))
        same = [F.col(f"t.{quote(name)}").eqNullSafe(F.col(f"s.{quote(name)}")) for name in self.keys]
        both = old.alias("t").join(batch.alias("s"), same, "full_outer")
        newer = F.col(_OLD).isNull()
        if self.order_by:
            new_order, old_order = F.col(f"s.{quote(self.order_by)}"), F.col(f"t.{quote(self.order_by)}")
            newer = newer | old_order.isNull() | (new_order >= old_order)
        else:
            newer = newer | F.lit(True)
        replaces = F.col(_NEW).isNotNull() & F.coalesce(newer, F.lit(False))
        return both.where(~(replaces & F.coalesce(F.col(_DELETE), F.lit(False)))).select(
            *(
                F.when(replaces, F.col(f"s.{quote(name)}")).otherwise(F.col(f"t.{quote(name)}")).alias(name)
                for name in columns
            )
        )


def write_files(rows: DataFrame, txn: Any) -> list[Any]:
    """Write `rows` by Delta's own writer, in the table's columns and types."""
    return jvm.in_list(txn.writeFiles(fitted(rows, txn)._jdf))


def fitted(rows: DataFrame, txn: Any, **more: Column) -> DataFrame:
    """`rows` in the table's columns, by name. The transaction does not check columns or types, so this does.

    Args:
        more: additional columns, computed from `rows`.

    Raises:
        SpecError: a column is missing, unknown, or cannot be stored without a possible loss.
    """
    table, session = json.loads(txn.metadata().schemaString()), rows.sparkSession
    compared = schema_evolution.compare(rows.schema.jsonValue(), table, partial(up_casts, session))
    differences = list(schema_evolution.differences(compared, compared.lacking, additive=False))
    if differences:
        raise SpecError(
            "The columns of a batch do not match its Delta table",
            why="; ".join(differences),
            next="change the transform, or the table: ALTER TABLE spark_catalog...",
            code="LW-3028",
        )
    extended = rows.select("*", *(column.alias(name) for name, column in more.items()))
    table["fields"] += [extended.schema[name].jsonValue() for name in more]
    return extended.to(relaxed(table))  # by name, at any depth
