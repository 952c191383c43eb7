"""Maps Spark types to PostgreSQL types, and formats values for `COPY ... FROM STDIN`.

Values are sent in COPY's text format so that PostgreSQL reads back exactly the same value: a timestamp with its offset,
years with their era, floats by their digits, bytes in hex, NULL as `\\N`. A Spark type without a PostgreSQL type of the
same values is refused with the column's name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lakeward.connectors.row_json import TIMES

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

NULL = "\\N"
_SIMPLE = {
    "boolean": "boolean", "tinyint": "smallint", "smallint": "smallint", "int": "integer", "bigint": "bigint",
    "float": "real", "double": "double precision", "string": "text", "binary": "bytea", "date": "date",
    "timestamp": "timestamp with time zone", "timestamp_ntz": "timestamp without time zone", "variant": "jsonb",
}  # fmt: skip
_NESTED = ("array<", "map<", "struct<")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_WIDER = {
    "tinyint": ("smallint", "integer", "bigint"), "smallint": ("smallint", "integer", "bigint"),
    "int": ("integer", "bigint", "double precision"), "bigint": ("bigint",),
    "float": ("real", "double precision"),
    # These types store the text unchanged or refuse the row.
    "string": ("text", "character varying", "citext", "uuid", "json", "jsonb", "inet", "cidr"),
    "variant": ("jsonb", "json"),
}  # fmt: skip
_TIMES = re.compile(r"(timestamp)(?:\((\d)\))? (with|without) time zone")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_NUMERIC = re.compile(r"numeric(?:\((\d+),(-?\d+)\))?")
_STAMP = "yyyyyy-MM-dd HH:mm:ss.SSSSSS"


def postgres_type(kind: str) -> str | None:
    """The PostgreSQL type of a new column for a Spark type (`simpleString`); None if no type has the same values."""
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        return f"numeric({decimal[1]},{decimal[2]})"
    return "jsonb" if kind.startswith(_NESTED) else _SIMPLE.get(kind)


def fits(kind: str, column: str, *, enum: bool = False) -> bool:
    """Whether a PostgreSQL column of type `column` (by `format_type`) stores every value of a Spark type unchanged."""
    base = column.partition("(")[0]
    if kind == "string":
        return enum or base in _WIDER["string"]
    if kind.startswith(_NESTED):
        return column in ("jsonb", "json")
    if (times := _TIMES.fullmatch(column)) is not None:
        whole = f"{times[1]} {times[3]} time zone"
        return whole == _SIMPLE.get(kind) and times[2] in (None, "6")
    if (numeric := _NUMERIC.fullmatch(column)) is not None:
        return _in_numeric(kind, numeric)
    return column in _WIDER.get(kind, ()) or column == _SIMPLE.get(kind)


def _in_numeric(kind: str, numeric: re.Match[str]) -> bool:
    decimal = _DECIMAL.fullmatch(kind)
    whole, scale = (int(decimal[1]) - int(decimal[2]), int(decimal[2])) if decimal else (_DIGITS.get(kind, 0), 0)
    if not whole and not decimal:
        return False
    if numeric[1] is None:
        return True
    return int(numeric[2]) >= scale and int(numeric[1]) - int(numeric[2]) >= whole


def copy_text(name: str, kind: DataType, column: str) -> Column:
    """A Spark column as text for COPY.

    Args:
        name, kind: the name and type of the Spark column.
        column: the type of the PostgreSQL column.
    """
    from pyspark.sql import functions as F

    from lakeward.spec.sql.statements import quote

    value, simple = F.col(quote(name)), kind.simpleString()
    if simple == "binary":
        text = F.concat(F.lit("\\\\x"), F.hex(value))
    elif simple == "date":  # as a Julian day: formatting it as text would apply a time zone
        text = F.concat(F.lit("J"), (F.unix_date(value).cast("bigint") + 2_440_588).cast("string"))
    elif simple == "timestamp":
        text = F.date_format(value, f"{_STAMP}XXXXX G")
    elif simple == "timestamp_ntz":
        days = F.unix_date(value.cast("date")).cast("bigint") + 2_440_588
        text = F.concat(
            F.lit("J"), days.cast("string"), F.lit(" "), F.split_part(value.cast("string"), F.lit(" "), F.lit(2))
        )
    elif simple.startswith(_NESTED) or simple == "variant":
        text = _escaped(F.to_json(value, _JSON))
    elif simple == "float" and column == "double precision":
        text = value.cast("double").cast("string")
    elif simple == "string":
        text = _escaped(value)
    else:
        text = value.cast("string")
    return F.coalesce(text, F.lit(NULL))


_JSON = TIMES | {"ignoreNullFields": "false"}


def _escaped(text: Column) -> Column:
    from pyspark.sql import functions as F

    for character, escape in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = F.replace(text, F.lit(character), F.lit(escape))
    return text
