"""What a log states of added files is used where it is exact, and nowhere else."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.delta.log import Head
from lakeward.quality.delta.stats import file_statistics
from lakeward.quality.ranges.file_statistics import ColumnFacts

KINDS = {
    "id": "long",
    "x": "double",
    "f": "float",
    "day": "date",
    "name": "string",
    "at": "timestamp",
    "part": "string",
}


def add(rows: int, *, part: str | None = "p", **stated: Any) -> dict[str, Any]:
    """One file; `stated` is column -> (nulls, low, high)."""
    stats = {
        "numRecords": rows,
        "nullCount": {name: each[0] for name, each in stated.items()},
        "minValues": {name: each[1] for name, each in stated.items() if each[1] is not None},
        "maxValues": {name: each[2] for name, each in stated.items() if each[2] is not None},
    }
    return {"partitionValues": {"part": part}, "stats": json.dumps(stats)}


@pytest.fixture
def head(tmp_path: Path) -> Head:
    fields = [{"name": name, "type": kind} for name, kind in KINDS.items()]
    fields.append({"name": "inner", "type": {"type": "struct", "fields": []}})
    schema = json.dumps({"type": "struct", "fields": fields})
    return Head(tmp_path, 1, {"id": "u", "schemaString": schema, "partitionColumns": ["part"]}, {}, {1: 1})


def facts(head: Head, name: str, *adds: dict[str, Any]) -> ColumnFacts:
    found = file_statistics(head, adds)
    assert found is not None
    return found.columns[name]


def test_whole_numbers_doubles_and_dates_are_exact(head: Head) -> None:
    two = add(5, id=(1, 2, 9), x=(0, -0.5, 2.5), day=(5, None, None)), add(3, id=(0, -4, 3), x=(0, 1, 1), day=(
        0, "2013-01-01", "2013-12-31"))  # fmt: skip
    found = file_statistics(head, two)
    assert found is not None and found.rows == 8
    assert found.columns["id"] == ColumnFacts(1, True, -4, 9)
    assert found.columns["x"] == ColumnFacts(0, True, -0.5, 2.5)
    assert found.columns["day"] == ColumnFacts(5, True, date(2013, 1, 1), date(2013, 12, 31))
    assert "inner" not in found.columns


def test_a_float_is_what_spark_gives_and_not_the_text_of_it(head: Head) -> None:
    assert facts(head, "f", add(1, f=(0, 0.1, 0.1))).high == pytest.approx(0.10000000149, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "stated"),
    [
        ("name", (1, "a", "b")), ("at", (1, "2024-01-01T00:00:00.123Z", "2024-01-01T00:00:00.124Z")),
        ("x", (1, 1.0, "NaN")), ("x", (1, None, 2.0)), ("id", (1, 1.5, 2)), ("day", (1, "+12013-01-01", "2013-01-01")),
    ],
)  # fmt: skip
def test_bounds_that_may_be_cut_or_hide_something_are_not_known(head: Head, name: str, stated: Any) -> None:
    assert facts(head, name, add(5, **{name: stated})) == ColumnFacts(1)


def test_a_column_some_file_keeps_nothing_of_is_not_known(head: Head) -> None:
    assert facts(head, "id", add(5, id=(0, 1, 2)), add(5)) == ColumnFacts()


def test_bounds_that_are_not_tight_are_not_believed(head: Head) -> None:
    loose = add(5, id=(0, 1, 2))
    loose["stats"] = json.dumps(json.loads(loose["stats"]) | {"tightBounds": False})
    assert facts(head, "id", loose) == ColumnFacts()


def test_a_partition_without_a_value_is_null_in_every_row(head: Head) -> None:
    assert facts(head, "part", add(5), add(3, part=None)) == ColumnFacts(3)


def test_without_the_number_of_rows_or_with_deletion_vectors_nothing_is_known(head: Head) -> None:
    assert file_statistics(head, []) is None
    assert file_statistics(head, [{"stats": None}]) is None
    assert file_statistics(head, [add(5) | {"deletionVector": {"cardinality": 1}}]) is None


def test_mapped_columns_have_the_statistics_of_their_stored_names(tmp_path: Path) -> None:
    """`a` and `b` swapped their names, and the partition column was renamed: the log still has the names before."""
    stored = {"a": "b", "b": "a", "part": "col-1"}
    fields = [
        {"name": name, "type": "long" if name != "part" else "string", "metadata": {
            "delta.columnMapping.physicalName": each}}
        for name, each in stored.items()
    ]  # fmt: skip
    metadata = {
        "id": "u", "schemaString": json.dumps({"type": "struct", "fields": fields}), "partitionColumns": ["part"],
        "configuration": {"delta.columnMapping.mode": "name"},
    }  # fmt: skip
    head = Head(tmp_path, 1, metadata, {}, {1: 1})
    file = add(10, a=(3, 1, 5), b=(0, 7, 9)) | {"partitionValues": {"col-1": "p"}}
    assert facts(head, "a", file) == ColumnFacts(0, True, 7, 9)
    assert facts(head, "b", file) == ColumnFacts(3, True, 1, 5)
    assert facts(head, "part", file) == ColumnFacts(0)
