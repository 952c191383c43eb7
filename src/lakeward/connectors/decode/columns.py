"""Records that come in columns: CSV as texts, Parquet with types. Every value as declared, or a reason why not.

CSV is read as text and cast here, one value at a time, because Spark's reader makes null of what it cannot read and
says so only of the whole row. A plain cast lets things pass that lose something, so it is taken only for texts of a
simple form; every other text is read by the strict rules that JSON has too (`lakeward.connectors.decode.values`).
Parquet's types are compared before it is read (`lakeward.connectors.files.headers`); here only what a type does not
promise is looked for (`lakeward.connectors.decode.typed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

from lakeward.connectors.decode import typed
from lakeward.connectors.decode.shapes import SHOWN, Shape
from lakeward.connectors.decode.token import Token
from lakeward.connectors.decode.values import any_of
from lakeward.connectors.source import ERROR, RAW, REASON
from lakeward.platform.errors import expect
from lakeward.spec.model.formats import Formats
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

DECODE = "decode"
_NOT_UTF8 = "\ufffd"
"""What Spark's reader puts in place of bytes that are not UTF-8."""
FORMATS = Formats(binary="utf8")
"""Of a file of texts: a BINARY is the bytes of its text."""


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

        names, record = self.schema.fieldNames(), F.col(self.record)
        carried, values = [F.col(quote(name)) for name in keep], self._values
        if self.corrupt is None:
            return self._apply_typed(raw, carried)
        fast = [self._fast(name).alias(value) for name, value in zip(names, values, strict=True)]
        columns = [F.col(value) for value in values]
        staged = raw.select(*carried, record, *fast).select(*carried, record, *columns, self._doubt.alias("_lw_doubt"))
        doubt, strict, bad = F.col("_lw_doubt"), F.col("_lw_strict"), F.col(ERROR).isNotNull()
        error = F.when(doubt, self._error(record)).alias(ERROR)
        read = F.when(doubt, self._shape.value(record))
        settled = staged.select(*carried, record, *columns, doubt, read.alias("_lw_strict"), error)
        texts = F.to_json(F.struct(*(record[name].alias(name) for name in names)))
        whole = F.coalesce(record[self._rest], texts)
        found = [
            F.when(doubt, strict[name]).otherwise(F.col(value)).alias(name)
            for name, value in zip(names, values, strict=True)
        ]
        return settled.select(
            *found,
            *carried,
            F.when(bad, F.lit(DECODE)).alias(REASON),
            F.col(ERROR),
            F.when(bad, whole.cast("binary")).alias(RAW),
        )

    def _apply_typed(self, raw: DataFrame, carried: Sequence[Column]) -> DataFrame:
        """The same for values that have their types: they land as they are, so only the error depends on the check."""
        from pyspark.sql import functions as F

        record, flawed = F.col(self.record), F.col("_lw_flawed")
        names, values = self.schema.fieldNames(), self._values
        # By column, not as one struct: to build it for each row costs more than the check.
        fields = [record[name].alias(value) for name, value in zip(names, values, strict=True)]
        settled = raw.select(*carried, record, *fields, typed.flawed(self.schema, record).alias("_lw_flawed"))
        named = [F.col(value).alias(name) for name, value in zip(names, values, strict=True)]
        # Nothing but ERROR needs the words: Spark leaves their long code out of the rows that land.
        words = F.array_join(typed.problems(self.schema, record, F.lit(None).cast("string")), "; ")
        return settled.select(
            *named,
            *carried,
            F.when(flawed, F.lit(DECODE)).alias(REASON),
            F.when(flawed, words).alias(ERROR),
            F.when(flawed, F.to_json(F.struct(*named)).cast("binary")).alias(RAW),
        )

    @property
    def _rest(self) -> str:
        """The field with the text of a row that has another number of values."""
        return expect(self.corrupt, "the field of such a row")

    @property
    def _values(self) -> list[str]:
        return [f"_lw_{index}" for index in range(len(self.schema.fields))]

    @cached_property
    def _shape(self) -> Shape:
        from pyspark.sql import functions as F

        return Shape(
            self.schema, FORMATS, lambda text: Token(F.trim(text), F.lit(True), F.lit(True)), lambda text: text
        )

    def _fast(self, name: str) -> Column:
        from pyspark.sql import functions as F

        value, kind = F.col(self.record)[name], self.schema[name].dataType
        if kind.typeName() == "string":
            return value
        return self._shape.of(kind).rule.quick(value)

    @cached_property
    def _doubt(self) -> Column:
        """Whether a row is to be read strictly."""
        from pyspark.sql import functions as F

        record = F.col(self.record)
        found: list[Column] = [record[self._rest].isNotNull()]
        for field, value in zip(self.schema.fields, self._values, strict=True):
            if not field.nullable:
                found.append(F.col(value).isNull())
            text = record[field.name]
            found.append(F.contains(text, F.lit(_NOT_UTF8)))
            if field.dataType.typeName() != "string":
                found.append(text.isNotNull() & F.col(value).isNull())
        return any_of(found)

    def _error(self, record: Column) -> Column:
        """Why a record is bad, null when it is good."""
        from pyspark.sql import functions as F

        names = self.schema.fieldNames()
        words = f"another number of values than the {len(names)} columns"
        texts = F.array(*(F.struct(F.lit(name).alias("name"), record[name].alias("text")) for name in names))
        broken = F.filter(texts, lambda each: F.contains(each["text"], F.lit(_NOT_UTF8)))
        said = F.transform(
            broken, lambda each: F.concat(each["name"], F.lit(": not UTF-8: "), F.substring(each["text"], 1, SHOWN))
        )
        problems = self._shape.problems(record, F.lit(None).cast("string"))
        return F.when(record[self._rest].isNotNull(), F.lit(words)).otherwise(
            F.coalesce(F.nullif(F.array_join(said, "; "), F.lit("")), F.nullif(F.array_join(problems, "; "), F.lit("")))
        )
