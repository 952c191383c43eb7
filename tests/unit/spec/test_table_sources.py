"""Tables of the lake as sources: what is refused, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from problems import texts

FEED = """\
owner: o
source:
  iceberg: {table: ns.up, max_files_per_trigger: 10}
sink:
  iceberg: {table: ns.down}
"""
UP = """\
owner: o
source:
  kafka: {topics: [t], max_offsets_per_trigger: 10}
decode: {json: "id INT, at TIMESTAMP"}
sink:
  iceberg: {table: ns.up}
"""


def test_a_stream_of_a_table_needs_no_columns_and_no_quarantine(stream: Callable[..., Any]) -> None:
    loaded = stream(FEED)
    assert texts(loaded) == ""
    assert loaded.streams["a"].spec.lineage == "none"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max_files_per_trigger: 10", "skip: [deletes]",
         "max_files_per_trigger or max_rows_per_trigger is required"),
        ("max_files_per_trigger: 10", "max_files_per_trigger: 1, starting: latest, starting_snapshot: 7",
         "starting and starting_snapshot: a stream has one starting point"),
        ("max_files_per_trigger: 10", "max_files_per_trigger: 1, starting_timestamp: '2026-03-01 10:00:00'",
         "this has no time zone"),
        ("max_files_per_trigger: 10", "max_files_per_trigger: 1, starting_timestamp: yesterday", "this is not a time"),
        ("max_files_per_trigger: 10", "max_files_per_trigger: 1, skip: [replaces]", "replaces"),
        ("ns.down", "ns.up", "the stream lands in this table: it would feed itself"),
        ("{table: ns.down}", "{table: ns.down}\nquarantine: {table: ns.up}", "puts bad rows into this table"),
        ("sink:", "decode: {json: 'n INT'}\nsink:", "decode belongs to records of bytes; ns.up has columns"),
        ("max_files_per_trigger: 10}",
         "max_files_per_trigger: 1, starting: latest}\ntrigger: {available_now: true, schedule: '0 * * * *'}",
         "behind the newest commit there is nothing"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_reported(stream: Callable[..., Any], old: str, new: str, message: str) -> None:
    assert message in texts(stream(FEED.replace(old, new)))


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        ("iceberg: {table: ns.up, mode: upsert, keys: [id], order_by: at}", "stream up lands here by mode upsert"),
        ("delta: {table: ns.up}", "stream up makes this table as delta; say delta:"),
    ],
)
def test_a_table_that_cannot_be_read_as_a_stream_is_reported_by_who_lands_in_it(
    project: Callable[..., Any], sink: str, message: str
) -> None:
    files = {"conf/streams/up.yaml": UP.replace("iceberg: {table: ns.up}", sink), "conf/streams/down.yaml": FEED}
    assert message in texts(project(files))


def test_streams_that_feed_each_other_in_a_circle_are_refused(project: Callable[..., Any]) -> None:
    back = FEED.replace("ns.up", "ns.x").replace("ns.down", "ns.up").replace("ns.x", "ns.down")
    assert texts(project({"conf/streams/up.yaml": UP, "conf/streams/down.yaml": FEED})) == ""
    said = texts(project({"conf/streams/back.yaml": back, "conf/streams/down.yaml": FEED}))
    assert "stream back reads, over this stream's table, what this one lands: a circle" in said


def test_a_delta_table_is_read_with_a_cap_too(stream: Callable[..., Any]) -> None:
    feed = FEED.replace("iceberg: {table: ns.up, max_files_per_trigger: 10}", "delta: {table: ns.up}")
    assert "max_files_per_trigger or max_bytes_per_trigger is required" in texts(stream(feed))
    assert texts(stream(feed.replace("ns.up}", "ns.up, max_bytes_per_trigger: 64MB, starting_version: 0}"))) == ""
