"""Columns of a table and fields of its structs, by the names that a condition uses."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.platform.text import listed
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField, StructType

PLAIN = r"(?!\d)(?:[\w$@]|[^\x00-\x7f\s])+"
"""A part of a name that needs no quotes: no digit first; of ASCII only letters, digits, `_`, `$` and `@`; no blank."""
NO_NAMES = ("not", "true", "false")
"""Words that are part of the grammar where a name can be."""
Part = tuple[str, bool]
"""A part of a name, and whether it was quoted."""


class UnknownField(ValueError):
    """Raised for a name that is no column, or more than one."""


@dataclass(frozen=True)
class Field:
    """A column, or a field of a struct. `path`: names from the column down."""

    path: tuple[str, ...]
    field: NestedField

    @property
    def name(self) -> str:
        return written(self.path)

    def of_rows(self, rows: pa.Table) -> pa.ChunkedArray:
        """Its values; null where a struct around it is null."""
        values = rows.column(self.path[0])
        for part in self.path[1:]:
            # By index: pyarrow reads a name that begins with a dot or a bracket as a path.
            values = pc.struct_field(values, [values.type.get_field_index(part)])
        return values

    def of_record(self, record: Mapping[str, Any]) -> Any:
        """Its value in a record of JSON; None where a struct around it is null.

        Raises:
            KeyError: the record does not have it.
        """
        value: Any = record
        for part in self.path:
            if value is None:
                return None
            if not isinstance(value, Mapping):
                raise KeyError(part)
            value = value[part]
        return value


def written(path: Sequence[str]) -> str:
    """A path as in a condition: parts that are no plain word in backticks."""
    return ".".join(
        part if re.fullmatch(PLAIN, part) and part.lower() not in NO_NAMES else quote(part) for part in path
    )


class Fields:
    """The columns and fields of one table."""

    def __init__(self, schema: Schema) -> None:
        self._by_path = dict(_walk(schema.as_struct()))

    @property
    def example(self) -> str:
        """A condition on one of the columns, as the command takes it."""
        values = {"string": "'a value'", "int": "42", "long": "42", "date": "'2026-01-31'"}
        for path, field in self._by_path.items():
            if str(field.field_type) in values:
                return f"{written(path)} = {values[str(field.field_type)]}"
        return f"{written(next(iter(self._by_path)))} IS NULL"

    def find(self, parts: Sequence[Part]) -> Field:
        """The field of a name: a column that has exactly this name, with its dots, before a path through structs.

        A quoted part is one name. Parts without quotes may also be one name with dots: Iceberg itself keeps no two
        fields whose names are one text, Delta does.

        Raises:
            UnknownField: there is none, or more than one.
        """
        path = tuple(part for part, _ in parts)
        text = ".".join(path)
        plain = not any(quoted for _, quoted in parts)
        if plain and (text,) in self._by_path:
            return Field((text,), self._by_path[text,])
        if path in self._by_path:
            return Field(path, self._by_path[path])
        found = [each for each in self._by_path if ".".join(each) == text] if plain else []
        if len(found) == 1:
            return Field(found[0], self._by_path[found[0]])
        if found:
            raise UnknownField(f"{text} is any of {', '.join(map(written, found))}")
        for length in range(1, len(path)):
            outer = self._by_path.get(path[:length])
            if outer is not None and not outer.field_type.is_struct:
                inner = "a list or a map" if not outer.field_type.is_primitive else f"{outer.field_type}, no struct"
                raise UnknownField(f"{written(path)} is no field: {written(path[:length])} is {inner}")
        raise UnknownField(f"it has no column {written(path)}{self._near(text)}")

    def _near(self, text: str) -> str:
        same = [name for name in self.names if name.replace("`", "").casefold() == text.casefold()]
        near = same or difflib.get_close_matches(text, self.names, 3)
        return f" (there is {listed(near)})" if near else ""

    @cached_property
    def names(self) -> list[str]:
        """Every name that a comparison takes: columns and fields that are no struct, list or map."""
        return [written(path) for path, field in self._by_path.items() if field.field_type.is_primitive]

    def known(self, most: int = 40) -> str:
        """The names, for a message; of a wide table the first ones."""
        more = len(self.names) - most
        return ", ".join(self.names[:most]) + (f" and {more:,} more" if more > 0 else "")


def _walk(struct: StructType) -> Iterator[tuple[tuple[str, ...], NestedField]]:
    """Path and field of every column and, through structs, of every field; without recursion, for any depth."""
    waiting: list[tuple[tuple[str, ...], NestedField]] = [((field.name,), field) for field in struct.fields]
    while waiting:
        path, field = waiting.pop(0)
        yield path, field
        if field.field_type.is_struct:
            below: Any = field.field_type
            waiting[:0] = [((*path, each.name), each) for each in below.fields]
