"""What PyIceberg's own metadata of real files states, and when it is not exact."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import DateType, NestedField, TimestampType, TimestamptzType

from lakeward.quality.ranges.file_statistics import FileStatistics, _value, file_statistics
from lakeward.quality.ranges.metadata import _snapshot
from lakeward.quality.ranges.range import Read
from lakeward.quality.ranges.snapshot_chain import Snapshot
from lakeward.quality.suite.column_facts import Metrics, _known

SCHEMA = pa.schema(
    [("id", pa.int64()), ("n", pa.int32()), ("text", pa.string()), ("day", pa.date32()),
     ("at", pa.timestamp("us", tz="UTC")), ("x", pa.float64())]
)  # fmt: skip


@pytest.fixture
def table(tmp_path: Path):
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("t", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("ns")
    yield catalog.create_table("ns.t", SCHEMA)
    catalog.close()


@pytest.fixture
def append(table) -> Callable[..., Snapshot]:
    def do(ids: range, n: int | None = 1) -> Snapshot:
        day, at = date(2026, 1, 1), datetime(2026, 1, 2, 3, tzinfo=UTC)
        rows = [{"id": id, "n": n, "text": "a", "day": day, "at": at, "x": 1.0} for id in ids]
        table.append(pa.Table.from_pylist(rows, SCHEMA))
        return _snapshot(table.current_snapshot())

    return do


def of(table: Any, read: Read, *appends: Snapshot) -> FileStatistics:
    found = file_statistics(table, read, appends)
    assert found is not None
    return found


def test_a_range_tells_of_its_own_rows_only(table, append) -> None:
    first, second, third = append(range(10), n=None), append(range(10, 30), n=5), append(range(30, 35), n=-2)
    found = of(table, Read(first.id, third.id), third, second)
    assert found.rows == 25
    assert (found.columns["n"].nulls, found.columns["n"].low, found.columns["n"].high) == (0, -2, 5)
    assert (found.columns["id"].low, found.columns["id"].high) == (10, 34)
    whole = of(table, Read(None, third.id))
    assert (whole.rows, whole.columns["n"].nulls, whole.columns["n"].low) == (35, 10, -2)


def test_nothing_is_stated_about_rows_found_by_their_lineage(table, append) -> None:
    head = append(range(10))
    assert file_statistics(table, Read(None, head.id, since=0), ()) is None


def test_days_and_times_are_as_spark_gives_them(table, append) -> None:
    head = append(range(3))
    columns = of(table, Read(None, head.id)).columns
    assert columns["day"].high == date(2026, 1, 1)
    assert columns["at"].low == datetime(2026, 1, 2, 3), "without a zone, in UTC"


def test_text_has_no_bounds_and_a_column_of_nulls_has_empty_ones(table, append) -> None:
    columns = of(table, Read(None, append(range(3), n=None).id)).columns
    assert (columns["text"].nulls, columns["text"].bounded) == (0, False)
    assert (columns["n"].nulls, columns["n"].bounded, columns["n"].low) == (3, True, None)


def test_numbers_that_may_hide_nan_are_not_known(table, append) -> None:
    assert not of(table, Read(None, append(range(3)).id)).columns["x"].bounded, "PyIceberg counts no NaN"


def test_a_column_that_older_files_do_not_have_is_not_known(table, append) -> None:
    append(range(3))
    with table.update_schema() as update:
        update.add_column("later", table.schema().find_type("n"))
    assert file_statistics(table, Read(None, table.current_snapshot().snapshot_id), ()) is None, (
        "the snapshot's schema is older"
    )
    table.append(pa.Table.from_pylist([{"id": 9, "later": 4}], SCHEMA.append(pa.field("later", pa.int32()))))
    assert of(table, Read(None, table.current_snapshot().snapshot_id)).columns["later"].nulls is None


def test_commits_whose_files_are_not_what_they_said_prove_nothing(table, append) -> None:
    first, second = append(range(3)), append(range(5))
    lies = Snapshot(second.id, second.parent, second.sequence, second.at, "append", added=6)
    assert file_statistics(table, Read(first.id, second.id), (second,)) is not None
    assert file_statistics(table, Read(first.id, second.id), (lies,)) is None


def test_no_rows_and_a_snapshot_that_is_gone_are_not_known(table, append) -> None:
    head = append(range(3))
    assert file_statistics(table, Read(None, 1), ()) is None
    assert file_statistics(table, Read(head.id, head.id), ()) is None


@pytest.mark.parametrize(("kind", "stored"), [
    (DateType(), struct.pack("<i", 20_819_000)), (DateType(), struct.pack("<i", -2_000_000)),
    (TimestamptzType(), struct.pack("<q", 1_767_225_600_000_000_000)),
    (TimestampType(), struct.pack("<q", -100_000_000_000_000_000)),
])  # fmt: skip
def test_bounds_that_python_cannot_hold_are_left_to_spark(kind: Any, stored: bytes) -> None:
    assert _value(kind, stored) is None


def test_a_profile_of_times_that_python_cannot_hold_has_no_newest() -> None:
    field = NestedField(1, "at", TimestamptzType())
    assert _known(field, Metrics(low=0, high=1_767_225_600_000_000_000), set()).newest is None
    assert _known(field, Metrics(low=0, high=1_000_000), set()).newest == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
