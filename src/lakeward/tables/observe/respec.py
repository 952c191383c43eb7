"""What the current partition spec makes of files that were written with an earlier one.

A rewrite writes with the current spec: one hour's file may go to one day's partition, a file without partitions to a
hundred. Where the rows of a file go is known from its partition values and its column bounds, and only where these do
not tell, from its rows.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Final

from lakeward.tables.partition_values import EPOCH, comparable

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

MOST: Final = 10_000
"""Partitions of one file that are listed; with more their number is not reported."""
READ_FILES, READ_ROWS = 500, 5_000_000
"""Files and rows of one group that are read to count partitions; of a larger group the number stays unknown."""
_SPANS: Final = ("year", "month", "day", "hour")  # coarse to fine
_WHOLE: Final = ("int", "long", "date")
Choices = tuple[Any, ...]
"""The values that a partition field may have for the rows of one file."""


@dataclass(frozen=True)
class Targets:
    """Where the rows of a file go.

    Attributes:
        choices: for each field of the current spec the possible values; None: unknown.
    """

    choices: tuple[Choices | None, ...]

    @property
    def one(self) -> tuple[Any, ...] | None:
        """The one partition that all rows go to; None if there may be several."""
        values = [each[0] for each in self.choices if each is not None and len(each) == 1]
        return tuple(values) if len(values) == len(self.choices) else None


def targets(data: DataFile, old: PartitionSpec, values: Sequence[Any], spec: PartitionSpec, schema: Schema) -> Targets:
    """Where the rows of a file of an earlier spec go.

    Args:
        data: the file, with its column bounds.
        old, values: its spec and its partition values.
        spec: the current spec.
        schema: the current schema.
    """
    held = {
        field.source_id: (str(field.transform), value)
        for field, value in zip(old.fields, values, strict=True)
        if str(field.transform) != "void"
    }
    each: list[Choices | None] = []
    for field in spec.fields:
        try:
            said = _by_partition(field, schema, *held[field.source_id]) if field.source_id in held else None
            found = said if said is not None and len(said) == 1 else _by_bounds(field, schema, data)
        except (OverflowError, ValueError):  # a time that Python has no date for, e.g. in the year 57868
            said = found = None
        each.append(said if found is None else found)
    return Targets(tuple(each))


def partitions_made(table: Table, files: Sequence[tuple[DataFile, Targets]]) -> int | None:
    """The number of partitions that a rewrite of these files makes, at most; None: unknown.

    It is computed from `Targets`. Where that is more than would be worth a rewrite the rows are read.
    """
    found = _listed([targets for _, targets in files])
    if found is not None and found < len(files):
        return found
    rows = sum(data.record_count for data, _ in files)
    if len(files) < 2 or len(files) > READ_FILES or rows > READ_ROWS:
        return found
    counted = _read(table, [data for data, _ in files])
    return found if counted is None else counted


def _listed(files: Sequence[Targets]) -> int | None:
    made: set[tuple[Any, ...]] = set()
    for file in files:
        choices = [each for each in file.choices if each is not None]
        if len(choices) < len(file.choices) or prod(map(len, choices)) > MOST:
            return None
        made |= {tuple(map(comparable, values)) for values in product(*choices)}
    return len(made)


def _by_partition(field: PartitionField, schema: Schema, transform: str, value: Any) -> Choices | None:
    """The possible values by the value of an earlier field of the same column; None if it does not tell."""
    target = str(field.transform)
    if target == transform or target == "void":
        return (None,) if target == "void" else (value,)
    if value is None:
        return (None,)  # a transform is null for nulls alone
    if transform == "identity":
        return (_transformed(field, schema, value),)
    if transform in _SPANS and target in _SPANS:
        coarse = _SPANS.index(target) <= _SPANS.index(transform)
        number = int(comparable(value))  # type: ignore[call-overload]  # a number or a date
        return (_coarser(transform, target, number),) if coarse else _finer(transform, target, number)
    return None


def _coarser(transform: str, target: str, value: int) -> int:
    if transform == "month":
        return value // 12
    days = value // 24 if transform == "hour" else value
    if target == "day":
        return days
    on = EPOCH + timedelta(days=days)
    return on.year - 1970 if target == "year" else (on.year - 1970) * 12 + on.month - 1


def _finer(transform: str, target: str, value: int) -> Choices:
    if transform == "year" and target == "month":
        return tuple(range(value * 12, value * 12 + 12))
    first, end = (_first_day(transform, each) for each in (value, value + 1))
    return tuple(range(first, end)) if target == "day" else tuple(range(first * 24, end * 24))


def _first_day(transform: str, value: int) -> int:
    if transform == "day":
        return value
    months = value * 12 if transform == "year" else value
    return (date(1970 + months // 12, months % 12 + 1, 1) - EPOCH).days


def _by_bounds(field: PartitionField, schema: Schema, data: DataFile) -> Choices | None:
    """The possible values by the bounds of the column in one file; None if they do not tell."""
    transform, source = str(field.transform), field.source_id
    if transform == "void":
        return (None,)
    nulls = (data.null_value_counts or {}).get(source)
    if nulls is not None and nulls == (data.value_counts or {}).get(source):
        return (None,)
    if (data.nan_value_counts or {}).get(source) or str(schema.find_type(source)) in ("float", "double"):
        return None
    low, high = bound(schema, source, data.lower_bounds), bound(schema, source, data.upper_bounds)
    if low is None or high is None:
        return None
    found = _between(field, schema, low, high)
    return found if found is None or nulls == 0 else (*found, None)


def _between(field: PartitionField, schema: Schema, low: Any, high: Any) -> Choices | None:
    transform, kind = str(field.transform), str(schema.find_type(field.source_id))
    if low == high:
        return (_transformed(field, schema, low),)
    if kind == "boolean":
        return tuple({_transformed(field, schema, value) for value in (False, True)})
    if transform.startswith("bucket"):
        return tuple(range(int(getattr(field.transform, "num_buckets"))))  # noqa: B009  # only this transform has it
    first, last = _transformed(field, schema, low), _transformed(field, schema, high)
    if comparable(first) == comparable(last):
        return (first,)  # every transform but a bucket keeps the order
    step = 1
    if transform.startswith("truncate") and kind in _WHOLE:
        step = int(getattr(field.transform, "width"))  # noqa: B009  # only this transform has it
    elif transform not in _SPANS and not (transform == "identity" and kind in _WHOLE):
        return None
    start, end = (int(comparable(each)) for each in (first, last))  # type: ignore[call-overload]  # whole numbers or dates
    return tuple(range(start, end + 1, step)) if (end - start) // step < MOST else None


def bound(schema: Schema, source: int, bounds: Mapping[int, bytes] | None) -> Any:
    """A column bound of a file as a value; None if there is none, or it was written with another type."""
    from pyiceberg.conversions import from_bytes
    from pyiceberg.types import PrimitiveType

    kind, written = schema.find_type(source), (bounds or {}).get(source)
    if written is None or not isinstance(kind, PrimitiveType):
        return None
    try:
        return from_bytes(kind, written)
    except (struct.error, ValueError):
        return None


def _transformed(field: PartitionField, schema: Schema, value: Any) -> Any:
    return field.transform.transform(schema.find_type(field.source_id))(value)


def _read(table: Table, files: Sequence[DataFile]) -> int | None:
    """The number of partitions of the current spec in these files, from their rows; None if they cannot be read."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan
    from pyiceberg.table import FileScanTask

    spec, schema = table.spec(), table.schema()
    sources = {field.source_id: schema.find_column_name(field.source_id) for field in spec.fields}
    names = [name for name in sources.values() if name is not None]
    if len(names) < len(sources) or any("." in name for name in names):
        return None  # a nested column: PyIceberg would read the whole struct
    try:
        scan = ArrowScan(table.metadata, table.io, schema.select(*names), AlwaysTrue())
        rows = scan.to_table([FileScanTask(data) for data in files])
        distinct = rows.group_by(names).aggregate([]).to_pylist()
        made = {
            tuple(comparable(_of_row(field, schema, row[str(sources[field.source_id])])) for field in spec.fields)
            for row in distinct
        }
    except (OSError, ValueError, TypeError, OverflowError):  # a missing file, or values that Python cannot hold
        return None
    return len(made)


def _of_row(field: PartitionField, schema: Schema, value: Any) -> Any:
    from pyiceberg.types import DateType, TimestampType, TimestamptzType, TimeType

    timed = isinstance(schema.find_type(field.source_id), DateType | TimestampType | TimestamptzType | TimeType)
    return _transformed(field, schema, comparable(value) if timed and value is not None else value)
