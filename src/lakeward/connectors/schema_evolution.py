"""Schema evolution: compares the columns of a transform with those of a table. Pure.

Both schemas are Spark's JSON. Columns are compared by name; their order is ignored at any depth. The result separates
changes that a table can take without loss from those that a person must make.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakeward.platform.text import listed
from lakeward.spec.sql.statements import quote, quote_table

Kind = Any
"""A type as in Spark's JSON: a text, or a mapping for a struct, an array or a map."""
Casts = Callable[[Kind, Kind], bool]
"""Whether a value of the first type can be stored as the second without a possible loss."""

_SQL = {"integer": "INT", "long": "BIGINT", "short": "SMALLINT", "byte": "TINYINT"}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_WIDER = {("integer", "long"), ("float", "double")}


@dataclass(frozen=True)
class Column:
    """A column, by its path from the top level; an array's elements are `element`, a map's values `value`."""

    path: tuple[str, ...]
    kind: Kind

    @property
    def name(self) -> str:
        """The path with dots."""
        return ".".join(self.path)

    @property
    def sql(self) -> str:
        """The path as quoted SQL."""
        return ".".join(quote(part) for part in self.path)


@dataclass(frozen=True)
class IncompatibleColumns:
    """A column of both schemas with incompatible types."""

    column: Column
    has: Kind
    why: str = ""

    @property
    def text(self) -> str:
        """The difference as a clause."""
        difference = f"{self.column.name} is {sql_type(self.column.kind)}, the table has {sql_type(self.has)}"
        return f"{difference}: {self.why}" if self.why else difference


@dataclass
class Comparison:
    """The differences between a transform's columns and a table's.

    Attributes:
        added: only in the transform; a new struct is one column.
        lacking: only in the table, nullable.
        needed: only in the table, NOT NULL.
        widened: with a wider type that the table can adopt without rewriting a file; the column's `kind` is the wider
            type.
        unfit: of incompatible types.
        clashes: pairs of names that differ in case only.
    """

    added: list[Column] = field(default_factory=list)
    lacking: list[Column] = field(default_factory=list)
    needed: list[Column] = field(default_factory=list)
    widened: list[tuple[Column, Kind]] = field(default_factory=list)
    unfit: list[IncompatibleColumns] = field(default_factory=list)
    clashes: list[tuple[str, str]] = field(default_factory=list)

    @property
    def grows(self) -> bool:
        """Whether the transform needs a change of the table."""
        return bool(self.added or self.widened)


def compare(given: Kind, has: Kind, casts: Casts) -> Comparison:
    """Compare a transform's schema with a table's."""
    comparison = Comparison()
    _structs((), given, has, casts, comparison)
    return comparison


def in_delta(compared: Comparison) -> Comparison:
    """The comparison with a Delta table, in which widening a type needs a table feature that a person enables."""
    why = "Delta widens a type in tables with delta.enableTypeWidening = true only, which older readers cannot read"
    unfit = [IncompatibleColumns(column, was, why) for column, was in compared.widened]
    return replace(compared, unfit=[*compared.unfit, *unfit], widened=[])


def same(given: Kind, has: Kind) -> bool:
    """Whether both have the same columns and types; the order counts for fields of structs, not for columns."""
    one, other = ({column["name"]: _plain(column["type"]) for column in kind["fields"]} for kind in (given, has))
    return one == other


def alters(compared: Comparison, table: str, catalog: str) -> list[str]:
    """The ALTER TABLE statements that add and widen columns; differences that would lose data have none."""
    name = quote_table(table, catalog)
    added = ", ".join(f"{column.sql} {sql_type(column.kind)}" for column in compared.added)
    return [
        *([f"ALTER TABLE {name} ADD COLUMNS ({added})"] if added else []),
        *(
            f"ALTER TABLE {name} ALTER COLUMN {column.sql} TYPE {sql_type(column.kind)}"
            for column, _ in compared.widened
        ),
    ]


def grows(compared: Comparison) -> list[str]:
    """The added and widened columns, one clause for each."""
    return [
        *(f"adds {column.name} {sql_type(column.kind)}" for column in compared.added),
        *(f"widens {column.name} from {sql_type(was)} to {sql_type(column.kind)}" for column, was in compared.widened),
    ]


