"""Converts a PyIceberg schema to Spark's JSON of a schema, without a JVM."""

from __future__ import annotations

from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, FixedType, IcebergType, ListType, MapType, StructType

_LEAVES = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "string": "string",
    "uuid": "string",
    "binary": "binary",
}


def spark_schema(schema: Schema) -> dict[str, Any]:
    """The columns as Spark's JSON of a schema."""
    columns: dict[str, Any] = _type(schema.as_struct())
    return columns


def _type(kind: IcebergType) -> Any:
    if isinstance(kind, StructType):
        fields = [
            {"name": field.name, "type": _type(field.field_type), "nullable": not field.required, "metadata": {}}
            for field in kind.fields
        ]
        return {"type": "struct", "fields": fields}
    if isinstance(kind, ListType):
        return {"type": "array", "elementType": _type(kind.element_type), "containsNull": not kind.element_required}
    if isinstance(kind, MapType):
        return {
            "type": "map", "keyType": _type(kind.key_type), "valueType": _type(kind.value_type),
            "valueContainsNull": not kind.value_required,
        }  # fmt: skip
    if isinstance(kind, DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    if isinstance(kind, FixedType):
        return "binary"
    return _LEAVES.get(str(kind), str(kind))
