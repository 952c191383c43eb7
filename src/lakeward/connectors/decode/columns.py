"""Records that come in columns: CSV as texts, Parquet with types. Every value as declared, or a reason why not.

CSV is read as text and cast here, one value at a time, because Spark's reader makes null of what it cannot read and
says so only of the whole row. A cast itself lets things pass that lose something: the time of a DATE; and a time
without a day becomes today. Those are refused too. Parquet's types are compared before it is read
(`lakeward.connectors.files.headers`); here only what is required is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from lakeward.connectors.source import ERROR, RAW, REASON

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType

DECODE = "decode"
_DAY = r"^\s*[+-]?\d{4,7}-\d{1,2}-\d{1,2}"
_PATTERNS = {"date": _DAY + r"\s*$", "timestamp": _DAY, "timestamp_ntz": _DAY}
"""Spark casts `2013`, `12:30` and `2013-01-01 05:00` to days and times too; these are what nobody can mistake."""


@dataclass(frozen=True)
class ColumnsDecoder:
    """Decodes a struct of columns.

    Args:
        ddl: the columns.
        record: the raw column that holds the struct.
        corrupt: field of the struct with the text of a row that has another number of values; None: the values have
            their types already.
    """

    ddl: str
    record: str
    corrupt: str | None = None

    @cached_property
    def schema(self) -> StructType:
        """The declared columns."""
        from pyspark.sql.types import StructType

        return cast("StructType", StructType.fromDDL(self.ddl))

    def apply(self, raw: DataFrame, keep: Sequence[str]) -> DataFrame:
        """Decode raw records: the declared columns, those of `keep`, and REASON, ERROR, RAW."""
        from pyspark.sql import functions as F

        fields, record = self.schema.fields, F.col(self.record)
        values = [self._value(record, field).alias(field.name) for field in fields]
        staged = raw.select(*values, *keep, record)
        bad = F.col(ERROR).isNotNull()
        plain = [F.col(f"`{name}`") for name in (*(field.name for field in fields), *keep)]
        texts = F.to_json(F.struct(*(record[field.name].alias(field.name) for field in fields)))
        whole = texts if self.corrupt is None else F.coalesce(record[self.corrupt], texts)
        return staged.select(*plain, record, self._error(record).alias(ERROR)).select(
            *plain,
            F.when(bad, F.lit(DECODE)).alias(REASON),
            F.col(ERROR),
            F.when(bad, whole.cast("binary")).alias(RAW),
        )

    def _value(self, record: Column, field: StructField) -> Column:
        found = record[field.name]
        if self.corrupt is None or field.dataType.typeName() == "string":
            return found
        return found.try_cast(field.dataType)

    def _error(self, record: Column) -> Column:
        """Why a record is bad, null when it is good."""
        from pyspark.sql import functions as F

        case = F.when(F.lit(False), F.lit(""))
        if self.corrupt is not None:
            words = f"another number of values than the {len(self.schema.fields)} columns"
            case = case.when(record[self.corrupt].isNotNull(), F.lit(words))
        for field in self.schema.fields:
            value = F.col(f"`{field.name}`")
            if self.corrupt is not None:
                text = record[field.name]
                said = F.concat(F.lit(f"{field.name}: "), F.lit("{}"), F.lit(": "), F.substring(text, 1, 80))
                for wrong, words in _unfit(field.dataType, text, value):
                    case = case.when(wrong, F.replace(said, F.lit("{}"), F.lit(words)))
            if not field.nullable:
                case = case.when(value.isNull(), F.lit(f"{field.name}: required, but missing or null"))
        return case


def _unfit(kind: Any, text: Column, value: Column) -> list[tuple[Column, str]]:
    """When a text is not the value it was cast to, and the words for it."""
    from pyspark.sql import functions as F

    name, shown = kind.typeName(), kind.simpleString().upper()
    found = [(F.contains(text, F.lit("\ufffd")), "not UTF-8")]
    if name == "string":
        return found
    not_it = text.isNotNull() & value.isNull()
    if name in _PATTERNS:
        not_it = not_it | ~text.rlike(_PATTERNS[name])
    found.append((not_it, f"not {shown}"))
    if name in ("double", "float"):
        infinite = (F.abs(value) == F.lit(float("inf"))) & ~F.contains(F.lower(text), F.lit("inf"))
        found.append((infinite, f"number too large for {shown}"))
    return found