def differences(compared: Comparison, lacking: Sequence[Column], *, additive: bool) -> Iterator[str]:
    """The incompatible differences, one clause for each.

    Args:
        lacking: those columns of `compared.lacking` that must have values.
        additive: whether columns may be added to the table.
    """
    if compared.added and not additive:
        yield f"not in the table: {', '.join(column.name for column in compared.added)}"
    missing = [*lacking, *compared.needed]
    if missing:
        yield f"only in the table: {', '.join(column.name for column in missing)}"
    if not additive:
        yield from (IncompatibleColumns(column, was).text for column, was in compared.widened)
    yield from (column.text for column in compared.unfit)
    yield from (f"{given} is {has} in the table: names that differ in case only" for given, has in compared.clashes)


def for_other_streams(columns: Sequence[str], others: Sequence[str]) -> str:
    """The step for the other streams of a table that gets columns: they are refused without them. Empty for none."""
    if not (columns and others):
        return ""
    files = listed([f"conf/streams/{other}.yaml" for other in others])
    upgrades = "; ".join(f"lakeward streams upgrade {other} --wait" for other in others)
    return f"name {', '.join(columns)} in {files} too, say NULL AS ..; then: lakeward deploy; {upgrades}; "


def sql_type(kind: Kind) -> str:
    """A type in SQL syntax."""
    if not isinstance(kind, Mapping):
        return _SQL.get(str(kind), str(kind).upper())
    if kind["type"] == "struct":
        inner = ", ".join(f"{quote(part['name'])}: {sql_type(part['type'])}" for part in kind["fields"])
        return f"STRUCT<{inner}>"
    if kind["type"] == "array":
        return f"ARRAY<{sql_type(kind['elementType'])}>"
    return f"MAP<{sql_type(kind['keyType'])}, {sql_type(kind['valueType'])}>"


def _structs(path: tuple[str, ...], given: Kind, has: Kind, casts: Casts, comparison: Comparison) -> None:
    given_columns = {column["name"]: column for column in given["fields"]}
    has_columns = {column["name"]: column for column in has["fields"]}
    alike = {name.lower(): name for name in has_columns}
    clashing = set()
    for name, column in given_columns.items():
        if name not in has_columns and name.lower() in alike:
            clashing.add(alike[name.lower()])
            comparison.clashes.append((".".join((*path, name)), ".".join((*path, alike[name.lower()]))))
        elif name not in has_columns:
            comparison.added.append(Column((*path, name), column["type"]))
    for name, column in has_columns.items():
        if name not in given_columns and name not in clashing:
            (comparison.lacking if column["nullable"] else comparison.needed).append(
                Column((*path, name), column["type"])
            )
    for name in (name for name in given_columns if name in has_columns):
        _types((*path, name), given_columns[name]["type"], has_columns[name]["type"], casts, comparison)


def _types(path: tuple[str, ...], given: Kind, has: Kind, casts: Casts, comparison: Comparison) -> None:
    kinds = [kind["type"] if isinstance(kind, Mapping) else None for kind in (given, has)]
    if kinds[0] is None and kinds[1] is None:
        _leaves(path, given, has, casts, comparison)
    elif kinds[0] != kinds[1]:
        comparison.unfit.append(IncompatibleColumns(Column(path, given), has))
    elif kinds[0] == "struct":
        _structs(path, given, has, casts, comparison)
    elif kinds[0] == "array":
        _types((*path, "element"), given["elementType"], has["elementType"], casts, comparison)
    elif _plain(given["keyType"]) != _plain(has["keyType"]):
        comparison.unfit.append(IncompatibleColumns(Column(path, given), has, "the keys of a map stay as they are"))
    else:
        _types((*path, "value"), given["valueType"], has["valueType"], casts, comparison)


def _leaves(path: tuple[str, ...], given: Kind, has: Kind, casts: Casts, comparison: Comparison) -> None:
    if given == has or casts(given, has):
        return
    if _widens(has, given):
        comparison.widened.append((Column(path, given), has))
    else:
        comparison.unfit.append(IncompatibleColumns(Column(path, given), has))


def _widens(narrow: str, wide: str) -> bool:
    """Whether Iceberg reads files of the first type as the second."""
    one, other = _DECIMAL.fullmatch(narrow), _DECIMAL.fullmatch(wide)
    if one and other:
        return one[2] == other[2] and int(one[1]) < int(other[1])
    return (narrow, wide) in _WIDER


def _plain(kind: Kind) -> Kind:
    """The type without nullability and metadata."""
    if not isinstance(kind, Mapping):
        return kind
    drop = ("nullable", "containsNull", "valueContainsNull", "metadata")
    return {
        key: [_plain(part) for part in value] if key == "fields" else _plain(value)
        for key, value in kind.items()
        if key not in drop
    }
