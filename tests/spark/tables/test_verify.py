"""The metadata decides what an action did. Each engine here does something else than it was told, for real."""

from __future__ import annotations

from pathlib import Path

import pytest
from inside_rewrite import inside

from lakeward.registry import maintenance
from lakeward.tables.act.server import Statements
from lakeward.tables.maintain import maintain_table
from lakeward.telemetry import failpoints


class Meanwhile(Statements):
    """Rewrites, and another writer commits right before it."""

    act = ""

    def execute(self, statement):
        if "table => " not in statement:
            return super().execute(statement)
        name = statement.split("table => 'lake.")[1].split("'")[0]
        self._spark.sql(self.act.format(t=f"lake.{name}", name=name)).collect()
        return super().execute(statement)


class DoesNothing(Statements):
    """Says it rewrote everything, and does nothing."""

    def execute(self, statement):
        return [{"rewritten_data_files_count": 99, "added_data_files_count": 1, "failed_data_files_count": 0}]


class Admits(Statements):
    """Does it, and admits that some files failed."""

    def execute(self, statement):
        return [{**super().execute(statement)[0], "failed_data_files_count": 2}]


class Drops(Statements):
    """Finds that somebody dropped the table between the plan and the statement; `again`: and made it again."""

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


@pytest.mark.parametrize(
    ("mode", "act", "result", "words"),
    [
        ("merge-on-read", "DELETE FROM {t} WHERE id = 1", "done", "1 commit of other writers changed rows meanwhile"),
        ("copy-on-write", "TRUNCATE TABLE {t}", "skipped", "others removed 10 files meanwhile"),
        ("copy-on-write", "DELETE FROM {t} WHERE origin = 'EWR'", "done", "15 rows kept; 1 commit of other"),
        ("copy-on-write", "CALL lake.system.rollback_to_snapshot('{name}', {first})", "failed", "moved main back to"),
        ("copy-on-write", "ALTER TABLE {t} DROP PARTITION FIELD origin", "done", "30 rows kept"),
    ],
)  # fmt: skip
def test_what_another_writer_does_before_the_rewrite_is_its_own_and_holds_nothing(
    site, make_table, monkeypatch, mode, act, result, words
):
    table = make_table(**{"write.delete.mode": mode})
    table.append(times=5)
    first = table.sql("SELECT snapshot_id FROM {t}.snapshots ORDER BY committed_at")[0][0]
    monkeypatch.setattr(Meanwhile, "act", act.replace("{first}", str(first)))
    (done,) = maintain_table(site, table.name, ["compact"], engine=Meanwhile)["actions"]
    assert done["result"] == result and words in done["why"], done
    with site.registry() as connection:
        assert maintenance.all_tables(connection)[table.name].expiry_hold is None
    assert table.rows() == {"DELETE": 25 if "id" in act else 15, "TRUNCATE": 0, "CALL": 6}.get(act.split()[0], 30)


def test_another_partitioning_and_a_commit_in_it_inside_a_rewrite_is_tried_again(site, make_table):
    table = make_table()
    table.append(times=5)

    def act() -> None:
        with site.load(table.name).update_spec() as change:
            change.add_identity("id")
        table.append(rows=1)
        site.load(table.name).delete("id = 0")

    folder = Path(site.load(table.name).metadata.location.removeprefix("file:"))
    engine = inside(site.runtime, folder, table.head, act)
    (done,) = maintain_table(site, table.name, ["compact"], engine=engine)["actions"]
    assert (done["result"], done["verified"]) == ("done", True), done
    assert table.rows() == 25


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
    with site.registry() as connection:
        assert maintenance.all_tables(connection)[table.name].expiry_hold is None, "it had no part in it"


def test_an_expiry_that_another_writer_did_before_says_so(site, table):
    def expire():
        table.sql(f"CALL lake.system.expire_snapshots('{table.name}', timestamp'2100-01-01', 1)")

    with failpoints.on("expire-read", expire):
        done = maintain_table(site, table.name, ["expire"])["actions"][0]
    assert "another writer expired every snapshot that was to go" in done["why"], done


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
def test_a_table_that_is_gone_or_replaced_by_then_is_reported_and_nothing_is_left_under_way(site, table, engine, why):
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
