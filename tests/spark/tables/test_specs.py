"""Tables whose partition spec changed: rewritten by what the current spec makes, proven by typed values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lakeward.registry import maintenance
from lakeward.tables.act.server import Statements
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.maintain import maintain_table

DAYS = "timestamp'2013-01-01' + make_interval(0, 0, 0, CAST(id AS INT))"
ROWS = (
    "SELECT id, if(id % 2 = 0, 'EWR', 'O''Hare'), timestamp'2013-01-15 10:00:00' + "
    "make_interval(0, 0, 0, 0, CAST(id % 3 AS INT)) FROM range(0, 6, 1, 1)"
)
CHANGES = {
    "none to days": ("", "ADD PARTITION FIELD days(ts)"),
    "days to hours": ("days(ts)", "REPLACE PARTITION FIELD days(ts) WITH hours(ts)"),
    "hours to days": ("hours(ts)", "REPLACE PARTITION FIELD hours(ts) WITH days(ts)"),
    "a field added": ("days(ts)", "ADD PARTITION FIELD origin"),
    "a bucket added": ("days(ts)", "ADD PARTITION FIELD bucket(2, id)"),
    "a field dropped": ("origin, days(ts)", "DROP PARTITION FIELD days(ts)"),
    "a dropped field's column again": ("origin", "DROP PARTITION FIELD origin; ADD PARTITION FIELD bucket(64, origin)"),
    "to none": ("origin", "DROP PARTITION FIELD origin"),
}


def state(table) -> tuple[list[tuple[int, int]], int]:
    rows = table.sql("SELECT id, count(*) AS n FROM {t} GROUP BY id ORDER BY id")
    return [(row.id, row.n) for row in rows], table.files()


def held(site: MaintenanceContext, table) -> str | None:
    with site.registry() as connection:
        return maintenance.all_tables(connection)[table.name].expiry_hold


HARDEST = ("days to hours", "a field dropped")
"""Time of one kind to another, and a field that format 1 keeps as `void`."""


@pytest.fixture(
    params=[
        each
        if each in HARDEST
        else pytest.param(each, marks=pytest.mark.campaign(held_by="test_it_is_compacted_and_proven_and_then_at_rest"))
        for each in CHANGES
    ]
)
def changed(request: pytest.FixtureRequest, make_table: Callable[..., Any]) -> Iterator[Any]:
    """Four small files a partition, and then another spec; format 1 keeps a dropped field as `void`."""
    partitions, change = CHANGES[request.param]
    table = make_table(partitions, **{"format-version": "1" if "DROP" in change else "2"})
    for _ in range(4):
        table.sql(f"INSERT INTO {{t}} {ROWS}")
    for each in change.split("; "):
        table.sql(f"ALTER TABLE {{t}} {each}")
    if ";" in change:  # a partition that is not due: a condition must leave it out
        table.sql("INSERT INTO {t} SELECT 7, 'zz', timestamp'2013-03-01 10:00:00'")
    return table


class Commits(Statements):
    """Runs the rewrite, while a stream commits before it."""

    def execute(self, statement: str) -> list[dict[str, object]]:
        if "rewrite_data_files" in statement:
            name = statement.split("table => 'lake.")[1].split("'")[0].replace("`", "")
            self._spark.sql(f"INSERT INTO lake.{name} SELECT 100, 'EWR', timestamp'2013-01-15 10:00:00'").collect()
        return super().execute(statement)


def test_it_is_compacted_and_proven_and_then_at_rest(site: MaintenanceContext, changed) -> None:
    rows, files = state(changed)
    done = maintain_table(site, changed.name, ["compact"])
    assert [(each["result"], each["verified"]) for each in done["actions"]] == [("done", True)], done
    after, fewer = state(changed)
    assert (after, fewer < files) == (rows, True)
    assert changed.sql("SELECT count(DISTINCT spec_id) FROM {t}.files")[0][0] == 1
    assert maintain_table(site, changed.name, ["compact"])["actions"] == []


def test_a_commit_by_a_stream_in_between_holds_nothing(site: MaintenanceContext, changed) -> None:
    rows, _ = state(changed)
    (done,) = maintain_table(site, changed.name, ["compact"], engine=Commits)["actions"]
    assert (done["result"], done["verified"]) == ("done", True), done
    assert state(changed)[0] == [*rows, (100, 1)]
    assert held(site, changed) is None


@contextmanager
def wide(make_table, partitions: str, change: str, rows: str) -> Iterator[Any]:
    table = make_table(partitions)
    for _ in range(4):
        table.sql(f"INSERT INTO {{t}} {rows}")
    table.sql(f"ALTER TABLE {{t}} {change}")
    yield table


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        ("ADD PARTITION FIELD days(ts)", f"SELECT id, 'x', {DAYS} FROM range(0, 30, 1, 1)"),
        pytest.param(
            "ADD PARTITION FIELD origin",
            "SELECT id, concat('o', id), null FROM range(0, 30, 1, 1)",
            marks=pytest.mark.campaign(held_by="test_what_would_become_more_files_is_left_alone"),
        ),
        pytest.param(
            "ADD PARTITION FIELD id",
            "SELECT id * 1000000, 'x', null FROM range(0, 30, 1, 1)",
            marks=pytest.mark.campaign(held_by="test_what_would_become_more_files_is_left_alone"),
        ),
    ],
)
def test_what_would_become_more_files_is_left_alone(
    site: MaintenanceContext, make_table, change: str, rows: str
) -> None:
    with wide(make_table, "", change, rows) as table:
        before = table.files()
        done = maintain_table(site, table.name, ["compact"])
        assert done["actions"] == []
        [said] = done["plan"]["not_planned"]
        assert f"the table's current partition spec makes 30 files of {before}" in said["why"]
        assert table.files() == before


def test_few_distant_values_are_counted_by_the_rows(site: MaintenanceContext, make_table) -> None:
    rows = "SELECT id * 1000000000, if(id % 2 = 0, 'EWR', 'JFK'), null FROM range(0, 2, 1, 1)"
    with wide(make_table, "", "ADD PARTITION FIELD id", rows) as table:
        (done,) = maintain_table(site, table.name, ["compact"])["actions"]
        assert (done["result"], done["verified"]) == ("done", True), done
        assert table.files() == 2
