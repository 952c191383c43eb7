"""Maintenance end to end: real tables, a real Connect server, a real registry."""

from __future__ import annotations

import pytest

from lakeward.registry import maintenance
from lakeward.tables.maintain import maintain_table
from lakeward.tables.plan import ORDER


def test_small_files_become_few_and_every_row_stays(site, make_table):
    table = make_table()
    table.append(times=6)
    rows, before = table.rows(), table.head().snapshot_id
    done = maintain_table(site, table.name, ORDER)
    compact = done["actions"][0]
    assert (compact["action"], compact["result"], compact["verified"]) == ("compact", "done", True), compact
    assert (compact["before"]["files"], compact["after"]["files"]) == (12, 2)
    assert table.rows() == rows
    expire = next(each for each in done["actions"] if each["action"] == "expire")
    assert expire["result"] == "done", expire
    assert expire["before"]["snapshots"] > expire["after"]["snapshots"]
    assert before not in table.snapshots()
    assert table.rows() == rows
    with site.registry() as connection:
        ledger = maintenance.newest_actions(connection, table.name)
    assert {row["result"] for row in ledger} == {"done"}
    assert all(row["session_id"] for row in ledger if row["action"] != "expire")  # which needs no engine
    assert compact["cpu_s"] is not None and compact["cpu_s"] > 0


def test_a_property_that_no_commit_can_read_is_set_right_without_a_commit_of_iceberg(site, make_table):
    table = make_table()
    table.append(times=6)
    rows = table.rows()
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('commit.retry.num-retries' = 'x')")
    with pytest.raises(Exception, match="For input string"):
        table.sql("ALTER TABLE {t} UNSET TBLPROPERTIES ('commit.retry.num-retries')")
    done = maintain_table(site, table.name, ORDER)
    assert [(each["action"], each["result"]) for each in done["actions"]] == [("metadata", "done")], done
    assert site.load(table.name).properties["commit.retry.num-retries"] == "4"
    compact = maintain_table(site, table.name, ["compact"])["actions"][0]
    assert (compact["result"], compact["verified"], table.rows()) == ("done", True, rows)


def test_a_maintained_table_is_left_alone(site, make_table):
    table = make_table()
    table.append(times=6)
    maintain_table(site, table.name, ORDER)
    again = maintain_table(site, table.name, ORDER)
    assert [each["action"] for each in again["actions"] if each["action"] == "compact"] == []


@pytest.mark.parametrize(
    "partitions",
    [
        "days(ts), origin",
        "bucket(4, id), truncate(3, origin)",
        *(
            pytest.param(each, marks=pytest.mark.campaign(held_by="test_each_kind_of_partition_is_selected_exactly"))
            for each in ("", "hours(ts)", "years(ts)", "months(ts)")
        ),
    ],
)
def test_each_kind_of_partition_is_selected_exactly(site, make_table, partitions):
    table = make_table(partitions)
    for _ in range(4):
        table.sql("INSERT INTO {t} SELECT id, 'EWR', timestamp'2013-01-15 10:00:00' FROM range(2)")
    table.sql("INSERT INTO {t} VALUES (7, NULL, NULL)")
    rows = table.rows()
    done = maintain_table(site, table.name, ["compact"])
    assert done["actions"][0]["result"] == "done", done
    assert table.rows() == rows


def test_only_the_partition_over_the_limit_is_rewritten(site, make_table):
    table = make_table("months(ts), origin")
    for _ in range(4):
        table.sql("INSERT INTO {t} VALUES (1, 'O''Hare', timestamp'2013-01-15 10:00:00')")
    table.sql("INSERT INTO {t} VALUES (1, 'O''Hare', timestamp'2013-02-15 10:00:00'), (2, NULL, NULL)")
    done = maintain_table(site, table.name, ["compact"])
    compact = done["actions"][0]
    assert compact["result"] == "done", compact
    assert compact["before"]["partitions"] == ["ts_month=2013-01/origin=O'Hare"]
    assert compact["after"]["files"] == compact["before"]["files"] - 3
