"""Results in the lake: each run once, whoever dies or is faster. A real registry and a real catalog."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

from lakeward.quality.results import results_table
from lakeward.quality.results.results_table import TABLE, publish, remove_before
from lakeward.registry import verifications

RUN = {"table": "n.t", "suite": "s", "scope": "increment", "verdict": "hold", "to_snapshot": 7, "cpu_s": 0.25}
CHECK = {
    "check": "c1", "expectation": "expect_x", "severity": "critical", "state": "fail", "unexpected_count": 3,
    "observed": {"value": {"p": 0.5}, "rows": 9, "kwargs": {"column": "a"}, "scope": "window", "waived": False},
    "sample": [{"name": "somebody"}],
}  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Catalog]:
    """A catalog of PyIceberg's own: its compare-and-set is the same statement on SQLite as on PostgreSQL."""
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    yield made
    made.engine.dispose()


def record(registry: Any, name: str, *checks: dict[str, Any]) -> None:
    verifications.record(registry, {**RUN, "run": name}, list(checks))


def stored(lake: Catalog) -> list[dict[str, Any]]:
    rows = lake.load_table(TABLE).scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: (row["run"], row["check"] or ""))


def test_one_row_a_check_and_one_for_a_run_that_came_to_none(registry: Any, lake: Catalog) -> None:
    record(registry, "a", CHECK, {**CHECK, "check": "c2", "state": "pass", "observed": None})
    record(registry, "b")
    assert publish(registry, lake) == 2
    rows = stored(lake)
    assert [(row["run"], row["check"], row["run_checks"]) for row in rows] == [
        ("a", "c1", 2), ("a", "c2", 2), ("b", None, 0),
    ]  # fmt: skip
    first = rows[0]
    assert json.loads(first["observed"]) == {"p": 0.5} and json.loads(first["kwargs"]) == {"column": "a"}
    wanted = {"rows": 9, "unexpected_count": 3, "cpu_s": 0.25, "to_snapshot": 7, "check_scope": "window"}
    assert {name: first[name] for name in wanted} == wanted
    assert "somebody" not in str(rows), "failing rows have a shorter life"
    assert publish(registry, lake) == 0
    record(registry, "c", CHECK)
    assert publish(registry, lake) == 1
    assert [row["run"] for row in stored(lake)] == ["a", "a", "b", "c"]


def test_who_died_before_marking_is_believed(registry: Any, lake: Catalog) -> None:
    record(registry, "a", CHECK)
    with registry.begin_nested() as dying:
        publish(registry, lake)
        dying.rollback()
    record(registry, "b", CHECK)
    assert publish(registry, lake) == 2
    assert [row["run"] for row in stored(lake)] == ["a", "b"]


def test_who_woke_up_late_appends_nothing_twice(registry: Any, lake: Catalog, monkeypatch: Any) -> None:
    """A publisher looks, sleeps while its locks are lost and another one publishes, and goes on."""
    record(registry, "first", CHECK)
    publish(registry, lake)
    record(registry, "a", CHECK)
    arrow, woken = results_table._arrow, []

    def slept(rows: Any) -> Any:
        if not woken:
            woken.append(True)
            with registry.begin_nested() as other:
                publish(registry, lake)
                other.rollback()
        return arrow(rows)

    monkeypatch.setattr(results_table, "_arrow", slept)
    assert publish(registry, lake) == 1
    assert woken and [row["run"] for row in stored(lake)] == ["a", "first"]


def test_what_another_publisher_holds_is_left_to_it(registry: Any, lake: Catalog, monkeypatch: Any) -> None:
    record(registry, "a", CHECK)

    def busy(*_: Any) -> Any:
        raise CommitFailedException("busy")

    monkeypatch.setattr("pyiceberg.table.Table.append", busy)
    with pytest.raises(CommitFailedException):
        publish(registry, lake)
    assert [each["run"] for each in verifications.unpublished(registry, 9)] == ["a"], "the next run publishes it"


def test_months_that_are_over_go_whole(registry: Any, lake: Catalog) -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    for days in (0, 25, 60):
        verifications.record(registry, {**RUN, "run": f"d{days}", "at": now - timedelta(days=days)}, [CHECK])
    publish(registry, lake)
    remove_before(lake, now - timedelta(days=25))
    assert [row["run"] for row in stored(lake)] == ["d0", "d25"]
    before = lake.load_table(TABLE).current_snapshot()
    remove_before(lake, now - timedelta(days=25))
    assert lake.load_table(TABLE).current_snapshot() == before
