"""A preview's own decisions; the whole command is in `tests/spark/cli/test_preview.py`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lakeward.operations import preview
from lakeward.platform.errors import SpecError
from lakeward.spec.model.stream import StreamSpec


def spec(lab: Any, sql: str, **more: Any) -> StreamSpec:
    return StreamSpec.model_validate(lab.spec("t", transform={"sql": sql}, **more))


def records(*values: Any) -> preview.Samples:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    return {"source": [(None, json.dumps(each).encode(), None, "t", 0, n, at) for n, each in enumerate(values)]}


def test_groups_are_those_of_the_sample_and_that_is_said(lab: Any) -> None:
    grouped = spec(lab, "SELECT s, count(*) AS c FROM source GROUP BY s", lineage="none")
    found = preview.of(lab.spark.newSession(), grouped, lab.runtime, records({"s": "a"}, {"s": "a"}, {"s": "b"}), 1)
    assert (found.read, found.landed, len(found.rows)) == (3, 2, 1)
    assert "see only the sample" in found.notes[0]


@pytest.mark.parametrize("sql", ["SELECT 1 DIV n AS d FROM source", "SELECT nope FROM source"])
def test_sql_that_fails_is_said_in_a_sentence(lab: Any, sql: str) -> None:
    with pytest.raises(SpecError, match="does not work on this sample") as failed:
        preview.of(lab.spark.newSession(), spec(lab, sql), lab.runtime, records({"n": 0}), 5)
    assert len(failed.value.why.splitlines()) == 1


def test_an_empty_source_has_columns_all_the_same(lab: Any) -> None:
    found = preview.of(lab.spark.newSession(), spec(lab, "SELECT n FROM source"), lab.runtime, records(), 5)
    assert (found.read, found.rows, found.columns) == (0, [], {"n": "int"})


def test_a_source_without_a_sample_is_refused(lab: Any) -> None:
    other = spec(lab, "SELECT * FROM source", source={"rate": {}})
    with pytest.raises(SpecError, match="cannot be previewed yet"):
        preview.newest_samples(other, lab.runtime, 5)


def test_a_table_shows_its_newest_rows(lab: Any) -> None:
    lab.spark.sql(f"CREATE TABLE lake.{lab.namespace}.up (n INT)")
    feed = {"iceberg": {"table": f"{lab.namespace}.up", "max_rows_per_trigger": 5}}
    document = lab.spec("t", transform={"sql": "SELECT n * 10 AS ten FROM source"}, source=feed, lineage="none")
    document.pop("decode")
    of_table = StreamSpec.model_validate(document)
    assert preview.newest_samples(of_table, lab.runtime, 2) == {}
    assert preview.of(lab.spark.newSession(), of_table, lab.runtime, {}, 2).read == 0
    for number in range(3):
        lab.spark.sql(f"INSERT INTO lake.{lab.namespace}.up VALUES ({number})")
    found = preview.of(lab.spark.newSession(), of_table, lab.runtime, {}, 2)
    assert sorted(row["ten"] for row in found.rows) == [10, 20]
