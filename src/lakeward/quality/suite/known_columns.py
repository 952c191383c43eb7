"""The columns of a suite's table, as far as they are known without Spark: from its metadata or its stream's spec."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from sqlglot import exp

from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import Runtime
from lakeward.quality.arguments.columns import Columns, below
from lakeward.spec.deploy.upgrade_order import landed_columns
from lakeward.spec.model.position_columns import OWN_COLUMNS
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.analysis import analyse
from lakeward.spec.sql.ddl import ddl_columns
from lakeward.spec.sql.statements import SqlProblem

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType, StructType

_KINDS = {"long": "BIGINT", "timestamptz": "TIMESTAMP", "timestamp": "TIMESTAMP_NTZ", "uuid": "STRING",
          "fixed": "BINARY", "list": "ARRAY", "map": "MAP", "struct": "STRUCT"}  # fmt: skip
"""Iceberg's name of a type -> Spark's, where they differ."""


def of_iceberg(schema: Schema) -> Columns:
    """The columns of a table by its Iceberg schema, with the types that Spark reads."""
    top = {each.name: _kind(each.field_type) for each in schema.fields}
    return Columns(top, dict(pair for each in schema.fields for pair in _fields(below("", each.name), each.field_type)))


def _fields(path: str, kind: IcebergType) -> Iterator[tuple[str, str]]:
    """Paths and types of the fields of a struct, at any depth; items of lists and maps are no columns."""
    if not kind.is_struct:
        return
    for each in cast("StructType", kind).fields:
        field = below(path, each.name)
        yield field, _kind(each.field_type)
        yield from _fields(field, each.field_type)


def _kind(found: IcebergType) -> str:
    text = str(found)
    base = text.partition("<")[0].partition("[")[0].partition("(")[0]
    return text.upper().replace(" ", "") if base == "decimal" else _KINDS.get(base, base.upper())


def of_table(runtime: Runtime | None, table: str) -> Columns | None:
    """The columns of a table of the catalog; None if there is no stack, no answer, or no such table."""
    if runtime is None:
        return None
    from lakeward.quality.ranges import metadata

    def read() -> Columns | None:
        try:
            return of_iceberg(metadata.load(metadata.catalog(runtime), table).schema())
        except LakewardError:
            return None  # lint is about the files: what runs says whether the stack answers

    found = attempt(f"columns of table {table}", read)  # one damaged table leaves the suites of the others their lint
    return None if isinstance(found, Failure) else found


def of_specs(table: str, specs: Iterable[StreamSpec]) -> Columns | None:
    """The columns that a stream lands in the table; None if no spec shows them."""
    for spec in specs:
        if spec.sink.label == table and (found := _of_spec(spec)) is not None:
            return found
    return None


def _of_spec(spec: StreamSpec) -> Columns | None:
    names = landed_columns(spec)
    if names is None or not spec.transform.sql:
        return None
    declared = _declared(spec)
    kinds = {name.lower(): kind for name, kind in declared.items()}
    try:
        query = analyse(spec.transform.sql, spec.sources).statement
    except SqlProblem:
        return None
    made = {item.alias_or_name.lower(): _type(item.unalias(), kinds) for item in getattr(query, "expressions", ())}
    return Columns({written: made.get(name, kinds.get(name, "")) for name, written in names.items()})


def _declared(spec: StreamSpec) -> Mapping[str, str]:
    source = next(iter(spec.sources.values()))
    if len(spec.sources) > 1 or spec.reference or source.declared_columns is None:
        return {}
    return ddl_columns(source.declared_columns) | {name: OWN_COLUMNS.get(name, "") for name in source.added_columns}


def _type(item: exp.Expr, kinds: Mapping[str, str]) -> str:
    """The type of a column that is passed on, or cast; empty for anything else."""
    if isinstance(item, exp.Column):
        return kinds.get(item.name.lower(), "")
    if isinstance(item, exp.Cast) and not isinstance(item, exp.TryCast):
        return item.to.sql("spark").replace(" ", "").upper()
    return ""
