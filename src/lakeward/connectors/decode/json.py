"""Declared JSON: every record either has all its values, or a reason why not. Never a silent null.

Spark's `from_json` alone lets much pass: text after the object is ignored, an array is taken for its first element,
malformed UTF-8 is replaced, a tombstone becomes a row of nulls. So the value is parsed inside an envelope,
`{"<mark>":[<value>,{"<mark>":true}]}`: whatever does not end where the value should end breaks the envelope or changes
its length. The parser says in the corrupt-record column when any field, at any depth, had a value of another type.

Accepted, because nothing is lost: any JSON value where STRING is declared (its text is kept), whole numbers where
DOUBLE is, epoch seconds where TIMESTAMP is, keys that are not declared. Not accepted, unlike Spark's defaults: NaN,
single quotes, numbers too large for DOUBLE.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from lakeward.connectors.source import ERROR, RAW, REASON, VALUE
from lakeward.platform.errors import SpecError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

DECODE = "decode"
"""The reason in quarantine of a record that could not be decoded; the detail says how."""
TOO_LARGE = "too_large"
"""The reason of one that is longer than the source may have it."""
KEPT_BYTES = 1 << 20
"""A bad record's bytes are kept up to here; its position says where the rest is."""

_CORRUPT = "_lw_corrupt"


