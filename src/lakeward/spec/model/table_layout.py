"""Table layout: partition fields, and the sort order within a partition."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from lakeward.spec.model.types import Written
from lakeward.spec.sql.statements import quote

_EXPECTED = "a partition field is a column, days(column), months(column), bucket(16, column) or truncate(4, column)"
_FIELD = re.compile(
    r"\s*(?:(?P<transform>[A-Za-z]+)\s*\(\s*(?:(?P<number>[0-9]+)\s*,\s*)?(?P<inner>[A-Za-z_][A-Za-z0-9_]*)\s*\)"
    r"|(?P<column>[A-Za-z_][A-Za-z0-9_]*))\s*"
)
_MOST = 2**31 - 1  # Iceberg stores it as an int
_TIMES = {"year": "years", "month": "months", "day": "days", "hour": "hours", "date": "days"}


class PartitionField(str):
    """One partition field: a column or `years|months|days|hours(column)`, `bucket(16, column)`, `truncate(4, column)`.

    Attributes:
        transform: `identity`, `years`, `months`, `days`, `hours`, `bucket` or `truncate`.
        column: the column's name.
        number: the buckets or the width; None for the others.
    """

    transform: str
    column: str
    number: int | None

    def __new__(cls, text: str) -> PartitionField:
        match = _FIELD.fullmatch(text) if isinstance(text, str) else None
        if not match:
            raise ValueError(_EXPECTED)
        named = (match["transform"] or "identity").lower()
        transform = _TIMES.get(named, named)
        if transform not in ("identity", "years", "months", "days", "hours", "bucket", "truncate"):
            raise ValueError(_EXPECTED)
        if (transform in ("bucket", "truncate")) != (match["number"] is not None):
            raise ValueError(_EXPECTED)
        if match["number"] is not None and not (len(match["number"]) <= 10 and 1 <= int(match["number"]) <= _MOST):
            raise ValueError(f"the number in {transform}(number, column) is 1 to {_MOST}")
        field = super().__new__(cls, text)
        field.transform = transform
        field.column = match["inner"] or match["column"]
        field.number = int(match["number"]) if match["number"] else None
        return field

    @property
    def kind(self) -> tuple[str, str]:
        """The kind of partition, which a table may have once per column: by value, time, bucket or prefix."""
        return self.column.lower(), "time" if self.transform in _TIMES.values() else self.transform

    def __reduce__(self) -> tuple[object, ...]:
        return PartitionField, (str(self),)

    @property
    def sql(self) -> str:
        """The field as Spark SQL writes it in PARTITIONED BY, identifiers quoted."""
        column = quote(self.column)
        if self.transform == "identity":
            return column
        return f"{self.transform}({f'{self.number}, ' if self.number is not None else ''}{column})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls, serialization=core_schema.plain_serializer_function_ser_schema(str, when_used="json")
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "examples": ["days(time_hour)", "origin", "bucket(16, id)"]}


_NAME = r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*"
_KEY = rf"{_NAME}(?: +(?:ASC|DESC|asc|desc))?(?: +(?:NULLS +(?:FIRST|LAST)|nulls +(?:first|last)))?"
_NAMES = rf"{_NAME}(?: *, *{_NAME})*"


class SortOrder(Written):
    """A sort order: `carrier, ts DESC NULLS LAST`, or `zorder(origin, dest)`."""

    pattern = re.compile(rf"(?:zorder|ZORDER) *\( *{_NAMES} *\)|{_KEY}(?: *, *{_KEY})*")
    syntax = "an order is columns, 'carrier, ts DESC NULLS LAST', or 'zorder(origin, dest)'"
    examples: ClassVar[list[str]] = ["carrier, ts DESC", "zorder(origin, dest)"]

    def __new__(cls, text: str) -> Self:
        written = super().__new__(cls, text)
        named = written.columns
        twice = next((key for key in named if named.count(key) > 1), None)
        if twice is not None:
            raise ValueError(f"{twice} is in the order twice")
        return written

    @property
    def zorder(self) -> bool:
        """Whether it is a z-order, where a filter on any of the columns reads few files."""
        return "(" in self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, the most significant first."""
        inner = self[self.index("(") + 1 : -1] if self.zorder else str(self)
        return tuple(part.split()[0] for part in inner.split(","))

    @property
    def iceberg(self) -> str:
        """The order for `rewrite_data_files`, which requires direction and null order of each key."""
        return f"zorder({', '.join(self.columns)})" if self.zorder else ", ".join(map(_whole, self.split(",")))


def _whole(key: str) -> str:
    name, *rest = key.split()
    words = [word.upper() for word in rest]
    direction = "DESC" if "DESC" in words else "ASC"
    nulls = words[-1] if "NULLS" in words else ("LAST" if direction == "DESC" else "FIRST")  # Spark's defaults
    return f"{name} {direction} NULLS {nulls}"
