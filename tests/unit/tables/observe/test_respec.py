"""What the current partition spec makes of older files, of real tables of PyIceberg."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType, TimestampType
from pyiceberg.utils.datetime import datetime_to_micros

from lakeward.spec.model.policy import Compact
from lakeward.tables.facts import File, Thresholds, profile_of, summarise
from lakeward.tables.observe import respec
from lakeward.tables.observe.commits import moved_by
from lakeward.tables.observe.iceberg import table_facts
from lakeward.tables.plan.compact import judge

MB = 1 << 20
SIZES = Thresholds(MB, MB // 2, MB // 4)
SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "origin", StringType()), NestedField(3, "ts", TimestampType())
)
START = datetime(2013, 1, 15, 10)
TIMES = ("year", "month", "day", "hour")


@pytest.fixture
def make(tmp_path):
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("nyc")
    yield lambda spec=UNPARTITIONED_PARTITION_SPEC: catalog.create_table("nyc.flights", SCHEMA, partition_spec=spec)
    catalog.close()


def by(*fields: tuple[int, str]) -> PartitionSpec:
    made = [
        PartitionField(source, 1000 + n, parse_transform(transform), f"f{n}")
        for n, (source, transform) in enumerate(fields)
    ]
    return PartitionSpec(*made)


def rows(*at: timedelta, origins: tuple[str | None, ...] = ("EWR",)) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(len(at)), pa.int64()),
            "origin": pa.array([origins[n % len(origins)] for n in range(len(at))], pa.string()),
            "ts": pa.array([START + each for each in at], pa.timestamp("us")),
        }
    )


def parts(table):
    found = table_facts(table, lambda size, properties: SIZES)
    assert profile_of(found.profile.document()) == found.profile
    return {part.key: (part.files, part.stale, part.makes) for part in found.profile.partitions}


HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NUMBER = iter(range(10_000))


def file(table, values: tuple, first: timedelta = HOUR, last: timedelta = HOUR, rows: int = 10) -> DataFile:
    """A data file of the current spec that nobody opens: PyIceberg writes partitions by identity alone."""
    bounds = [to_bytes(TimestampType(), datetime_to_micros(START + each)) for each in (first, last)]
    return DataFile.from_args(
        content=DataFileContent.DATA, file_path=f"{table.location()}/{next(NUMBER)}.parquet",
        file_format=FileFormat.PARQUET, partition=Record(*values), record_count=rows, file_size_in_bytes=1000,
        value_counts={3: rows}, null_value_counts={3: 0}, lower_bounds={3: bounds[0]}, upper_bounds={3: bounds[1]},
        spec_id=table.spec().spec_id,
    )  # fmt: skip


def replace_files(table, *files: DataFile) -> int:
    """Commit these in place of all files of the table."""
    with table.transaction() as change, change.update_snapshot().overwrite() as overwrite:
        for task in table.scan().plan_files():
            overwrite.delete_data_file(task.file)
        for each in files:
            overwrite.append_data_file(each)
    return table.current_snapshot().snapshot_id


def add(table, *files: DataFile) -> None:
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        for each in files:
            append.append_data_file(each)


def hour(of: timedelta) -> int:
    return (START + of - datetime(1970, 1, 1)) // HOUR


def test_files_without_partitions_go_to_the_days_of_their_rows(make):
    table = make()
    for _ in range(3):
        table.append(rows(HOUR, 2 * HOUR))
    table.append(rows(HOUR, 2 * DAY))
    with table.update_spec() as update:
        update.add_field("ts", "day", "d")
    add(table, file(table, (hour(HOUR) // 24,)))
    assert parts(table) == {"d=2013-01-15": (4, 3, 1), "spec 0": (1, 1, 3)}


def test_hours_go_to_their_day_and_a_dropped_field_joins_what_it_parted(make):
    table = make(by((3, "hour"), (2, "identity")))
    for at in (HOUR, 2 * HOUR, 3 * HOUR, DAY):
        add(table, file(table, (hour(at), "EWR"), at, at))
    with table.update_spec() as update:
        update.remove_field("f0")
        update.remove_field("f1")
        update.add_field("ts", "day", "d")
    assert parts(table) == {"d=2013-01-15": (3, 3, 1), "d=2013-01-16": (1, 1, 1)}


def test_few_values_among_many_possible_ones_are_read(make):
    table = make()
    for _ in range(5):
        table.append(rows(HOUR, 900 * DAY, origins=("EWR", None)))
    with table.update_spec() as update:
        update.add_field("ts", "day", "d")
        update.add_field("origin", "identity", "o")
    assert parts(table) == {"spec 0": (5, 5, 2)}, "not nine hundred, and no file says so"


def test_what_cannot_be_read_is_not_known(make, monkeypatch):
    monkeypatch.setattr(respec, "READ_ROWS", 3)
    table = make()
    for _ in range(2):
        table.append(rows(HOUR, HOUR, origins=("EWR", "JFK")))
    with table.update_spec() as update:
        update.add_field("origin", "identity", "o")
    assert parts(table) == {"spec 0": (2, 2, None)}


def test_the_count_is_kept_while_the_files_are_the_same(make, monkeypatch):
    table = make()
    for _ in range(3):
        table.append(rows(HOUR, HOUR, origins=("EWR", "JFK")))
    with table.update_spec() as update:
        update.add_field("origin", "identity", "o")
    before = table_facts(table, lambda size, properties: SIZES).profile
    monkeypatch.setattr(respec, "_read", None)
    table.append(rows(HOUR))
    after = table_facts(table, lambda size, properties: SIZES, before).profile
    assert {part.key: part.makes for part in after.partitions} == {"spec 0": 2, "o=EWR": 0}


def worth(makes: int | None, fresh: int, stale: int) -> str:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    files = [File(1000, 1, now - timedelta(days=3), stale=n < stale) for n in range(fresh + stale)]
    part = summarise("p", "x", files, SIZES)
    return judge(part if makes is None or stale == 0 else part_with(part, makes), Compact(), SIZES, None, now).mode


def part_with(part, makes):
    return replace(part, makes=makes)


@pytest.mark.parametrize(
    ("makes", "fresh", "stale", "mode"),
    [
        (1, 0, 10, "final"),
        (9, 0, 10, "final"),
        (10, 0, 10, ""),
        (300, 0, 288, ""),
        (1, 9, 1, "final"),
        (0, 10, 0, "final"),
    ],
)
def test_a_rewrite_that_makes_as_many_files_as_it_takes_is_not_planned(makes, fresh, stale, mode):
    assert worth(makes, fresh, stale) == mode


def test_a_rewrite_into_an_unknown_number_of_files_is_not_planned():
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    part = summarise("p", "x", [File(1000, 1, now - timedelta(days=3), stale=True)] * 10, SIZES)
    due = judge(part_with(part, None), Compact(), SIZES, None, now)
    assert (due.mode, "is not known" in due.why) == ("", True)


@given(st.integers(-(6 * 10**16), 25 * 10**16), st.sampled_from(list(product(TIMES, TIMES))))
def test_the_partition_of_a_row_is_always_among_the_targets(micros, pair):
    old, new = pair
    kind = TimestampType()
    value, wanted = (parse_transform(each).transform(kind)(micros) for each in pair)
    field = PartitionField(3, 1000, parse_transform(new), "t")
    choices = respec._by_partition(field, SCHEMA, old, value)
    assert choices is not None
    assert wanted in choices
    assert len(choices) == 1 or TIMES.index(new) > TIMES.index(old)


D = hour(HOUR) // 24


def test_a_time_that_python_has_no_date_for_is_not_known(make):
    table = make()
    far = file(table, ())
    far.lower_bounds[3] = far.upper_bounds[3] = to_bytes(TimestampType(), 1_764_000_000_000_000_000)
    add(table, far)
    with table.update_spec() as update:
        update.add_field("ts", "year", "y")
    assert parts(table) == {"spec 0": (1, 1, None)}


CHANGES = {
    "none to days": ((), ((3, "day"),), [()], [(D,), (D + 1,)], [(20, 10)]),
    "days to hours": (((3, "day"),), ((3, "hour"),), [(D,)], [(D * 24,), (D * 24 + 1,)], [(20, 10)]),
    "hours to days": (((3, "hour"),), ((3, "day"),), [(D * 24,), (D * 24 + 1,)], [(D,)], [(10, 20)]),
    "a field added": (((3, "day"),), ((3, "day"), (2, "identity")), [(D,)], [(D, "EWR"), (D, None)], [(20, 10)]),
    "and moved": (((3, "day"),), ((3, "day"), (2, "identity")), [(D,)], [(D + 1, "EWR")], [(0, 10), (10, 0)]),
    "dropped": (
        ((2, "identity"), (3, "day")),
        ((3, "day"),),
        [("a", D), ("b", D), ("b", 1)],
        [(D,)],
        [(0, 10), (10, 20)],
    ),
    "the same": (((2, "identity"),), ((2, "identity"),), [(None,)], [("null",)], [(0, 10), (10, 0)]),
}


@pytest.mark.parametrize(("old", "new", "taken", "given", "moved"), CHANGES.values(), ids=CHANGES)
def test_rows_are_compared_by_the_fields_that_both_specs_have(make, old, new, taken, given, moved):
    table = make(by(*old))
    add(table, *(file(table, values) for values in taken))
    if new != old:
        with table.update_spec() as update:
            for n in range(len(old)):
                update.remove_field(f"f{n}")
            for n, (source, transform) in enumerate(new):
                update.add_field(SCHEMA.find_column_name(source), transform, f"g{n}")
    head = replace_files(table, *(file(table, values) for values in given))
    found = table_facts(table, lambda size, properties: SIZES)
    did = moved_by(table, [each for each in found.snapshots if each.id == head])[head]
    assert sorted((each.rows_in, each.rows_out) for each in did.values()) == moved
