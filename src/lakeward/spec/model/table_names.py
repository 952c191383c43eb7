"""Names of tables in specs, with or without the name of the lake's catalog."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Self, TypedDict

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from lakeward.spec.model.types import Written
from lakeward.spec.sql.names import dotted, name_parts, namespace_of, without_catalog

_TABLE_BYTES = 200
"""Most bytes of a table's name: with a suffix of Lakeward, and as the name of a suite's file, it stays below 255."""
_METADATA_TABLES = frozenset(
    ["all_data_files", "all_delete_files", "all_entries", "all_files", "all_manifests", "changelog", "changes",
     "data_files", "delete_files", "entries", "files", "history", "manifests", "metadata_log_entries", "partitions",
     "position_deletes", "refs", "rewrite", "snapshots"]
)  # fmt: skip
"""What Iceberg reads behind a table's name: `nyc.flights.files` are the files of `nyc.flights`."""
_SELECTORS = re.compile(r"(?:at_timestamp_|snapshot_id_)[0-9]+|(?:branch|tag)_.+", re.DOTALL)
_NOT_IN_PATHS = "/:*?#"
"""A table's name is a folder's name: these characters mean something else in a path, a URL or a Hadoop path."""


class KnownCatalogs(TypedDict):
    """The catalogs by which names of tables are read: the context of a validation.

    Attributes:
        catalog: the name of the default catalog, which names of tables may begin with; empty: they may not.
        others: the names of the further ones, which the names of their tables begin with.
    """

    catalog: str
    others: tuple[str, ...]


def _named(kind: type[Written]) -> CoreSchema:
    """Names of tables, of which the name of the lake's catalog is no part."""

    def read(text: Any, info: core_schema.ValidationInfo) -> Written:
        context: KnownCatalogs | None = info.context
        if not isinstance(text, str) or context is None:
            return kind(text)
        catalog = context["catalog"]
        if catalog and text.startswith(f"{catalog}.") and text.count(".") == 1 and "*" in text:
            raise ValueError(f"{catalog} is the catalog: its tables are *.*, those of a namespace are NAMESPACE.*")
        return kind(without_catalog(text, catalog))

    return core_schema.with_info_plain_validator_function(
        read, serialization=core_schema.plain_serializer_function_ser_schema(str, when_used="json")
    )


class TableName(Written):
    """A table of the lake: `namespace.table`, or `outer.inner.table` in a nested namespace.

    A table's part that has a dot is in backticks, as in SQL. Two spellings of one name are equal.
    """

    pattern = re.compile(r"(?:[^.`]+|`(?:[^`]|``)+`)(?:\.(?:[^.`]+|`(?:[^`]|``)+`))+")
    syntax = (
        "a table is namespace.table or outer.inner.table, for example nyc.flights; a part has letters, digits and "
        f"other printable characters except {' '.join(_NOT_IN_PATHS)}, no space at its ends, and a table with a dot "
        f"or a backtick is in backticks: nyc.`v1.2`; {_TABLE_BYTES} bytes at most"
    )
    examples: ClassVar[list[str]] = ["nyc.flights", "eu.nyc.flights", "nyc.`v1.2`"]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _named(cls)

    def __new__(cls, text: str) -> Self:
        written = super().__new__(cls, text)
        problem = cls._problem(name_parts(written))
        if problem:
            raise ValueError(f"{problem}; {cls.syntax}")
        return super().__new__(cls, dotted(name_parts(written)))

    @classmethod
    def _problem(cls, parts: tuple[str, ...]) -> str:
        """Why a lake cannot have a table of this name; empty if it can."""
        for part in parts:
            bad = next((each for each in part if each in _NOT_IN_PATHS or not each.isprintable()), None)
            if bad is not None:
                return f"{bad!r} cannot be in a name"
            if part != part.strip() or part in (".", ".."):
                return f"{part!r} is no name of a folder"
        inner = next((part for part in parts[:-1] if "." in part), None)
        if inner is not None:
            return f"the catalog takes a namespace {inner!r} for nested ones"
        if len(dotted(parts).encode()) > _TABLE_BYTES:
            return f"the name has {len(dotted(parts).encode())} bytes"
        last = parts[-1].lower()
        if len(parts) > 2 and (last in _METADATA_TABLES or _SELECTORS.fullmatch(last)):
            return f"Iceberg takes {dotted(parts)} for metadata of a table {dotted(parts[:-1])}"
        return ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The namespaces, outermost first, and the table."""
        return name_parts(self)

    @property
    def namespace(self) -> str:
        """The namespace's name."""
        return namespace_of(self)

    @property
    def name(self) -> str:
        """The last part."""
        return self.parts[-1]


class DeltaTableName(TableName):
    """A Delta table: Spark's own catalog has one level of namespaces, and takes upper and lower case for one."""

    pattern = re.compile(r"[A-Za-z0-9_]+\.[A-Za-z0-9_]+")
    syntax = (
        f"a Delta table is namespace.table (letters, digits, _; {_TABLE_BYTES} bytes at most), for example nyc.flights"
    )
    examples: ClassVar[list[str]] = ["nyc.flights"]


class PostgresTable(Written):
    """A table of PostgreSQL, `table` or `schema.table`; not the table of Lakeward's positions."""

    pattern = re.compile(r"(?:(?:[^.`]+|`(?:[^`]|``)+`)\.)?(?:[^.`]+|`(?:[^`]|``)+`)")
    syntax = (
        "a table of PostgreSQL is table or schema.table (each at most 63 bytes, printable; a part with a dot in "
        "backticks), for example public.flights; lakeward_positions is Lakeward's own"
    )
    examples: ClassVar[list[str]] = ["public.flights"]

    def __new__(cls, text: str) -> Self:
        written = super().__new__(cls, text)
        parts = name_parts(written)
        # PostgreSQL cuts a longer name silently.
        if (
            any(not part.isprintable() or len(part.encode()) > 63 for part in parts)
            or parts[-1] == "lakeward_positions"
        ):
            raise ValueError(cls.syntax)
        return super().__new__(cls, dotted(parts))

    @property
    def whole(self) -> str:
        """With its schema."""
        return str(self) if len(name_parts(self)) == 2 else f"public.{self}"


class Glob(Written):
    """Tables by pattern, over `namespace.table`."""

    pattern = re.compile(r"[^\x00-\x1f\x7f]+\.[^\x00-\x1f\x7f]+")
    syntax = "tables are matched as namespace.table with * and ?, for example nyc.*"
    examples: ClassVar[list[str]] = ["nyc.*"]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _named(cls)
