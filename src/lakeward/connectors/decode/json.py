"""Declared JSON: every record either has all its values, exactly as sent, or a reason why not. Never a silent null.

Two ways of reading. The *fast* way (`reader`) takes the plain form of each type in one pass over a record's bytes. A
record with anything else is *in doubt*, and read again, *strictly*: Spark's `from_json` gives the text of each value
(`token`), and exact rules read it, at any depth (`values`, `shapes`). What the rules accept lands.

The strict way parses inside an envelope, `{"<mark>":[<value>,{"<mark>":true}]}`: whatever does not end where the value
should end breaks the envelope or changes its length.

Accepted beyond the types, because nothing is lost: any JSON value where STRING is declared (its text is kept), whole
numbers where DOUBLE is, keys that are not declared, with anything in them, the last of two equal keys. See
docs/reference/decode.md.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from lakeward.connectors.decode import reader
from lakeward.connectors.decode.first_bytes import misread
from lakeward.connectors.decode.shapes import SHOWN, Shape, containers, let
from lakeward.connectors.decode.token import LONE_SURROGATE, Marks
from lakeward.connectors.source import DOUBT, ERROR, RAW, REASON, VALUE
from lakeward.platform.errors import SpecError
from lakeward.spec.model.formats import Formats
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

DECODE = "decode"
"""The reason in quarantine of a record that could not be decoded; the detail says how."""
TOO_LARGE = "too_large"
"""The reason of one that is longer than the source may have it."""
KEPT_BYTES = 1 << 20
"""A bad record's bytes are kept up to here; its position says where the rest is."""

MAX_DEPTH = 1_000
"""Levels of objects and arrays in a record, as Jackson limits them in the fast way."""
MAX_NAME = 50_000
"""Characters of a field's name, as Jackson limits them; no option of Spark raises it."""

_STRINGS = r'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"\s*+:?'
"""Each string of a JSON text in turn; a name is followed by a colon."""
_CORRUPT = "_lw_corrupt"
_ANY_DEPTH = 2**31 - 3
_SHOWN = 5
"""Problems of a record that are named."""


