"""Advice: only where the newest commits say it, and only where following it would help."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakeward.registry import generations, streams
from lakeward.spec.model.policy import Compact
from lakeward.tables.facts import PartitionFacts
from lakeward.tables.needs import read_registry
from lakeward.tables.plan.advice import IntervalStream, advice

MB = 1 << 20
SMALL = {"added-data-files": "4", "added-files-size": str(4 * MB), "changed-partition-count": "4"}
TEN_S = IntervalStream("flights", timedelta(seconds=10), timedelta(minutes=5))


def parts(count: int, size: int, *, written: Any) -> tuple[PartitionFacts, ...]:
    return tuple(
        PartitionFacts(
            key=f"origin=EWR/hour={n}", where="x", files=1, bytes=size, records=1, small=1, small_bytes=size,
            fragments=1, fragment_bytes=size, last_written=written,
        )
        for n in range(count)
    )  # fmt: skip


def said(facts: Any, now: Any, *feeds: IntervalStream) -> tuple[str, ...]:
    return advice(facts, Compact(), feeds, now)


def test_a_trigger_that_makes_small_files_is_reported_with_what_a_longer_one_saves(facts, chain, now):
    (line,) = said(facts(chain(20, **SMALL)), now, TEN_S)
    assert line == (
        "stream flights commits every 10 s, 4 files of 1.0 MB each time: trigger every 60 s makes 6 times fewer, "
        "within its freshness of 5 min"
    )


@pytest.mark.parametrize(
    ("feed", "summary", "commits"),
    [
        (IntervalStream("s", timedelta(minutes=1), timedelta(minutes=5)), SMALL, 20),  # long enough
        (
            IntervalStream("s", timedelta(seconds=10), timedelta(seconds=30)),
            SMALL,
            20,
        ),  # its freshness forbids twice that
        (IntervalStream("s", timedelta(0), timedelta(minutes=5)), SMALL, 20),  # no interval at all
        (TEN_S, SMALL | {"added-files-size": str(400 * MB)}, 20),  # its files are large
        (TEN_S, SMALL, 9),  # nobody knows yet
        (TEN_S, {}, 20),  # what the commits wrote is not told
    ],
)
def test_a_trigger_is_left_alone_where_another_would_not_help(facts, chain, now, feed, summary, commits):
    assert said(facts(chain(commits, **summary)), now, feed) == ()


def test_rewrites_are_no_commits_of_a_stream(facts, chain, now):
    rewritten = tuple(replace(each, operation="replace") for each in chain(20, **SMALL))
    assert said(facts(rewritten), now, TEN_S) == ()


@pytest.mark.parametrize(("mode", "words"), [("none", "is none"), (None, "is not set"), ("hash", ""), ("range", "")])
def test_a_distribution_that_scatters_is_reported_with_the_statement_that_ends_it(facts, chain, now, mode, words):
    scattered = SMALL | {"added-data-files": "12"}
    properties = {"write.distribution-mode": mode} if mode else {}
    lines = said(facts(chain(20, **scattered), **properties), now)
    if not words:
        assert lines == ()
        return
    (line,) = lines
    assert f"a commit writes 3 files into each partition, one for each task (write.distribution-mode {words})" in line
    assert "ALTER TABLE lake.nyc.flights SET TBLPROPERTIES ('write.distribution-mode' = 'hash')" in line


def test_one_file_a_partition_is_no_fault_of_the_distribution(facts, chain, now):
    assert said(facts(chain(20, **SMALL), **{"write.distribution-mode": "none"}), now) == ()


def test_partitions_that_stay_small_are_reported_once_they_are_finished(facts, now):
    old = now - timedelta(hours=5)
    (line,) = said(facts(partitions=parts(40, MB, written=old)), now)
    assert line == (
        "40 partitions by origin, hour, and half of the 40 finished ones have less than 1.0 MB: no compaction "
        "makes larger files of them; a coarser partitioning does"
    )
    assert said(facts(partitions=parts(40, 20 * MB, written=old)), now) == ()
    assert said(facts(partitions=parts(40, MB, written=now)), now) == ()
    assert said(facts(partitions=parts(12, MB, written=old)), now) == ()


def test_the_streams_that_feed_a_table_are_those_that_run_by_an_interval(registry):
    spec = {"sink": {"iceberg": {"table": "nyc.a"}}, "trigger": {"every": "10s"}}
    for name, desired, changed in (
        ("runs", "running", {}),
        ("stopped", "stopped", {}),
        ("rests", "running", {"trigger": {"available_now": True}}),
        ("fresh", "running", {"limits": {"freshness": "20s"}}),
    ):
        streams.accept(registry, name, generation=1, driver="d", desired=desired)
        generations.add(
            registry, stream=name, generation=1, spec=spec | changed, digest="d", sql=None, code={}, versions={},
            author="test", checkpoint="c",
        )  # fmt: skip
    feeds = {each.stream: each for each in read_registry(registry).feeds["nyc.a"]}
    assert set(feeds) == {"runs", "fresh"}
    assert feeds["runs"] == IntervalStream("runs", timedelta(seconds=10), timedelta(minutes=5))
    assert feeds["fresh"].freshness == timedelta(seconds=20)
