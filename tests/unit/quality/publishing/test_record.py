"""Two runs at once: what the one proved meanwhile is not taken back by the other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog

from lakeward.quality.publishing.record import repair_branch
from lakeward.quality.publishing.release import release
from lakeward.quality.ranges.metadata import history
from lakeward.quality.ranges.range import decide
from lakeward.quality.ranges.snapshot_chain import History, Mark
from lakeward.quality.runs.formats import IcebergTable
from lakeward.registry import verifications


@pytest.fixture
def table() -> str:
    return f"n.t{uuid4().hex[:8]}"


@pytest.fixture
def lake(tmp_path: Path, table: str) -> Iterator[Catalog]:
    """A catalog of PyIceberg's own with the table after two appends."""
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    made.create_namespace("n")
    rows = pa.table({"id": [1]})
    created = made.create_table(table, rows.schema)
    created.append(rows)
    created.append(rows)
    yield made
    made.engine.dispose()


@pytest.fixture
def engines(lake: Catalog, other: Any) -> Any:
    """A registry and a catalog; no session: none is needed."""
    return SimpleNamespace(lake=lake, session=None, registry=other, keeping=other, prove=lambda: None)


def prove(engines: Any, table: str, snapshot: int, sequence: int, **more: Any) -> None:
    """A run that proves the snapshot, as it is kept."""
    run = {
        "run": uuid4().hex, "table": table, "suite": "s", "scope": "increment", "at": datetime.now(UTC),
        "from_snapshot": None, "to_snapshot": snapshot, "to_sequence": sequence, "verdict": "pass",
        "first_bad_snapshot": None, "verified_snapshot": snapshot, "batches": [], "spark_jobs": 0, "duration_s": 0.0,
        "note": "", "cpu_s": None, **more,
    }  # fmt: skip
    with engines.registry() as connection:
        verifications.record(connection, run, [])


def branch(lake: Catalog, table: str, snapshot: int) -> History:
    lake.load_table(table).manage_snapshots().create_branch(snapshot, "verified").commit()
    return history(lake, table)


def test_what_a_run_beside_proved_after_the_results_were_read_is_not_taken_back(engines, lake, table) -> None:
    first, second = sorted(history(lake, table).snapshots.values(), key=lambda each: each.sequence or 0)
    prove(engines, table, first.id, 1)
    prove(engines, table, second.id, 2)
    now = branch(lake, table, second.id)
    stale = decide(now, [Mark(first.id, 1)])
    assert repair_branch(stale, now, IcebergTable(table, lake), engines).verified == second.id
    assert history(lake, table).verified == second.id


def test_what_nobody_proved_is_taken_back(engines, lake, table) -> None:
    first, second = sorted(history(lake, table).snapshots.values(), key=lambda each: each.sequence or 0)
    prove(engines, table, first.id, 1)
    now = branch(lake, table, second.id)
    settled = repair_branch(decide(now, [Mark(first.id, 1)]), now, IcebergTable(table, lake), engines)
    assert settled.verified == first.id
    assert history(lake, table).verified == first.id


def test_the_results_of_a_release_are_published_although_those_of_the_held_run_are_already(
    engines, lake, table
) -> None:
    _, second = sorted(history(lake, table).snapshots.values(), key=lambda each: each.sequence or 0)
    prove(engines, table, second.id, 2, verdict="hold", verified_snapshot=None)
    branch(lake, table, second.id)  # nothing is left to move, so no session is needed
    with engines.registry() as connection:
        (held,) = verifications.newest(connection, table)
        verifications.mark_published(connection, [held["run"]])
    done = release(engines.registry, IcebergTable(table, lake), lambda: None, author="ann", comment="known")
    with engines.registry() as connection:
        waiting = {run["run"] for run in verifications.unpublished(connection, 1000) if run["table"] == table}
    assert waiting == {done["run"]}
