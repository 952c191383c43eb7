"""What a batch does to a Delta table, as files written inside a transaction that is not committed yet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lakeward.connectors.delta import java
from lakeward.errors import SpecError
from lakeward.spec.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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


def write_files(rows: DataFrame, txn: Any) -> list[Any]:
    """Write `rows` by Delta's own writer, in the table's columns and types."""
    return java.in_list(txn.writeFiles(fitted(rows, txn)._jdf))


def fitted(rows: DataFrame, txn: Any) -> DataFrame:
    """`rows` in the table's columns, by name. The transaction writes whatever it is given, so this must fit.

    Raises:
        SpecError: a column is missing, is too much, or cannot be stored without a possible loss.
    """
    from pyspark.sql import functions as F  # noqa: N812  # the name everybody knows it by
    from pyspark.sql.types import StructType

    table = StructType.fromJson(json.loads(txn.metadata().schemaString()))
    given = {field.name: field.dataType for field in rows.schema.fields}
    has = {field.name: field.dataType for field in table.fields}
    wrong = [f"not in the table: {name}" for name in given if name not in has]
    wrong += [f"only in the table: {name}" for name in has if name not in given]
    wrong += [
        f"{name} is {given[name].simpleString()}, the table has {kind.simpleString()}"
        for name, kind in has.items()
        if name in given and not _fits(rows, given[name].json(), kind.json())
    ]
    if wrong:
        raise SpecError(
            "A batch has other columns than its Delta table",
            why="; ".join(wrong),
            next="change the transform, or the table: ALTER TABLE spark_catalog...",
        )
    return rows.select(*(F.col(quote(name)).cast(kind).alias(name) for name, kind in has.items()))


def _fits(rows: DataFrame, given: str, has: str) -> bool:
    if given == has:
        return True
    jvm: Any = rows.sparkSession._jvm
    parse = jvm.org.apache.spark.sql.types.DataType.fromJson
    return bool(jvm.org.apache.spark.sql.catalyst.expressions.Cast.canUpCast(parse(given), parse(has)))
