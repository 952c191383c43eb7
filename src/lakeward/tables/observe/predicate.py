"""A partition of an Iceberg table as an SQL condition and as a readable name.

The condition calls Iceberg's own transform (`lake.system.months(ts) = 516`), so it selects exactly the partition: no
time zone or rounding can move its bounds. Iceberg plans it to whole files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lakeward.platform.runtime import CATALOG
from lakeward.spec.sql.statements import quote, quote_text

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema

EPOCH = date(1970, 1, 1)
_MARCH_OF_YEAR_0, _ERA = 719_468, 146_097  # days from 0000-03-01 to 1970-01-01, and in 400 years
_NUMBERED = {"bucket": "num_buckets", "truncate": "width"}
# A call of Iceberg's functions; else a name or a text, in which the same characters are no call.
_NAMED = re.compile(rf"(?P<ours>`{CATALOG}`\.`system`\.(?=`\w+`\())|`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'", re.DOTALL)
_TIMES = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


def partition_name(spec: PartitionSpec, values: Sequence[Any], only: Collection[int] | None = None) -> str:
    """`field=value/field=value`, with readable values; empty for an unpartitioned spec. `only`: the fields at these
    places.
    """
    return "/".join(
        f"{field.name}={_readable(str(field.transform), value)}"
        for at, (field, value) in enumerate(zip(spec.fields, values, strict=True))
        if str(field.transform) != "void" and (only is None or at in only)
    )


def voided(specs: Iterable[PartitionSpec]) -> frozenset[int]:
    """The ids of the columns whose partition field was dropped in a v1 table: the field stays, as `void`."""
    return frozenset(field.source_id for spec in specs for field in spec.fields if str(field.transform) == "void")


def partition_condition(
    spec: PartitionSpec, schema: Schema, values: Sequence[Any], voids: Collection[int] = ()
) -> str | None:
    """The condition that selects the partition; empty for an unpartitioned spec, None if SQL cannot express it.

    Args:
        voids: of `voided`. Iceberg compares a call of a transform on such a column with the void field too, by the
            column's type, and fails.
    """
    parts = [_condition(field, schema, value, voids) for field, value in zip(spec.fields, values, strict=True)]
    if any(part is None for part in parts):
        return None
    return " AND ".join(part for part in parts if part)


def day_text(days: int) -> str:
    """Days since 1970 as a date, as Spark writes and reads it: `2013-01-31`, `+57868-05-02` after the year 9999.

    Python's dates end there, and tables have such days: milliseconds that were taken for seconds.
    """
    # The civil calendar in eras of 400 years, which begin on 1 March: the leap day is the last day of a year.
    era, day = divmod(days + _MARCH_OF_YEAR_0, _ERA)
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    month += 3 if month < 10 else -9
    year += 400 * era + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _path(schema: Schema, field_id: int) -> Iterator[str]:
    """The names that lead to a field, outermost first. Names may have dots: the text of a path does not tell."""
    parent = schema._lazy_id_to_parent.get(field_id)
    if parent is not None:
        yield from _path(schema, parent)
    yield schema.find_field(field_id).name


def _condition(field: PartitionField, schema: Schema, value: Any, voids: Collection[int]) -> str | None:
    transform = str(field.transform)
    if transform == "void":
        return ""
    if schema.find_column_name(field.source_id) is None:
        return None  # the source column was dropped
    name = ".".join(quote(part) for part in _path(schema, field.source_id))
    if value is None:
        return f"{name} IS NULL"
    kind = str(schema.find_type(field.source_id))
    if transform == "identity":
        literal = _literal(kind, value)
        return None if literal is None else f"{name} = {literal}"
    if field.source_id in voids:
        return None
    base = transform.split("[")[0]
    if base in _NUMBERED:
        number = getattr(field.transform, _NUMBERED[base])
        literal = str(int(value)) if base == "bucket" else _literal(kind, value)
        return None if literal is None else f"{_system(base)}({int(number)}, {name}) = {literal}"
    if base in _TIMES:
        literal = f"DATE {quote_text(day_text(_days(value)))}"
        return f"{_system(_TIMES[base])}({name}) = {literal if base == 'day' else int(value)}"
    return None


def in_catalog(condition: str, catalog: str) -> str:
    """A condition of `partition_condition` for a lake's catalog of this name.

    Conditions are recorded with the default name: an unchanged table keeps them when the catalog gets another one.
    """
    return _NAMED.sub(lambda found: f"{quote(catalog)}.{quote('system')}." if found["ours"] else found[0], condition)


def _system(function: str) -> str:
    return f"{quote(CATALOG)}.{quote('system')}.{quote(function)}"


def _days(value: Any) -> int:
    return (value - EPOCH).days if isinstance(value, date) else int(value) if isinstance(value, int) else 0


def _literal(kind: str, value: Any) -> str | None:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if kind == "date":
        return f"DATE {quote_text(day_text(_days(value)))}"
    if kind in ("int", "long") and isinstance(value, int):
        return str(value)
    if kind.startswith("decimal") and isinstance(value, Decimal):
        return f"CAST({quote_text(str(value))} AS {kind.upper()})"
    if kind == "string" and isinstance(value, str):
        return quote_text(value)
    return None  # floats, binaries, times: equality may select wrong files


def _readable(transform: str, value: Any) -> str:
    if value is None:
        return "null"
    if value == "null":
        return "'null'"  # the text, not NULL
    if isinstance(value, int) and not isinstance(value, bool):
        if transform == "year":
            return f"{1970 + value}"
        if transform == "month":
            return f"{1970 + value // 12}-{value % 12 + 1:02d}"
        if transform == "day":
            return day_text(value)
        if transform == "hour":
            return f"{day_text(value // 24)}-{value % 24:02d}"
    if isinstance(value, date | datetime | Decimal | UUID | int | float | str | bool):
        return str(value)
    return repr(value)
