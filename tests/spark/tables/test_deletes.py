"""Delete files of merge-on-read tables: merged, applied, and no row comes back."""

from __future__ import annotations

import pytest

from lakeward.spec.sql.statements import quote_table
from lakeward.tables.act import live_rows
from lakeward.tables.act.server import Statements
from lakeward.tables.act.statements import merge_deletes
from lakeward.tables.maintain import maintain_table
from lakeward.tables.needs import read_registry
from lakeward.tables.observation import load_facts
from lakeward.tables.plan import ORDER, Action
from lakeward.tables.verify import verify_deletes

MERGE_ON_READ = {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")}
PILES_UP = MERGE_ON_READ | {"write.delete.granularity": "partition"}


def rows(table) -> list[tuple[int, str]]:
    return sorted((row.id, row.origin) for row in table.sql("SELECT id, origin FROM {t}"))


def deletes(table) -> int:
    return int(table.sql("SELECT count(*) FROM {t}.delete_files")[0][0])


@pytest.fixture
def piled(make_table):
    """Two partitions with seven delete files each, as other engines leave them, beside an old one without."""
    table = make_table(**PILES_UP)
    table.sql("INSERT INTO {t} VALUES (1000, 'JFK', null)")
    table.sql("INSERT INTO {t} SELECT id, if(id % 2 = 0, 'EWR', 'O''Hare'), null FROM range(100)")
    for n in range(7):
        table.sql(f"DELETE FROM {{t}} WHERE id IN ({n}, {n + 50}, {n + 51})")
    return table


def test_delete_files_are_merged_and_every_row_stays_deleted(site, piled):
    left = rows(piled)
    assert deletes(piled) == 14
    done = maintain_table(site, piled.name, ["deletes"])
    (merged,) = done["actions"]
    assert (merged["result"], merged["verified"], merged["why"]) == ("done", True, "14 → 2 delete files"), merged
    assert merged["before"]["partitions"] == ["origin=EWR", "origin=O'Hare"]
    assert (deletes(piled), rows(piled)) == (2, left)
    again = maintain_table(site, piled.name, ["deletes"])
    assert again["actions"] == []
    assert "0 more than one partition needs" in again["plan"]["not_planned"][0]["why"]


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(
            "2",
            marks=pytest.mark.campaign(held_by="test_files_with_many_deleted_rows_are_rewritten_without_them"),
        ),
        "3",
    ],
)
def test_files_with_many_deleted_rows_are_rewritten_without_them(site, make_table, version):
    table = make_table("", **MERGE_ON_READ | {"format-version": version})
    table.sql("INSERT INTO {t} SELECT id, 'EWR', null FROM range(0, 100, 1, 1)")
    table.sql("INSERT INTO {t} SELECT id, 'JFK', null FROM range(100, 200, 1, 1)")
    table.sql("DELETE FROM {t} WHERE id < 10 OR id = 150")
    left = rows(table)
    done = maintain_table(site, table.name, ORDER)
    compact = done["actions"][0]
    assert (compact["action"], compact["result"]) == ("compact", "done"), compact
    assert rows(table) == left
    files = table.sql("SELECT content, record_count FROM {t}.files ORDER BY content, record_count")
    assert [tuple(each) for each in files] == [(0, 90), (0, 100), (1, 1)], "one row of a hundred is not worth a rewrite"
    assert maintain_table(site, table.name, ["compact"])["actions"] == []


class BringsBack(Statements):
    """A server that finds other rows after a merge. No procedure of Iceberg's can be made to lose a delete."""

    def execute(self, statement: str) -> list[dict[str, object]]:
        found = super().execute(statement)
        if "GROUP BY _file" in statement:
            found[0] |= {"files": 1, "now": 90, "then": 80, "example": "/a/x.parquet"}
        return found


def test_a_merge_that_brings_rows_back_is_found_and_taken_back(site, piled):
    head = piled.head()
    execute = Statements(piled.spark).execute
    assert (
        live_rows.same_in_each_file(execute, quote_table(piled.name, "lake"), head.snapshot_id, head.snapshot_id) == ""
    )
    before = head.parent_snapshot_id
    found = live_rows.same_in_each_file(execute, quote_table(piled.name, "lake"), head.snapshot_id, before)
    assert found.startswith("other rows are live in 2 data files")
    counted = live_rows.same_in_all(execute, quote_table(piled.name, "lake"), head.snapshot_id, before)
    assert counted.startswith("88 rows are live, 86 before")

    left, before = rows(piled), deletes(piled)
    done = maintain_table(site, piled.name, ["deletes"], engine=BringsBack)
    (merged,) = done["actions"]
    assert merged["result"] == "failed"
    assert "other rows are live in 1 data files (90, 80 before), for example in x.parquet" in merged["why"]
    assert "rolled back" in merged["why"]
    assert (deletes(piled), rows(piled)) == (before, left)


def facts(site, table):
    with site.registry() as connection:
        return load_facts(site, table.name, read_registry(connection)).facts


def test_a_server_that_cannot_say_is_not_believed(site, piled):
    class Gone(Statements):
        def execute(self, statement: str) -> list[dict[str, object]]:
            return super().execute("SELECT raise_error('gone')")

    before, action = facts(site, piled), Action("deletes", "")
    Statements(piled.spark).execute(merge_deletes(piled.name, (), "lake"))
    after = facts(site, piled)
    good = verify_deletes(action, before, after)
    assert live_rows.verify_live_rows(Statements(piled.spark).execute, action, before, after, good) == good
    found = live_rows.verify_live_rows(Gone(piled.spark).execute, action, before, after, good)
    assert (found.ok, found.harmed) == (False, True)
    assert "could not be read" in found.why


def test_every_commit_of_a_compaction_is_read_also_that_of_dangling_deletes(site, piled):
    asked: list[str] = []

    class Noted(Statements):
        def execute(self, statement: str) -> list[dict[str, object]]:
            asked.append(statement)
            return super().execute(statement)

    piled.append(times=6)
    before = piled.snapshots()
    done = maintain_table(site, piled.name, ["compact"], engine=Noted)
    assert done["actions"][0]["result"] == "done", done
    made = piled.snapshots() - before
    assert len(made) > 1, "the data files, and the deletes that name none of them any more"
    assert [each for each in made if not any(f"VERSION AS OF {each}" in text for text in asked)] == []
