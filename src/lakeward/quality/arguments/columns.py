"""Column names of a suite, resolved once for all expectations, as Spark resolves names: case does not matter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeward.spec.read.problems import nearest
from lakeward.spec.sql.statements import quote


class Unresolved(Exception):
    """Raised when a name is no column, or more than one.

    Attributes:
        near: the column that was probably meant.
    """

    def __init__(self, message: str, near: str | None = None) -> None:
        super().__init__(message)
        self.near = near


@dataclass(frozen=True)
class Resolved:
    """One column.

    Attributes:
        plain: its name as the table has it.
        spelled: its name as Spark and Great Expectations read it: a dot of a name is in backticks.
        kind: its type in Spark's words, upper case, e.g. `DECIMAL(10,2)`, or `STRUCT` without its fields; empty if
            unknown.
    """

    plain: str
    spelled: str
    kind: str


@dataclass(frozen=True)
class Columns:
    """The columns of a table.

    Attributes:
        top: name -> type.
        nested: fields of structs, at any depth: path -> type. A part of a path that has a dot or a backtick is in
            backticks, as Spark reads it.
    """

    top: Mapping[str, str]
    nested: Mapping[str, str] = field(default_factory=dict)

    def resolve(self, written: str) -> Resolved:
        """The column that a suite means by a name.

        A column of exactly this name comes first, then one that differs in case, then a field of a struct, by its path
        with or without backticks.

        Raises:
            Unresolved: no column has the name, several that differ in case have it, or Great Expectations
                cannot read it.
        """
        quoted = len(written) > 2 and written.startswith("`") and written.endswith("`")
        name = written[1:-1].replace("``", "`") if quoted and "`.`" not in written else written
        found = _alike(name, self.top)
        if found is not None:
            if "`" in found:
                raise Unresolved(f"Great Expectations cannot read the name {found!r}: it has a backtick")
            return Resolved(found, _spelled(found), _short(self.top[found]))
        paths = {_bare(path): path for path in self.nested}
        bare = _alike(_bare(written), paths)
        if bare is None:
            raise Unresolved(f"the table has no column {name!r}", nearest(name, (*self.top, *paths)))
        path = paths[bare]
        if not _READ.fullmatch(path):
            raise Unresolved(
                f"Great Expectations cannot read the field {path}, because of a dot or a backtick in a name: "
                f"name it in the query of unexpected_rows_expectation, e.g. {path} IS NULL"
            )
        return Resolved(bare, path, _short(self.nested[path]))


_READ = re.compile(r"(?:[^`.]+\.)*(?:[^`.]+|`[^`]+`)")
"""Paths that Great Expectations reads: it quotes the last name only."""


def _bare(path: str) -> str:
    """The path without backticks around its names."""
    return path.replace("`", "")


def _short(kind: str) -> str:
    """The type without what it is made of: `ARRAY` for `array<int>`."""
    return kind.partition("<")[0].upper()


def _alike(name: str, known: Mapping[str, str]) -> str | None:
    if name in known:
        return name
    found = [each for each in known if each.lower() == name.lower()]
    if len(found) > 1:
        raise Unresolved(f"{name!r} may be any of {', '.join(found)}: Spark does not tell names apart by case")
    return found[0] if found else None


def _spelled(name: str) -> str:
    return f"`{name}`" if "." in name or name == "*" else name


def below(path: str, name: str) -> str:
    """The path of a field of a struct, as Spark reads it; `path` is that of the struct, empty for a column."""
    part = quote(name) if set(name) & {".", "`"} else name
    return f"{path}.{part}" if path else part


def of_schema(schema: Any) -> Columns:
    """The columns of a Spark schema (`StructType`)."""
    top = {each.name: each.dataType.simpleString() for each in schema.fields}
    nested = dict(pair for each in schema.fields for pair in _fields(below("", each.name), each.dataType))
    return Columns(top, nested)


def _fields(path: str, kind: Any) -> Iterator[tuple[str, str]]:
    """Paths and types of the fields of a struct, at any depth."""
    for each in getattr(kind, "fields", ()):
        field = below(path, each.name)
        yield field, each.dataType.simpleString()
        yield from _fields(field, each.dataType)
