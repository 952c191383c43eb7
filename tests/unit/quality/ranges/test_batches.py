"""Versions of Delta tables are numbers that repeat: a batch counts only for the commit that names it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from lakeward.quality.ranges.batches import batches_of
from lakeward.quality.ranges.snapshot_chain import Snapshot
from lakeward.registry import batches

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def test_a_batch_of_another_table_or_of_the_table_that_was_there_before_is_not_taken(registry: Any) -> None:
    mine, theirs, version = uuid4().hex, uuid4().hex, 5
    for number, (stream, seq) in enumerate(((mine, 3), (mine, 9), (theirs, 3))):
        batches.record(
            registry, stream=stream, query_id=uuid4().hex, batch_id=number, seq=seq, snapshot_id=version, generation=1,
            committed_at=NOW,
        )  # fmt: skip
    delta = Snapshot(version, 4, version, NOW, "append", 10, wap_id=f"{mine}/9/nonce", commit="u/t")
    assert [(each.stream, each.seq) for each in batches_of(registry, [delta])] == [(mine, 9)]
    assert batches_of(registry, [replace(delta, wap_id=None)]) == []
    iceberg = [each for each in batches_of(registry, [replace(delta, commit=None)]) if each.stream in (mine, theirs)]
    assert len(iceberg) == 3, "a snapshot of Iceberg is one table's alone"
