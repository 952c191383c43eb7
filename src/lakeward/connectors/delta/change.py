"""What a batch does to a Delta table, as files written inside a transaction that is not committed yet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlparse

from lakeward.connectors import schema_evolution
from lakeward.connectors.columns import relaxed, up_casts
from lakeward.connectors.commit_protocol.row_count import tally
from lakeward.connectors.commit_protocol.upsert import ByKey
from lakeward.connectors.delta import jvm
from lakeward.platform.errors import SpecError
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_DELETE, _NEW, _OLD, _FILE = "_lw_delete", "_lw_new", "_lw_old", "_lw_file"


@dataclass(frozen=True)
class Files:
    """What a change commits.

    Attributes:
        added, removed: file actions, Java objects.
        rows: rows it applies; None: those of the added files.
    """

    added: Sequence[Any]
    removed: Sequence[Any] = ()
    rows: int | None = None


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

    def write(self, rows: DataFrame, txn: Any) -> Files:
        """Write `rows` as files of the transaction's table; nobody sees them yet."""
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
        """One write; every file there was goes."""
        return Files(write_files(rows, txn), [each.remove() for each in jvm.in_list(txn.filterFiles())])


@dataclass(frozen=True)
class Upsert(ByKey):
    """Insert, update and delete by key, the newest row of a key winning; see `ByKey`.

    Delta's own MERGE commits by itself and takes no position along, so its work is done here: the files that hold a key
    of the batch are written again with the batch in them, all others stay.
    """

    mode = "upsert"
    depends = True

    def write(self, rows: DataFrame, txn: Any) -> Files:
        """One write of the rows of the files it touches.

        Raises:
            SpecError: a key has several rows, and nothing says which is newer.
        """
        order = self.order(rows.columns)
        # The batch is read several times, and must be the same; a batch with state must run once only.
        kept = (self.newest(rows, order) if order else rows).persist()
        try:
            (count,) = tally(kept)
            if count == 0:
                return Files((), (), 0)
            if not order:
                self.one_each(kept)
            batch = self._marked(kept, txn)
            touched = self._touched(batch, txn)
            return Files(
                write_files(self._merged(batch, touched, txn), txn), [each.remove() for each in touched], count
            )
        finally:
            kept.unpersist()

    def _marked(self, kept: DataFrame, txn: Any) -> DataFrame:
        """The batch in the table's columns, and whether each row deletes its key."""
        from pyspark.sql import functions as F

        deleted = F.expr(f"({self.delete_when}) <=> true") if self.delete_when else F.lit(False)
        return fitted(kept, txn, **{_DELETE: deleted}).withColumn(_NEW, F.lit(True))

    def _touched(self, batch: DataFrame, txn: Any) -> list[Any]:
        """The files that hold a key of the batch."""
        from pyspark.sql import functions as F

        files = jvm.in_list(txn.filterFiles())
        if not files:
            return []
        by_place = {str(path): file for path, file in zip(jvm.paths_of(txn, files), files, strict=True)}
        keys = [F.col(quote(name)) for name in self.keys]
        there = jvm.rows_of(batch.sparkSession, txn, files).select(*keys, F.col("_metadata.file_path").alias(_FILE))
        same = [F.col(f"t.{quote(name)}").eqNullSafe(F.col(f"s.{quote(name)}")) for name in self.keys]
        held = there.alias("t").join(batch.select(*keys).alias("s"), same, "left_semi").select(_FILE).distinct()
        return [by_place[unquote(urlparse(row[0]).path)] for row in held.collect()]

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
            mine, theirs = F.col(f"s.{quote(self.order_by)}"), F.col(f"t.{quote(self.order_by)}")
            newer = newer | theirs.isNull() | (mine >= theirs)
        else:
            newer = newer | F.lit(True)
        takes = F.col(_NEW).isNotNull() & F.coalesce(newer, F.lit(False))
        return both.where(~(takes & F.coalesce(F.col(_DELETE), F.lit(False)))).select(
            *(
                F.when(takes, F.col(f"s.{quote(name)}")).otherwise(F.col(f"t.{quote(name)}")).alias(name)
                for name in columns
            )
        )


def write_files(rows: DataFrame, txn: Any) -> list[Any]:
    """Write `rows` by Delta's own writer, in the table's columns and types."""
    return jvm.in_list(txn.writeFiles(fitted(rows, txn)._jdf))


def fitted(rows: DataFrame, txn: Any, **more: Column) -> DataFrame:
    """`rows` in the table's columns, by name. The transaction writes whatever it is given, so this must fit.

    Args:
        more: columns beside the table's, made of `rows`.

    Raises:
        SpecError: a column is missing, is too much, or cannot be stored without a possible loss.
    """
    table, session = json.loads(txn.metadata().schemaString()), rows.sparkSession
    compared = schema_evolution.compare(rows.schema.jsonValue(), table, partial(up_casts, session))
    wrong = list(schema_evolution.differences(compared, compared.lacking, additive=False))
    if wrong:
        raise SpecError(
            "A batch has other columns than its Delta table",
            why="; ".join(wrong),
            next="change the transform, or the table: ALTER TABLE spark_catalog...",
            code="LW-3028",
        )
    kept = rows.select("*", *(column.alias(name) for name, column in more.items()))
    table["fields"] += [kept.schema[name].jsonValue() for name in more]
    return kept.to(relaxed(table))  # by name, at any depth
