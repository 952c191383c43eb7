"""The metadata decides what an action did. Each engine here does something else than it was told, for real."""

from __future__ import annotations

import pytest

from lakeward.registry import maintenance
from lakeward.tables.act.server import Statements
from lakeward.tables.maintain import maintain_table
from lakeward.telemetry import failpoints


class DeletesRows(Statements):
    """Rewrites, and loses a row on the way."""

    def execute(self, statement):
        rows = super().execute(statement)
        name = statement.split("table => 'lake.")[1].split("'")[0]
        self._spark.sql(f"DELETE FROM lake.{name} WHERE id = 0").collect()
        return rows


class DoesNothing(Statements):
    """Says it rewrote everything, and does nothing."""

    def execute(self, statement):
        return [{"rewritten_data_files_count": 99, "added_data_files_count": 1, "failed_data_files_count": 0}]


class Admits(Statements):
    """Does it, and admits that some files failed."""

    def execute(self, statement):
        return [{**super().execute(statement)[0], "failed_data_files_count": 2}]


class Drops(Statements):
    """Finds that somebody dropped the table between the plan and the statement; `again`: and made it anew."""

    again = False

    def execute(self, statement):
        name = statement.split("table => 'lake.")[1].split("'")[0]
        self._spark.sql(f"DROP TABLE lake.{name}").collect()
        if self.again:
            self._spark.sql(f"CREATE TABLE lake.{name} (id BIGINT) USING iceberg").collect()
        return super().execute(statement)


class Replaces(Drops):
    again = True


class Crashes(Statements):
    """A statement the server refuses."""

    def execute(self, statement):
        return super().execute("SELECT assert_true(false, 'disk full')")


@pytest.fixture
def table(make_table):
    made = make_table(**{"write.delete.mode": "copy-on-write"})
    made.append(times=5)
    return made


def test_rows_lost_meanwhile_fail_the_rewrite_and_hold_expiry(site, table):
    done = maintain_table(site, table.name, ["compact", "expire"], engine=DeletesRows)
    assert [(each["action"], each["result"]) for each in done["actions"]] == [("compact", "failed")]
    assert "rows were changed while files were rewritten" in done["actions"][0]["why"]
    with site.registry() as connection:
        assert "rows were changed" in (maintenance.all_tables(connection)[table.name].expiry_hold or "")


def test_green_but_nothing_changed_is_a_failure(site, table):
    done = maintain_table(site, table.name, ["compact"], engine=DoesNothing)["actions"][0]
    assert (done["result"], done["verified"]) == ("failed", False)
    assert done["why"].startswith("nothing was rewritten: 10 files were promised")
    with site.registry() as connection:
        assert maintenance.newest_actions(connection, table.name)[0]["result"] == "failed"


def test_files_the_procedure_admits_failing_fail_the_action(site, table):
    done = maintain_table(site, table.name, ["compact"], engine=Admits)["actions"][0]
    assert done["result"] == "failed"
    assert "2 files could not be rewritten" in done["why"]


def test_an_expiry_under_which_main_moved_back_fails(site, table):
    older = table.sql("SELECT snapshot_id FROM {t}.snapshots ORDER BY committed_at DESC")[1][0]

    def roll_back():
        table.sql(f"CALL lake.system.rollback_to_snapshot('{table.name}', {older})")

    before = table.snapshots()
    with failpoints.on("expire-read", roll_back):
        done = maintain_table(site, table.name, ["expire"])["actions"][0]
    assert done["result"] == "failed" and "main was moved back" in done["why"], done
    assert table.snapshots() == before


def test_what_the_server_says_is_kept(site, table):
    done = maintain_table(site, table.name, ["compact"], engine=Crashes)["actions"][0]
    assert done["result"] == "failed"
    assert "disk full" in done["why"]


def test_after_three_failures_the_action_rests(site, table):
    for _ in range(3):
        assert maintain_table(site, table.name, ["compact"], engine=DoesNothing)["actions"][0]["result"] == "failed"
    done = maintain_table(site, table.name, ["compact"])
    assert done["actions"] == []
    assert "failed 3 times in a row" in done["plan"]["not_planned"][0]["why"]


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        (Drops, "the table could not be read afterwards: Table"),
        (Replaces, "was dropped and recreated meanwhile"),
    ],
)
def test_a_table_that_is_gone_or_another_one_by_then_is_told_and_nothing_is_left_under_way(site, table, engine, why):
    done = maintain_table(site, table.name, ["compact"], engine=engine)
    (action,) = done["actions"]
    assert (action["result"], action["verified"]) == ("failed", False)
    assert why in action["why"]
    table.sql("CREATE TABLE IF NOT EXISTS {t} (id BIGINT) USING iceberg")
    with site.registry() as connection:
        assert maintenance.unfinished_actions(connection, table.name) == []
        known = maintenance.all_tables(connection)[table.name]
        assert known.expiry_hold is None, "nobody has to look at a new table"
    assert maintain_table(site, table.name, ["compact"])["actions"] == [], "and the next run works"
