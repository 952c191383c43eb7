"""Column names of a suite, resolved once for all expectations, as Spark resolves names: case does not matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakeward.spec.read.problems import nearest


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
        kind: its type in Spark's words, upper case, e.g. `DECIMAL(10,2)`; empty if unknown.
    """

    plain: str
    spelled: str
    kind: str


@dataclass(frozen=True)
class Columns:
    """The columns of a table: names and types of the top level, and of fields of structs by their path."""

    top: Mapping[str, str]
    nested: Mapping[str, str] = field(default_factory=dict)

    def resolve(self, written: str) -> Resolved:
        """The column that a suite means by a name.

        A column of exactly this name comes first, then one that differs in case, then a field of a struct.

        Raises:
            Unresolved: no column has the name, or several that differ in case have it.
        """
        quoted = len(written) > 2 and written.startswith("`") and written.endswith("`")
        name = written[1:-1].replace("``", "`") if quoted and "`.`" not in written else written
        for spelling, known in ((_spelled, self.top), (str, self.nested)):
            found = name if name in known else _alike(name, known)
            if found is not None:
                if known is self.top and "`" in found:
                    raise Unresolved(f"Great Expectations cannot read the name {found!r}: it has a backtick")
                return Resolved(found, spelling(found), known[found].upper())
        raise Unresolved(f"the table has no column {name!r}", nearest(name, self.top))


def _alike(name: str, known: Mapping[str, str]) -> str | None:
    found = [each for each in known if each.lower() == name.lower()]
    if len(found) > 1:
        raise Unresolved(f"{name!r} may be any of {', '.join(found)}: Spark does not tell names apart by case")
    return found[0] if found else None


def _spelled(name: str) -> str:
    return f"`{name}`" if "." in name else name


def of_schema(schema: Any) -> Columns:
    """The columns of a Spark schema (`StructType`)."""
    top = {each.name: each.dataType.simpleString() for each in schema.fields}
    nested = dict(pair for each in schema.fields for pair in _below(each.name, each.dataType))
    return Columns(top, nested)


def _below(path: str, kind: Any) -> Iterator[tuple[str, str]]:
    """Paths and types of the fields of a struct, at any depth."""
    for each in getattr(kind, "fields", ()):
        yield f"{path}.{each.name}", each.dataType.simpleString()
        yield from _below(f"{path}.{each.name}", each.dataType)