@dataclass(frozen=True)
class JsonDecoder:
    """Decodes `_value` by a declared schema.

    Args:
        ddl: the columns, e.g. `carrier STRING, dep_delay DOUBLE NOT NULL`.
        max_bytes: the longest value that is decoded; None: any.
        keep: columns of the raw records carried along unchanged, e.g. the position columns.
        formats: how times, days and decimals are written.
    """

    ddl: str
    max_bytes: int | None = None
    keep: tuple[str, ...] = ()
    formats: Formats = field(default_factory=Formats)

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
        for column in schema.fields:
            if _holds_byte(column.dataType):
                raise SpecError(
                    f"decode: column {column.name} cannot be TINYINT",
                    why="128 to 255 in JSON would become negative numbers without a word",
                    next=f"declare it as {column.name} SMALLINT or INT",
                    code="LW-3027",
                )
        return schema

    def apply(self, raw: DataFrame) -> DataFrame:
        """Decode raw records.

        Args:
            raw: has `_value` (binary) and the columns of `keep`.

        Returns:
            The declared columns, those of `keep`, and REASON, ERROR, RAW. Rows are neither dropped nor added. Of a bad
            one RAW is the whole value and ERROR still null: see `explain`.
        """
        return self._read(raw).select(*self._carried, *self._settled).select(*self._decoded)

    def apply_fast(self, raw: DataFrame) -> DataFrame:
        """Decode raw records the fast way alone: the plan of a batch is much smaller without the strict way.

        Returns:
            As `apply`, but a record in doubt has REASON `DOUBT`, its bytes as RAW, and no values.
        """
        from pyspark.sql import functions as F

        record, doubt = F.col("_lw_record"), F.col("_lw_record").isNull()
        bad = F.col(VALUE).isNull() | ~F.is_valid_utf8(F.col(VALUE).cast("string"))
        return self._read(raw).select(
            *(record[name].alias(name) for name in self.schema.fieldNames()),
            *self._carried,
            F.when(doubt, F.coalesce(self._reason(bad), F.lit(DOUBT))).alias(REASON),
            F.lit(None).cast("string").alias(ERROR),
            F.when(doubt, F.col(VALUE)).alias(RAW),
        )

    def apply_strict(self, doubtful: DataFrame) -> DataFrame:
        """Decode the rows that `apply_fast` left in doubt. They have `keep` and RAW; returned as by `apply`."""
        from pyspark.sql import functions as F

        again = doubtful.select(*self._carried, F.col(RAW).alias(VALUE))
        read = again.select(*self._carried, F.col(VALUE), self._strict.alias("_lw_strict"))
        strict = F.col("_lw_strict")
        bad = strict.isNull()
        return read.select(
            *(strict[name].alias(name) for name in self.schema.fieldNames()),
            *self._carried,
            self._reason(bad).alias(REASON),
            F.lit(None).cast("string").alias(ERROR),
            F.when(bad, F.col(VALUE)).alias(RAW),
        )

    def _read(self, raw: DataFrame) -> DataFrame:
        """The records that the fast way takes; null for one in doubt."""
        return raw.select(*self._carried, *self._fast)

    def explain(self, bad: DataFrame) -> DataFrame:
        """Say of bad records what is wrong with them: `keep`, REASON, ERROR and RAW, which is cut to `KEPT_BYTES`.

        They are parsed once more for it, strictly. To have the words ready in every row costs more than to decode it.
        """
        from pyspark.sql import functions as F

        carried = [*self._carried, F.col(REASON)]
        again = bad.select(*carried, F.col(RAW).alias(VALUE)).select(
            *carried, F.col(VALUE), self._text.alias("_lw_text")
        )
        strict = self._envelope(self._marks.marked(F.col("_lw_text")), self._shape.texts())
        parsed = again.select(*carried, F.col(VALUE), F.col("_lw_text"), strict.alias("_lw_p"))
        apart = parsed.select(*carried, F.col(VALUE), F.col("_lw_text"), *self._apart(F.col("_lw_p")))
        return apart.withColumn("_lw_beyond", F.when(~F.col("_lw_whole"), self._beyond(F.col("_lw_text")))).select(
            *carried, self._error.alias(ERROR), F.substring(F.col(VALUE), 1, KEPT_BYTES).alias(RAW)
        )

    @cached_property
    def _mark(self) -> str:
        # A writer of records cannot know it, so no record can close the envelope by itself.
        return "end_" + secrets.token_hex(8)

    @cached_property
    def _half(self) -> str:
        """Replaces half of a surrogate pair while a record is read strictly. No writer can know it either."""
        return "half_" + secrets.token_hex(8)

    @cached_property
    def _marks(self) -> Marks:
        return Marks.drawn()

    @cached_property
    def _shape(self) -> Shape:
        return Shape(self.schema, self.formats, self._marks.token, self._marks.plain)

    # Expressions belong to no session: they are made once, each call to the JVM costs, and a batch would make hundreds.
    @cached_property
    def _carried(self) -> list[Column]:
        from pyspark.sql import functions as F

        return [F.col(quote(column)) for column in self.keep]

    @cached_property
    def _text(self) -> Column:
        """The record as text; null if it is longer than allowed: what is not to be decoded is not parsed either."""
        from pyspark.sql import functions as F

        text = F.col(VALUE).cast("string")
        return text if self.max_bytes is None else F.when(~self._too_large, text)

    @cached_property
    def _fast(self) -> list[Column]:
        from pyspark.sql import functions as F

        found = reader.record(F.col(VALUE), self.schema, self.formats, self.max_bytes)
        return [F.col(VALUE), found.alias("_lw_record")]

    def _envelope(self, text: Column, schema: Any, depth: int = MAX_DEPTH) -> Column:
        """The record, of at most `depth` levels, parsed by a schema, inside the envelope."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import ArrayType, BooleanType, StringType, StructField, StructType

        element = StructType([*schema.fields, StructField(self._mark, BooleanType())])
        envelope = StructType([StructField(self._mark, ArrayType(element)), StructField(_CORRUPT, StringType())])
        options = {
            "mode": "PERMISSIVE",
            "columnNameOfCorruptRecord": _CORRUPT,
            "allowNonNumericNumbers": "false",
            "allowSingleQuotes": "false",
            "maxNestingDepth": str(depth + 2),  # the envelope has two levels itself
        }
        wrapped = F.concat(F.lit(f'{{"{self._mark}":['), text, F.lit(f',{{"{self._mark}":true}}]}}'))
        return F.from_json(wrapped, envelope, options)

    def _apart(self, parsed: Column) -> list[Column]:
        """Of a parsed envelope: the record, whether a value did not fit, whether it is one whole value."""
        from pyspark.sql import functions as F

        elements = parsed[self._mark]
        ended = F.try_element_at(elements, F.lit(2))[self._mark].eqNullSafe(F.lit(True))
        return [
            F.try_element_at(elements, F.lit(1)).alias("_lw_record"),
            parsed[_CORRUPT].isNotNull().alias("_lw_broken"),
            F.coalesce((F.size(elements) == 2) & ended, F.lit(False)).alias("_lw_whole"),
        ]

    @cached_property
    def _settled(self) -> list[Column]:
        """The record, and what the strict way found of one in doubt."""
        from pyspark.sql import functions as F

        record = F.col("_lw_record")
        strict = F.when(record.isNull() & F.is_valid_utf8(self._text), self._strict)
        return [F.col(VALUE), record, strict.alias("_lw_strict")]

    @property
    def _strict(self) -> Column:
        """The record, null if it is bad. Lambdas, because they keep it out of the code that every row runs."""
        from pyspark.sql import functions as F

        text = self._text
        halved = text.rlike(LONE_SURROGATE)
        whole_text = F.when(halved, F.regexp_replace(text, F.lit(LONE_SURROGATE), F.lit(f"$1{self._half}")))
        envelope = self._envelope(self._marks.marked(F.coalesce(whole_text, text)), self._shape.texts())

        def read(parsed: Column) -> Column:
            record, broken, whole = self._apart(parsed)
            lost = halved & F.to_json(record).contains(self._half)  # what is not declared has none of it
            return F.when(whole & ~broken & ~lost, let(record, found))

        def found(record: Column) -> Column:
            return let(
                F.struct(record.alias("t"), self._shape.value(record).alias("r")),
                lambda both: F.when(~self._shape.unfit(both["t"], both["r"]), both["r"]),
            )

        return let(envelope, read)

    @cached_property
    def _decoded(self) -> list[Column]:
        from pyspark.sql import functions as F

        record, strict = F.col("_lw_record"), F.col("_lw_strict")
        bad = record.isNull() & strict.isNull()
        return [
            *(F.coalesce(record, strict)[name].alias(name) for name in self.schema.fieldNames()),
            *self._carried,
            self._reason(bad).alias(REASON),
            F.lit(None).cast("string").alias(ERROR),
            F.when(bad, F.col(VALUE)).alias(RAW),
        ]

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
    def _error(self) -> Column:
        """Why a record is bad. Checks stand in the order in which they explain most."""
        from pyspark.sql import functions as F

        value, text = F.col(VALUE), F.col(VALUE).cast("string")
        record, broken, whole = F.col("_lw_record"), F.col("_lw_broken"), F.col("_lw_whole")
        case = F.when(value.isNull(), F.lit("no value (a tombstone)"))
        if self.max_bytes is not None:
            size = F.format_number(F.octet_length(value), 0)
            words = f" bytes, more than decode: max_bytes: {self.max_bytes:,}"
            case = case.when(self._too_large, F.concat(size, F.lit(words)))
        for wrong, meaning in misread(value):
            case = case.when(wrong, meaning)
        case = case.when(~F.is_valid_utf8(text), F.lit("not UTF-8"))
        case = case.when(~whole & F.trim(text).startswith("["), F.lit("an array, not one JSON object"))
        case = case.when(~whole, F.coalesce(F.col("_lw_beyond"), F.lit("not one JSON object")))
        case = case.when(~broken & record.isNull(), F.lit("null, not a JSON object"))
        problems = self._shape.problems(record, F.lit(None).cast("string"))
        named = F.nullif(F.concat_ws("; ", F.slice(problems, 1, _SHOWN)), F.lit(""))
        half = F.when(text.rlike(LONE_SURROGATE), F.lit("half of a surrogate pair (\\ud800 to \\udfff) in a string"))
        other = F.when(broken, F.lit("a value of another type than declared"))
        return case.otherwise(F.coalesce(F.when(broken, self._which(text)), named, half, other))

    def _beyond(self, text: Column) -> Column:
        """Which limit a record is beyond that is JSON, and not read; null if it is none of them."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        _, _, whole = self._apart(self._envelope(text, StructType(), _ANY_DEPTH))
        names = F.filter(F.regexp_extract_all(text, F.lit(_STRINGS), F.lit(0)), lambda each: each.endswith(":"))
        long = F.exists(names, lambda each: F.length(F.regexp_extract(each, r'(?s)^"(.*)"', 1)) > F.lit(MAX_NAME))
        deep = f"nested deeper than {MAX_DEPTH:,} levels, and no deeper record is read"
        return F.when(whole, F.lit(deep)).when(
            long, F.lit(f"a field name of more than {MAX_NAME:,} characters, and no longer one is read")
        )

    def _which(self, text: Column) -> Column:
        """The objects, arrays and maps that are something else in the record."""
        from pyspark.sql import functions as F

        exact, guesses = [], []
        for path, kind in containers(self.schema):
            if any("'" in name for name in path):
                continue  # such a name cannot be written in this path
            found = F.get_json_object(text, "$" + "".join(f"['{name}']" for name in path))
            name = ".".join(path)
            said = F.concat(F.lit(f"{name}: not {kind.typeName().upper()}: "), F.substring(found, 1, SHOWN))
            opening = "[" if kind.typeName() == "array" else "{"
            exact.append(F.when(found.isNotNull() & ~found.startswith(opening), said))
            if kind.typeName() != "struct":
                guesses.append(F.when(found.isNotNull(), said))
        named = [F.nullif(F.concat_ws("; ", *each), F.lit("")) for each in (exact, guesses) if each]
        return F.coalesce(*named, F.lit(None).cast("string"))


def _holds_byte(kind: Any) -> bool:
    if kind.typeName() == "byte":
        return True
    inner = [one.dataType for one in getattr(kind, "fields", [])]
    inner += [
        part for name in ("elementType", "keyType", "valueType") if (part := getattr(kind, name, None)) is not None
    ]
    return any(_holds_byte(part) for part in inner)
