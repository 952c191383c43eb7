"""Values that have their types already (Parquet, ORC, Avro): what Spark's readers take and no table should hold.

These are a text that is not UTF-8, which other engines cannot read, a null in a required field of a struct, and a map
with a key that occurs twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeward.connectors.decode.shapes import SHOWN
from lakeward.connectors.decode.values import any_of

if TYPE_CHECKING:
    from pyspark.sql import Column


def flawed(kind: Any, value: Column) -> Column:
    """Whether a value of a type, or one inside it, has such a flaw. False costs nothing where the type cannot have one.

    Args:
        kind: a type of Spark.
    """
    from pyspark.sql import functions as F

    if not _can_be_flawed(kind):
        return F.lit(False)
    match kind.typeName():
        case "struct":
            inside = [flawed(each.dataType, value[each.name]) for each in kind.fields if _can_be_flawed(each.dataType)]
            required = [each.name for each in kind.fields if not each.nullable]
            return any_of([*inside, *(value[name].isNull() & value.isNotNull() for name in required)])
        case "array":
            return _any_flawed(value, kind.elementType)
        case "map":
            keys, values = (F.map_keys(value), kind.keyType), (F.map_values(value), kind.valueType)
            inside = [_any_flawed(*each) for each in (keys, values) if _can_be_flawed(each[1])]
            return any_of([*inside, _twice(value)])
        case _:
            return ~F.is_valid_utf8(value)


def problems(kind: Any, value: Column, path: Column) -> Column:
    """The flaws of a value, each with its path: an array of texts, empty for none."""
    from pyspark.sql import functions as F

    none = F.array().cast("array<string>")
    if not _can_be_flawed(kind):
        return none
    match kind.typeName():
        case "struct":
            found = F.flatten(F.array(none, *(_field_problems(field, value, path) for field in kind.fields)))
        case "array":
            found = _each_problems(kind.elementType, value, path)
        case "map":
            keys = _each_problems(kind.keyType, F.map_keys(value), F.concat(path, F.lit(" key")))
            values = _each_problems(kind.valueType, F.map_values(value), F.concat(path, F.lit(" value")))
            twice = F.array(F.concat(path, F.lit(": a key of this MAP occurs twice")))
            found = F.flatten(F.array(F.when(_twice(value), twice).otherwise(none), keys, values))
        case _:
            shown = F.substring(F.make_valid_utf8(value), 1, SHOWN)
            found = F.when(~F.is_valid_utf8(value), F.array(F.concat(path, F.lit(": not UTF-8: "), shown)))
    return F.coalesce(found, none)


def _field_problems(field: Any, value: Column, path: Column) -> Column:
    """Those of one field of a struct."""
    from pyspark.sql import functions as F

    at = F.concat_ws(".", path, F.lit(field.name))
    inside = problems(field.dataType, value[field.name], at)
    if field.nullable:
        return inside
    missing = F.array(F.concat(at, F.lit(": required, but missing or null")))
    return F.when(value[field.name].isNull() & value.isNotNull(), missing).otherwise(inside)


def _each_problems(kind: Any, values: Column, path: Column) -> Column:
    """Those of each element of an array."""
    from pyspark.sql import functions as F

    if not _can_be_flawed(kind):
        return F.array().cast("array<string>")
    at = F.concat(path, F.lit("["))
    return F.flatten(
        F.transform(values, lambda each, n: problems(kind, each, F.concat(at, n.cast("string"), F.lit("]"))))
    )


def _can_be_flawed(kind: Any) -> bool:
    match kind.typeName():
        case "struct":
            return any(not field.nullable or _can_be_flawed(field.dataType) for field in kind.fields)
        case "array":
            return _can_be_flawed(kind.elementType)
        case name:
            return bool(name in ("map", "string"))


def _any_flawed(values: Column, kind: Any) -> Column:
    from pyspark.sql import functions as F

    return F.exists(values, lambda each: any_of([flawed(kind, each)]))


def _twice(value: Column) -> Column:
    """Whether a key of a map occurs twice; null if there is no map."""
    from pyspark.sql import functions as F

    keys = F.map_keys(value)
    return F.size(keys) != F.size(F.array_distinct(keys))
