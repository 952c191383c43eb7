"""The condition of rows to erase: on a table's columns and fields, and on quarantined records of its streams."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from lakeward.connectors.iceberg.quarantine import BACKFILL, ERROR, RAW, ROW, STREAM
from lakeward.platform.errors import Refused, SpecError
from lakeward.platform.text import word
from lakeward.spec.model.position_columns import RECORD_COLUMNS
from lakeward.tables.erase.condition import fit, read
from lakeward.tables.erase.fields import Field, Fields, Part
from lakeward.tables.erase.texts import Values, literals_of, needs_a_literal, text_of
from lakeward.tables.erase.truth import true_of

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

_TEXTS = (RAW, ROW, ERROR, *RECORD_COLUMNS["kafka"])
"""Columns of a quarantine table that may hold values of a record."""


class Matching(Protocol):
    """Rows to erase. `columns` are the columns that `mask` needs."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    def may(self, schema: Schema) -> Callable[[DataFile], bool]:
        """Whether a file may have such rows, by its statistics; the table's schema is given."""
        ...

    def mask(self, rows: pa.Table) -> pa.Array:
        """True for the rows that go; never null."""
        ...


@dataclass(frozen=True)
class Where:
    """A condition on a table's columns and on fields of its structs; created by `parse`.

    Attributes:
        fields: the fields it names; `expression` calls them `c0`, `c1` and so on, because readers of expressions do not
            take every name, and take a dot for a path.
        columns: the table's columns that have them.
    """

    fields: tuple[Field, ...]
    expression: BooleanExpression = field(repr=False)
    literals: tuple[Any, ...] = field(repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(sorted({each.path[0] for each in self.fields}))

    @property
    def names(self) -> list[str]:
        """The fields that it names, as written in a condition."""
        return sorted(each.name for each in self.fields)

    def may(self, schema: Schema) -> Callable[[DataFile], bool]:
        """Whether a file may have such rows: the fields are found by id, so they are the same at any depth.

        Raises:
            Refused: a field has another name or type than when the condition was read; another may have its name now.
        """
        for each in self.fields:
            number, name = each.field.field_id, ".".join(each.path)
            if schema.find_column_name(number) != name or schema.find_type(number) != each.field.field_type:
                raise Refused(
                    "Rows to erase cannot be selected: the table's columns changed meanwhile",
                    why=f"{each.name} of the condition was renamed, dropped, or has another type",
                    next="the same command with --dry-run   shows the new plan",
                    code="LW-3485",
                )
        return _by_statistics(self._schema, self.expression)

    def mask(self, rows: pa.Table) -> pa.Array:
        """True for the rows to erase; where the condition is null, the row stays."""
        flat = pa.table({_called(index): _comparable(each.of_rows(rows)) for index, each in enumerate(self.fields)})
        return true_of(self._bound, flat)

    def of_values(self, values: dict[str, Any]) -> bool | None:
        """Whether a record's values satisfy it; None if a field is missing, or a value has another type."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow
        from pyiceberg.types import DoubleType, FloatType

        flat: dict[str, pa.Array] = {}
        for index, each in enumerate(self.fields):
            try:
                value, kind = each.of_record(values), self._compared.fields[index].field_type
                nan = isinstance(kind, FloatType | DoubleType) and value != value
                if value is not None and kind.is_primitive and not nan:
                    value = fit(value, each.field.field_type).to(kind).value
                flat[_called(index)] = pa.array([value], schema_to_pyarrow(kind))
            except (KeyError, TypeError, ValueError):
                return None
        return bool(true_of(self._bound, pa.table(flat))[0].as_py())

    def in_text(self, text: str) -> bool:
        """Whether a text contains one of the condition's values, also as JSON or CSV write it."""
        return self._values.found(text)

    @cached_property
    def decisive(self) -> bool:
        """Whether a text without the condition's values is certainly of no such row.

        It is not if the condition can be true without one of them (`name = 'Ann' OR age > 60`), or if a value has many
        spellings: a time may be written as a number.
        """
        from pyiceberg.types import DecimalType, IntegerType, LongType, StringType, UUIDType

        plain = (StringType, IntegerType, LongType, DecimalType, UUIDType)
        kinds = {_called(index): each.field.field_type for index, each in enumerate(self.fields)}
        return needs_a_literal(self.expression, {name for name, kind in kinds.items() if isinstance(kind, plain)})

    @cached_property
    def _values(self) -> Values:
        return Values(self.literals)

    @cached_property
    def _schema(self) -> Schema:
        return self._of_types(lambda kind: kind)

    def _of_types(self, changed: Callable[[IcebergType], IcebergType]) -> Schema:
        """The schema of the fields, with these types."""
        from pyiceberg.schema import Schema
        from pyiceberg.types import NestedField

        return Schema(
            *(
                NestedField(each.field.field_id, _called(index), changed(each.field.field_type), required=False)
                for index, each in enumerate(self.fields)
            )
        )

    @cached_property
    def _compared(self) -> Schema:
        """The schema of the values as they are compared: UUIDs as text, because Arrow compares no two UUIDs."""
        from pyiceberg.types import StringType, UUIDType

        return self._of_types(lambda kind: StringType() if isinstance(kind, UUIDType) else kind)

    @cached_property
    def _bound(self) -> BooleanExpression:
        from pyiceberg.expressions.visitors import bind

        return bind(self._compared, self.expression, case_sensitive=True)


def _called(index: int) -> str:
    return f"c{index}"


def _comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if not isinstance(values.type, pa.UuidType):
        return values
    return pa.chunked_array([[None if each is None else str(each) for each in values.to_pylist()]], pa.string())


def _by_statistics(schema: Schema, expression: BooleanExpression) -> Callable[[DataFile], bool]:
    from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator

    found: Any = _InclusiveMetricsEvaluator(schema, expression, case_sensitive=True)
    may: Callable[[DataFile], bool] = found.eval
    return may


def parse(text: str, schema: Schema, table: str) -> Where:
    """Parse a condition, e.g. `customer.id = 42 AND day < '2026-01-01'`.

    Raises:
        SpecError: the text is not a condition on the table's columns.
    """
    from pyiceberg.expressions.visitors import bind

    fields = Fields(schema)
    used: list[Field] = []

    def resolve(parts: Sequence[Part]) -> tuple[str, IcebergType]:
        found = fields.find(parts)
        if found not in used:
            used.append(found)
        return _called(used.index(found)), found.field.field_type

    try:
        expression = read(text, resolve)
        where = Where(tuple(used), expression, tuple(literals_of(expression)))
        bound = bind(where._schema, expression, case_sensitive=True)
    except (TypeError, ValueError) as error:
        raise _wrong(table, str(error).splitlines()[0], fields) from None
    if not used or type(bound).__name__ in ("AlwaysTrue", "AlwaysFalse"):
        raise _wrong(table, "it is true for every row, or for none", fields)
    return where


def _wrong(table: str, why: str, fields: Fields) -> SpecError:
    return SpecError(
        f"Option --where is not a condition on the rows of {table}",
        why=f"{why}; its columns: {fields.known()}; comparisons, IN, BETWEEN, LIKE 'begins%', IS NULL, AND, OR, NOT",
        next=f"e.g. lakeward tables erase {word(table)} --where {word(fields.example)} --dry-run",
        code="LW-4005",
    )


@dataclass
class QuarantinedRows:
    """The condition on rows of a quarantine table: by columns if `row` or `raw` is JSON, else by text.

    Attributes:
        streams: the streams whose rows are considered.
        erase_unreadable: whether rows whose bytes are not text are erased.
        unreadable: the number of such rows in the last `mask`.
    """

    where: Where
    streams: Collection[str]
    erase_unreadable: bool = False
    unreadable: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        return (STREAM, *_TEXTS)

    def may(self, schema: Schema) -> Callable[[DataFile], bool]:
        del schema
        return lambda _: True

    def mask(self, rows: pa.Table) -> pa.Array:
        self.unreadable = 0
        return pa.array([self._goes(each) for each in rows.select(list(self._there(rows))).to_pylist()], pa.bool_())

    def _there(self, rows: pa.Table) -> list[str]:
        return [column for column in self.columns if column in rows.column_names]

    def _goes(self, row: dict[str, Any]) -> bool:
        if (row[STREAM] or "").partition(BACKFILL)[0] not in self.streams:
            return False
        judged = [found for each in (ROW, RAW) if (found := self._by_columns(row.get(each))) is not None]
        if judged:
            return any(judged)
        texts = [text_of(row.get(column)) for column in _TEXTS]
        if any(self.where.in_text(text) for text in texts if text):
            return True
        if self.where.decisive and None not in texts:
            return False
        self.unreadable += 1
        return self.erase_unreadable

    def _by_columns(self, value: Any) -> bool | None:
        text = text_of(value)
        try:
            document = json.loads(text, parse_float=Decimal) if text else None
        except ValueError:
            return None
        return self.where.of_values(document) if isinstance(document, dict) else None


@dataclass(frozen=True)
class Results:
    """Check results of a table whose observed value or error contains one of the condition's values."""

    where: Where
    table: str
    columns: tuple[str, ...] = ("table", "observed", "error")

    def may(self, schema: Schema) -> Callable[[DataFile], bool]:
        from pyiceberg.expressions import EqualTo

        return _by_statistics(schema, EqualTo(term="table", value=self.table))

    def mask(self, rows: pa.Table) -> pa.Array:
        found = rows.select(list(self.columns)).to_pylist()
        values = [[each[name] or "" for name in self.columns[1:]] for each in found]
        goes = [
            each["table"] == self.table and any(map(self.where.in_text, of))
            for each, of in zip(found, values, strict=True)
        ]
        return pa.array(goes, pa.bool_())
