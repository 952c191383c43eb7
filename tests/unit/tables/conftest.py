"""Tables made of facts, and tables in a catalog of the tests' PostgreSQL: no engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from shared_files import SharedLake, deployment, opened

from lakeward.connectors.commit_protocol.position import Position, key
from lakeward.platform.runtime import Runtime
from lakeward.tables.facts import PartitionFacts, Profile, Ref, Snapshot, TableFacts, Thresholds

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MB = 1 << 20


@pytest.fixture
def where(postgres: Any, tmp_path: Path) -> Iterator[Runtime]:
    """A deployment of one test; modules that share one have a fixture of their own."""
    with deployment(postgres, tmp_path) as runtime:
        yield runtime


@pytest.fixture
def lake(where: Runtime, tmp_path: Path) -> Iterator[SharedLake]:
    """Its lake; the tables are dropped after the test."""
    with opened(where, tmp_path) as made:
        yield made
        made.drop()


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture
def chain() -> Callable[..., tuple[Snapshot, ...]]:
    """Snapshots 1..n, each the parent of the next, one a minute, the newest a minute old."""

    def make(count: int, *, every: timedelta = timedelta(minutes=1), **summary: str) -> tuple[Snapshot, ...]:
        return tuple(
            Snapshot(n, n - 1 if n > 1 else None, n, NOW - every * (count - n + 1), "append", summary)
            for n in range(1, count + 1)
        )

    return make


@pytest.fixture
def facts() -> Callable[..., TableFacts]:
    """A table from what matters to a test."""

    def make(
        snapshots: tuple[Snapshot, ...] = (),
        *,
        partitions: tuple[PartitionFacts, ...] = (),
        thresholds: Thresholds | None = None,
        positions: dict[str, Position] | None = None,
        refs: dict[str, Ref] | None = None,
        head: int | None = None,
        manifests: int = 1,
        **properties: Any,
    ) -> TableFacts:
        newest = head if head is not None else (snapshots[-1].id if snapshots else None)
        known = {each.id: each for each in snapshots}
        written = {key(stream): held.to_json() for stream, held in (positions or {}).items()}
        branches = {"main": Ref("branch", newest)} if newest is not None else {}
        return TableFacts(
            table="nyc.flights",
            format="iceberg",
            uuid="u",
            location="/lake/nyc/flights",
            metadata_location=f"/lake/nyc/flights/metadata/{newest}.json",
            format_version=2,
            snapshot_id=newest,
            sequence=known[newest].sequence if newest is not None else 0,
            properties=written | properties,
            refs=branches | (refs or {}),
            snapshots=snapshots,
            metadata_files=1,
            streams=tuple(sorted(positions or {})),
            catalog="lake",
            profile=Profile(
                newest,
                thresholds or Thresholds(target=128 * MB, small=96 * MB, fragment=16 * MB),
                files=sum(each.files for each in partitions),
                bytes=sum(each.bytes for each in partitions),
                data_manifests=manifests,
                manifests=manifests,
                partitions=partitions,
            ),
        )

    return make