@dataclass(frozen=True)
class JsonDecoder:
    """Decodes `_value` by a declared schema.

    Args:
        ddl: the columns, e.g. `carrier STRING, dep_delay DOUBLE NOT NULL`.
        max_bytes: the longest value that is decoded; None: any.
        keep: columns of the raw records carried along unchanged, e.g. the position columns.
    """

    ddl: str
    max_bytes: int | None = None
    keep: tuple[str, ...] = ()

    @cached_property
    def schema(self) -> StructType:
        """The declared columns.

        Raises:
            SpecError: Spark does not know a type, or it is one that JSON numbers would wrap around in silence.
        """
        from pyspark.errors import ParseException
        from pyspark.sql.types import StructType

        try:
            schema = cast(StructType, StructType.fromDDL(self.ddl))
        except ParseException as error:
            raise SpecError(
                "decode: json: is not a list of columns", why=str(error).splitlines()[0], code="LW-3026"
            ) from None
        for field in schema.fields:
            if _holds_byte(field.dataType):
                raise SpecError(
                    f"decode: column {field.name} cannot be TINYINT",
                    why="128 to 255 in JSON would become negative numbers without a word",
                    next=f"declare it as {field.name} SMALLINT or INT",
                    code="LW-3027",
                )
        return schema

    @cached_property
    def _mark(self) -> str:
        # Nobody who writes records can know it, so no record can close the envelope by itself.
        return "end_" + secrets.token_hex(8)

    def apply(self, raw: DataFrame) -> DataFrame:
        """Decode raw records.

        Args:
            raw: has `_value` (binary) and the columns of `keep`.

        Returns:
            The declared columns, those of `keep`, and REASON, ERROR, RAW. Rows are neither dropped nor added. Of a bad
            one RAW is the whole value and ERROR still null: see `explain`.
        """
        return self._parsed(raw, self._kept).select(*self._judged).select(*self._decoded)

    def explain(self, bad: DataFrame) -> DataFrame:
        """Say of bad records what is wrong with them: `keep`, REASON, ERROR and RAW, which is cut to `KEPT_BYTES`.

        They are parsed once more for it. To have the words ready in every row costs more than to decode it: the code
        Spark makes of them is too long for the JVM to compile.
        """
        from pyspark.sql import functions as F

        kept = [*self._kept, F.col(REASON)]
        again = bad.select(*kept, F.col(RAW).alias(VALUE))
        return self._parsed(again, kept).select(
            *kept, self._error().alias(ERROR), F.substring(F.col(VALUE), 1, KEPT_BYTES).alias(RAW)
        )

    def _parsed(self, raw: DataFrame, kept: list[Column]) -> DataFrame:
        """`kept`, the value, the parsed record, whether a field did not fit, whether it is one whole value."""
        return raw.select(*kept, *self._parse).select(*kept, *self._taken_apart)

    # Expressions belong to no session: they are made once, each call to the JVM costs, and a batch would make hundreds.
    @cached_property
    def _fields(self) -> list[Column]:
        from pyspark.sql import functions as F

        return [F.col("_lw_record")[field.name].alias(field.name) for field in self.schema.fields]

    @cached_property
    def _kept(self) -> list[Column]:
        from pyspark.sql import functions as F

        return [F.col(f"`{column}`") for column in self.keep]

    @cached_property
    def _taken_apart(self) -> list[Column]:
        from pyspark.sql import functions as F

        elements = F.col(f"_lw_p.{self._mark}")
        ended = F.try_element_at(elements, F.lit(2))[self._mark].eqNullSafe(F.lit(True))
        return [
            F.col(VALUE),
            F.try_element_at(elements, F.lit(1)).alias("_lw_record"),
            F.col(f"_lw_p.{_CORRUPT}").isNotNull().alias("_lw_broken"),
            F.coalesce((F.size(elements) == 2) & ended, F.lit(False)).alias("_lw_whole"),
        ]

    @cached_property
    def _judged(self) -> list[Column]:
        from pyspark.sql import functions as F

        return [*self._kept, F.col(VALUE), F.col("_lw_record"), self._bad.alias("_lw_bad")]

    @cached_property
    def _decoded(self) -> list[Column]:
        from pyspark.sql import functions as F

        bad = F.col("_lw_bad")
        return [
            *self._fields,
            *self._kept,
            self._reason(bad).alias(REASON),
            F.lit(None).cast("string").alias(ERROR),
            F.when(bad, F.col(VALUE)).alias(RAW),
        ]

    @cached_property
    def _parse(self) -> list[Column]:
        from pyspark.sql import functions as F
        from pyspark.sql.types import ArrayType, BooleanType, StringType, StructField, StructType

        element = StructType([*self.schema.fields, StructField(self._mark, BooleanType())])
        envelope = StructType([StructField(self._mark, ArrayType(element)), StructField(_CORRUPT, StringType())])
        options = {
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": _CORRUPT,
            "allowNonNumericNumbers": "false",
            "allowSingleQuotes": "false",
        }
        value = F.col(VALUE).cast("string")
        if self.max_bytes is not None:
            value = F.when(~self._too_large, value)  # what is not to be decoded is not parsed either
        wrapped = F.concat(F.lit(f'{{"{self._mark}":['), value, F.lit(f',{{"{self._mark}":true}}]}}'))
        return [F.col(VALUE), F.from_json(wrapped, envelope, options).alias("_lw_p")]

    def _reason(self, bad: Column) -> Column:
        """The reason, null for a good record."""
        from pyspark.sql import functions as F

        other = F.when(bad, F.lit(DECODE))
        return other if self.max_bytes is None else F.when(self._too_large, F.lit(TOO_LARGE)).otherwise(other)

    @cached_property
    def _too_large(self) -> Column:
        from pyspark.sql import functions as F

        return F.coalesce(F.octet_length(F.col(VALUE)) > F.lit(self.max_bytes), F.lit(False))

    @cached_property
    def _bad(self) -> Column:
        """Whether a record is bad: whether `_error` has something to say."""
        from pyspark.sql import functions as F

        record, text = F.col("_lw_record"), F.col(VALUE).cast("string")
        bad = F.col(VALUE).isNull() | F.col("_lw_broken") | ~F.col("_lw_whole") | record.isNull()
        for wrong, _ in self._unfit():
            bad = bad | wrong
        return bad | ~F.is_valid_utf8(text)

    def _error(self) -> Column:
        """Why a record is bad, null when it is good. Checks stand in the order in which they explain most."""
        from pyspark.sql import functions as F

        text = F.col(VALUE).cast("string")
        record, broken, whole = F.col("_lw_record"), F.col("_lw_broken"), F.col("_lw_whole")
        case = F.when(F.col(VALUE).isNull(), F.lit("no value (a tombstone)"))
        if self.max_bytes is not None:
            size = F.format_number(F.octet_length(F.col(VALUE)), 0)
            words = f" bytes, more than decode: max_bytes: {self.max_bytes:,}"
            case = case.when(self._too_large, F.concat(size, F.lit(words)))
        case = case.when(~F.is_valid_utf8(text), F.lit("not UTF-8"))
        case = case.when(~whole & F.trim(text).startswith("["), F.lit("an array, not one JSON object"))
        case = case.when(~whole, F.lit("not one JSON object"))
        case = case.when(~broken & record.isNull(), F.lit("null, not a JSON object"))
        case = case.when(broken, self._which_field(text))
        for wrong, words in self._unfit():
            case = case.when(wrong, F.lit(words))
        return case

    def _unfit(self) -> list[tuple[Column, str]]:
        """What the parser lets pass: the condition, and what it is."""
        from pyspark.sql import functions as F

        found = []
        for field in self.schema.fields:
            value = F.col("_lw_record")[field.name]
            if field.dataType.typeName() in ("double", "float"):
                infinite = F.abs(value).eqNullSafe(F.lit(float("inf")))
                found.append((infinite, f"{field.name}: number too large for {_name(field.dataType)}"))
            if not field.nullable:
                found.append((value.isNull(), f"{field.name}: required, but missing or null"))
        return found

    def _which_field(self, text: Column) -> Column:
        """The declared fields that are null although the record has a value for them, with that value."""
        from pyspark.sql import functions as F

        simple, nested = [], []
        for field in self.schema.fields:
            found = F.get_json_object(text, "$['" + field.name.replace("'", "") + "']")
            said = F.concat(F.lit(f"{field.name}: not {_name(field.dataType)}: "), F.substring(found, 1, 80))
            null = F.col("_lw_record")[field.name].isNull()
            # A nested value keeps the parts that fit, so it looks like a good one: named only as the last guess.
            if _nested(field.dataType):
                nested.append(F.when(found.isNotNull(), said))
            else:
                simple.append(F.when(null & found.isNotNull(), said))
        guesses = [F.nullif(F.concat_ws("; ", *each), F.lit("")) for each in (simple, nested) if each]
        return F.coalesce(*guesses, F.lit("a value of another type than declared"))


def _nested(kind: DataType) -> bool:
    return kind.typeName() in ("array", "map", "struct")


def _name(kind: DataType) -> str:
    return kind.simpleString().upper() if not _nested(kind) else kind.typeName().upper()


def _holds_byte(kind: Any) -> bool:
    if kind.typeName() == "byte":
        return True
    inner = [field.dataType for field in getattr(kind, "fields", [])]
    inner += [
        part for name in ("elementType", "keyType", "valueType") if (part := getattr(kind, name, None)) is not None
    ]
    return any(_holds_byte(part) for part in inner)
