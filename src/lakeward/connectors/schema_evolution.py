"""What a transform's columns would change in a table. Pure: both as Spark's JSON of a schema, columns by name.

Order means nothing, at any depth. What a table may take without a loss is told apart from what a person must do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

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
    """A column, by its path from the top; elements of an array are `element`, values of a map `value`."""

    path: tuple[str, ...]
    kind: Kind

    @property
    def name(self) -> str:
        """The path with dots."""
        return ".".join(self.path)

    @property
    def sql(self) -> str:
        """The path as SQL has it."""
        return ".".join(quote(part) for part in self.path)


@dataclass(frozen=True)
class IncompatibleColumns:
    """A column both have, of types that do not fit."""

    column: Column
    has: Kind
    why: str = ""

    @property
    def text(self) -> str:
        """In words."""
        said = f"{self.column.name} is {sql_type(self.column.kind)}, the table has {sql_type(self.has)}"
        return f"{said}: {self.why}" if self.why else said


@dataclass
class Comparison:
    """A transform's columns beside a table's.

    Attributes:
        added: only in the transform; whole, so that a new struct is one column.
        lacking: only in the table, and it may be null there.
        needed: only in the table, which has it NOT NULL.
        widened: of a type that the table can take over without touching a file; `kind` is the wider one.
        unfit: of types that do not fit.
        clashes: names that differ in upper and lower case alone.
    """

    added: list[Column] = field(default_factory=list)
    lacking: list[Column] = field(default_factory=list)
    needed: list[Column] = field(default_factory=list)
    widened: list[tuple[Column, Kind]] = field(default_factory=list)
    unfit: list[IncompatibleColumns] = field(default_factory=list)
    clashes: list[tuple[str, str]] = field(default_factory=list)

    @property
    def grows(self) -> bool:
        """Whether the table would have to be changed for the transform."""
        return bool(self.added or self.widened)


def compare(given: Kind, has: Kind, casts: Casts) -> Comparison:
    """Compare a transform's schema with a table's."""
    found = Comparison()
    _structs((), given, has, casts, found)
    return found


def in_delta(compared: Comparison) -> Comparison:
    """A comparison with a Delta table, which widens a type only where a person lets it."""
    why = "Delta widens a type in tables with delta.enableTypeWidening = true only, which older readers cannot read"
    unfit = [IncompatibleColumns(column, was, why) for column, was in compared.widened]
    return replace(compared, unfit=[*compared.unfit, *unfit], widened=[])


def same(given: Kind, has: Kind) -> bool:
    """Whether both have the same columns, in any order, of the same types with the fields of structs in one order."""
    one, other = ({each["name"]: _plain(each["type"]) for each in kind["fields"]} for kind in (given, has))
    return one == other


def alters(compared: Comparison, table: str, catalog: str) -> list[str]:
    """The statements that give the table what it lacks; nothing for what no statement mends without a loss."""
    name = quote_table(table, catalog)
    added = ", ".join(f"{each.sql} {sql_type(each.kind)}" for each in compared.added)
    return [
        *([f"ALTER TABLE {name} ADD COLUMNS ({added})"] if added else []),
        *(f"ALTER TABLE {name} ALTER COLUMN {each.sql} TYPE {sql_type(each.kind)}" for each, _ in compared.widened),
    ]


def grows(compared: Comparison) -> list[str]:
    """What is added and widened, a sentence each."""
    return [
        *(f"adds {each.name} {sql_type(each.kind)}" for each in compared.added),
        *(f"widens {each.name} from {sql_type(was)} to {sql_type(each.kind)}" for each, was in compared.widened),
    ]


def differences(compared: Comparison, lacking: Sequence[Column], *, additive: bool) -> Iterator[str]:
    """What does not fit, a sentence each.

    Args:
        lacking: those columns of `compared.lacking` that may not stay empty.
        additive: whether the table may take what it lacks.
    """
    if compared.added and not additive:
        yield f"not in the table: {', '.join(each.name for each in compared.added)}"
    missing = [*lacking, *compared.needed]
    if missing:
        yield f"only in the table: {', '.join(each.name for each in missing)}"
    if not additive:
        yield from (IncompatibleColumns(column, was).text for column, was in compared.widened)
    yield from (each.text for each in compared.unfit)
    yield from (f"{given} is {has} in the table: names that differ in case alone" for given, has in compared.clashes)


def sql_type(kind: Kind) -> str:
    """A type as SQL has it."""
    if not isinstance(kind, Mapping):
        return _SQL.get(str(kind), str(kind).upper())
    if kind["type"] == "struct":
        inner = ", ".join(f"{quote(each['name'])}: {sql_type(each['type'])}" for each in kind["fields"])
        return f"STRUCT<{inner}>"
    if kind["type"] == "array":
        return f"ARRAY<{sql_type(kind['elementType'])}>"
    return f"MAP<{sql_type(kind['keyType'])}, {sql_type(kind['valueType'])}>"


def _structs(path: tuple[str, ...], given: Kind, has: Kind, casts: Casts, found: Comparison) -> None:
    mine = {each["name"]: each for each in given["fields"]}
    theirs = {each["name"]: each for each in has["fields"]}
    alike = {name.lower(): name for name in theirs}
    clashing = set()
    for name, one in mine.items():
        if name not in theirs and name.lower() in alike:
            clashing.add(alike[name.lower()])
            found.clashes.append((".".join((*path, name)), ".".join((*path, alike[name.lower()]))))
        elif name not in theirs:
            found.added.append(Column((*path, name), one["type"]))
    for name, one in theirs.items():
        if name not in mine and name not in clashing:
            (found.lacking if one["nullable"] else found.needed).append(Column((*path, name), one["type"]))
    for name in (each for each in mine if each in theirs):
        _types((*path, name), mine[name]["type"], theirs[name]["type"], casts, found)


def _types(path: tuple[str, ...], given: Kind, has: Kind, casts: Casts, found: Comparison) -> None:
    kinds = [each["type"] if isinstance(each, Mapping) else None for each in (given, has)]
    if kinds[0] is None and kinds[1] is None:
        _leaves(path, given, has, casts, found)
    elif kinds[0] != kinds[1]:
        found.unfit.append(IncompatibleColumns(Column(path, given), has))
    elif kinds[0] == "struct":
        _structs(path, given, has, casts, found)
    elif kinds[0] == "array":
        _types((*path, "element"), given["elementType"], has["elementType"], casts, found)
    elif _plain(given["keyType"]) != _plain(has["keyType"]):
        found.unfit.append(IncompatibleColumns(Column(path, given), has, "the keys of a map stay as they are"))
    else:
        _types((*path, "value"), given["valueType"], has["valueType"], casts, found)


def _leaves(path: tuple[str, ...], given: Kind, has: Kind, casts: Casts, found: Comparison) -> None:
    if given == has or casts(given, has):
        return
    if _widens(has, given):
        found.widened.append((Column(path, given), has))
    else:
        found.unfit.append(IncompatibleColumns(Column(path, given), has))


def _widens(narrow: str, wide: str) -> bool:
    """Whether Iceberg reads files of the first type as the second."""
    one, other = _DECIMAL.fullmatch(narrow), _DECIMAL.fullmatch(wide)
    if one and other:
        return one[2] == other[2] and int(one[1]) < int(other[1])
    return (narrow, wide) in _WIDER


def _plain(kind: Kind) -> Kind:
    """Without what may be null."""
    if not isinstance(kind, Mapping):
        return kind
    drop = ("nullable", "containsNull", "valueContainsNull", "metadata")
    return {
        key: [_plain(each) for each in value] if key == "fields" else _plain(value)
        for key, value in kind.items()
        if key not in drop
    }
