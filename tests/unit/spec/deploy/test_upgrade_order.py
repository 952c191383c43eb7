"""Upgrade order between a stream and the streams that read its table."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.spec.deploy.upgrade_order import landed_columns, order
from lakeward.spec.model.stream import StreamSpec


def up(sql: str = "SELECT id, at, name FROM source", **more: Any) -> StreamSpec:
    return StreamSpec.model_validate({
        "id": "up", "owner": "o", "source": {"kafka": {"topics": ["t"], "max_offsets_per_trigger": 10}},
        "decode": {"json": "id INT, at TIMESTAMP, Name STRING"}, "transform": {"sql": sql},
        "sink": {"iceberg": {"table": "ns.up"}}, **more,
    })  # fmt: skip


def down(sql: str) -> StreamSpec:
    return StreamSpec.model_validate({
        "id": "down", "owner": "o", "source": {"iceberg": {"table": "ns.up", "max_files_per_trigger": 1}},
        "transform": {"sql": sql}, "sink": {"iceberg": {"table": "ns.down"}},
    })  # fmt: skip


def said(before: StreamSpec, after: StreamSpec, reader: StreamSpec) -> list[str]:
    return order({"up": before, "down": reader}, {"up": after, "down": reader}).get("up", [])


@pytest.mark.parametrize(
    ("new", "reader", "words"),
    [
        ("SELECT id, at FROM source", "SELECT upper(NAME) AS n FROM source", "stream down reads name of ns.up, which"),
        ("SELECT id, at, name AS label FROM source", "SELECT * FROM source", "change and upgrade down first"),
        ("SELECT id, at FROM source", "SELECT id FROM source", None),
        ("SELECT id, at, name, 1 AS more FROM source", "SELECT * FROM source", None),
        ("SELECT source.* FROM source", "SELECT id FROM source", "remove a column there first"),
    ],
)
def test_a_column_that_goes_is_reported_where_it_is_read(new: str, reader: str, words: str | None) -> None:
    found = said(up(), up(new), down(reader))
    assert (words is None) == (found == [])
    assert all(str(words) in each for each in found)


def test_what_does_not_change_columns_says_nothing() -> None:
    assert said(up(), up(trigger={"every": "1m"}), down("SELECT * FROM source")) == []
    assert order({}, {"up": up(), "down": down("SELECT * FROM source")}) == {}, "a new stream takes nothing away"


def test_a_star_gives_what_the_source_declares_and_the_record_brings() -> None:
    assert set(landed_columns(up("SELECT * FROM source")) or ()) >= {"id", "at", "name", "_kafka_offset"}
    assert landed_columns(down("SELECT * FROM source")) is None, "a table's columns stand in no file"
