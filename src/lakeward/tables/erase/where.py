"""The condition of rows to erase: on a table's columns, and on quarantined records of its streams."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from lakeward.connectors.iceberg.quarantine import BACKFILL, ERROR, RAW, ROW, STREAM
from lakeward.platform.errors import SpecError
from lakeward.spec.model.position_columns import RECORD_COLUMNS

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema

_TEXTS = (RAW, ROW, ERROR, *RECORD_COLUMNS["kafka"])
"""Columns of a quarantine table that may hold values of a record."""


class Matching(Protocol):
    """Rows to erase. `columns` are the columns that `mask` needs; `prune` is false only for files without such rows."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def prune(self) -> BooleanExpression: ...

    def mask(self, rows: pa.Table) -> pa.Array:
        """True for the rows that go; never null."""
        ...


@dataclass(frozen=True)
class Where:
    """A condition on a table's columns; created by `parse`."""

    schema: Schema
    prune: BooleanExpression = field(repr=False)
    columns: tuple[str, ...]
    literals: tuple[Any, ...] = field(repr=False)

    def mask(self, rows: pa.Table) -> pa.Array:
        """True for the rows to erase; where the condition is null, the row stays."""
        import pyarrow.dataset as ds
        from pyiceberg.expressions.visitors import bind
        from pyiceberg.io.pyarrow import expression_to_pyarrow

        condition = expression_to_pyarrow(bind(self.schema, self.prune, case_sensitive=True), self.schema)
        scanned = ds.dataset(rows).scanner(columns={"goes": condition}).to_table().column("goes")
        return scanned.combine_chunks().fill_null(False)

    def of_values(self, values: dict[str, Any]) -> bool | None:
        """Whether a record's values satisfy it; None if a column is missing, or a value has another type."""
        from pyiceberg.expressions.literals import literal
        from pyiceberg.typedef import Record

        if not set(self.columns) <= values.keys():
            return None
        found: list[Any] = [None] * len(self.schema.fields)
        for index, column in enumerate(self.schema.fields):
            if column.name in self.columns and (value := values[column.name]) is not None:
                try:
                    found[index] = literal(value).to(column.field_type).value
                except (TypeError, ValueError):
                    return None
        return bool(self._evaluate(Record(*found)))

    def in_text(self, text: str) -> bool:
        """Whether a text contains one of the condition's values."""
        return any(pattern.search(text) for pattern in self._patterns)

    @cached_property
    def _patterns(self) -> list[re.Pattern[str]]:
        words = sorted({str(literal) for literal in self.literals} - {""})
        return [
            re.compile(re.escape(each) if re.search(r"[^\d.-]", each) else rf"(?<![\w.]){re.escape(each)}(?![\w.])")
            for each in words
        ]

    @cached_property
    def _evaluate(self) -> Any:
        from pyiceberg.expressions.visitors import expression_evaluator

        return expression_evaluator(self.schema, self.prune, case_sensitive=True)


def parse(text: str, schema: Schema, table: str) -> Where:
    """Parse a condition, e.g. `customer_id = 42 AND day < '2026-01-01'`.

    Raises:
        SpecError: the text is not a condition on the table's columns.
    """
    from pyiceberg.expressions import parser
    from pyiceberg.expressions.visitors import bind
    from pyparsing import ParseException

    known = ", ".join(field.name for field in schema.fields)
    try:
        found = parser.parse(text)
        columns, literals = _parts(found)
        bound = bind(schema, found, case_sensitive=True)
    except ParseException as error:
        raise _wrong(table, f"it cannot be parsed from character {error.loc + 1} on", known) from None
    except (TypeError, ValueError) as error:
        raise _wrong(table, str(error).splitlines()[0], known) from None
    nested = sorted(column for column in columns if "." in column)
    if nested:
        raise _wrong(table, f"{', '.join(nested)} is within a struct", known)
    if not columns or type(bound).__name__ in ("AlwaysTrue", "AlwaysFalse"):
        raise _wrong(table, "it is true for every row, or for none", known)
    return Where(schema, found, tuple(sorted(columns)), tuple(literals))


def _wrong(table: str, why: str, known: str) -> SpecError:
    return SpecError(
        f"Option --where is not a condition on the rows of {table}",
        why=f"{why}; its columns: {known}; comparisons, IN, LIKE 'begins%', IS NULL, AND, OR, NOT",
        next=f'e.g. lakeward tables erase {table} --where "customer_id = 42" --dry-run',
        code="LW-4005",
    )


def _parts(found: Any) -> tuple[set[str], list[Any]]:
    """The columns of a condition, and the literals of `=`, `IN` and `LIKE` that matching rows contain."""
    from pyiceberg.expressions import EqualTo, In, Not, StartsWith

    columns: set[str] = set()
    literals: list[Any] = []
    waiting = [(found, False)]
    while waiting:
        each, negated = waiting.pop()
        below = [part for name in ("left", "right", "child") if (part := getattr(each, name, None)) is not None]
        waiting += [(part, negated or isinstance(each, Not)) for part in below]
        if (term := getattr(each, "term", None)) is not None:
            columns.add(term.name)
        if isinstance(each, EqualTo | StartsWith) and not negated:
            literals.append(each.literal.value)
        elif isinstance(each, In) and not negated:
            literals += [one.value for one in each.literals]
    return columns, literals


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

    @property
    def prune(self) -> BooleanExpression:
        from pyiceberg.expressions import AlwaysTrue

        return AlwaysTrue()

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
        texts = [_text(row.get(column)) for column in _TEXTS]
        if any(self.where.in_text(text) for text in texts if text):
            return True
        if self.where.literals and None not in texts:
            return False
        self.unreadable += 1
        return self.erase_unreadable

    def _by_columns(self, value: Any) -> bool | None:
        text = _text(value)
        try:
            document = json.loads(text) if text else None
        except ValueError:
            return None
        return self.where.of_values(document) if isinstance(document, dict) else None


def _text(value: Any) -> str | None:
    """As text; None for bytes that are not text. Keys and headers of any shape are printed."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    return "" if value is None else value if isinstance(value, str) else repr(value)


@dataclass(frozen=True)
class Results:
    """Check results of a table whose observed value or error contains one of the condition's values."""

    where: Where
    table: str
    columns: tuple[str, ...] = ("table", "observed", "error")

    @property
    def prune(self) -> BooleanExpression:
        from pyiceberg.expressions import EqualTo

        return EqualTo(term="table", value=self.table)

    def mask(self, rows: pa.Table) -> pa.Array:
        found = rows.select(list(self.columns)).to_pylist()
        values = [[each[name] or "" for name in self.columns[1:]] for each in found]
        goes = [
            each["table"] == self.table and any(map(self.where.in_text, of))
            for each, of in zip(found, values, strict=True)
        ]
        return pa.array(goes, pa.bool_())
