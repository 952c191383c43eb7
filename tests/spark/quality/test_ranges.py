"""Ranges that are not plain appends, and a branch that does not agree with the results: on real tables."""

from __future__ import annotations

import pytest

from lakeward.connectors.spark.connect import session
from lakeward.quality.publishing.verified import BRANCH
from lakeward.quality.ranges.frames import rows
from lakeward.quality.ranges.range import Read
from lakeward.registry import events, verifications


def test_the_reader_gives_exactly_the_rows_of_the_range(table) -> None:
    first, second, third = (table.append(rows=count) for count in (1, 2, 4))
    with session(table.runtime) as spark:
        counts = [
            rows(spark, table.name, read).count()
            for read in (Read(None, second), Read(first, second), Read(first, third), Read(second, third))
        ]
    assert counts == [3, 2, 6, 4]


def test_a_compaction_inside_the_range_is_no_new_row(table) -> None:
    table.append()
    table.check()
    table.append()
    table.compact()
    table.append(rows=5)
    result = table.check(scope="increment")
    assert result["range"]["kind"] == "increment" and "1 compaction" in result["range"]["why"]
    assert result["range"]["rows"] == 15
    assert result["verdict"] == "pass" and table.verified == table.head


def test_a_range_of_a_compaction_alone_moves_verified_without_reading(table) -> None:
    table.append()
    table.append()
    table.check()
    table.compact()
    result = table.check()
    assert {check["state"] for check in result["checks"]} == {"skipped"}
    assert result["verdict"] == "pass" and table.verified == table.head
    assert result["spark_jobs"] == 0


def test_an_overwrite_inside_the_range_is_read_with_the_whole_table(table) -> None:
    table.append()
    table.check()
    table.append(bad=1)
    assert table.check()["verdict"] == "hold"
    table.sql("DELETE FROM {t} WHERE carrier IS NULL")
    result = table.check(due=True)
    assert result["range"]["kind"] == "table" and "rewrites rows" in result["range"]["why"]
    assert result["verdict"] == "pass", "a person took the bad row out: the table is right now"
    assert table.verified == table.head


@pytest.mark.campaign(
    held_by="tests/unit/quality/ranges/test_range.py::test_rows_rewritten_in_place_need_the_whole_table"
)
def test_what_an_overwrite_wrote_is_not_overlooked(table) -> None:
    table.append()
    table.check()
    table.sql("UPDATE {t} SET carrier = NULL WHERE id = 3")
    assert table.check()["verdict"] == "hold"


def test_a_rollback_is_reported_and_verified_comes_back_to_main(table) -> None:
    kept = table.append()
    table.check()
    lost = table.append()
    table.check()
    assert table.verified == lost
    table.sql(f"CALL lake.system.rollback_to_snapshot('lake.{table.name}', {kept})")
    table.append(rows=5)
    result = table.check()
    assert result["range"]["cut"] == "rolled-back" and str(lost) in result["range"]["why"]
    assert (result["from_snapshot"], result["range"]["rows"]) == (kept, 5), "what main still stands on stays proven"
    assert table.verified == table.head


@pytest.mark.campaign(
    held_by="tests/unit/quality/ranges/test_range.py::test_a_rollback_to_an_older_proof_is_reported_as_such"
)
def test_a_rollback_alone_puts_verified_back_before_anything_is_checked(table) -> None:
    kept = table.append()
    table.check()
    table.append()
    table.check()
    table.sql(f"CALL lake.system.rollback_to_snapshot('lake.{table.name}', {kept})")
    result = table.check(due=True)
    assert result == {}, "nothing on main is unproven"
    assert table.verified == kept
    with table.registry() as connection:
        assert [event.kind for event in events.newest(connection, "table", table.name)] == ["verified_repaired"]


@pytest.mark.campaign(held_by="tests/unit/quality/ranges/test_snapshot_chain.py::test_a_chain_cut_by_expiry")
def test_expired_snapshots_in_the_range_are_reported_and_the_whole_table_is_checked(table) -> None:
    proven = table.append()
    table.check()
    table.append()
    table.append(bad=1)
    table.append()
    table.sql(f"ALTER TABLE {{t}} DROP BRANCH {BRANCH}")
    table.expire_all_but_the_head()
    result = table.check()
    assert result["range"]["cut"] == "expired" and str(proven) in result["range"]["why"]
    assert result["verdict"] == "hold", "the row that came with an expired snapshot is found"
    assert result["first_bad_snapshot"] is None, "nobody can tell any more"


@pytest.mark.campaign(
    held_by="tests/unit/quality/ranges/test_snapshot_chain.py::test_an_expired_start_is_fine_while_its_child_stands"
)
def test_an_expired_start_whose_child_stands_is_an_ordinary_increment(table) -> None:
    start = table.append()
    table.check()
    table.append(rows=5)
    table.sql(f"ALTER TABLE {{t}} DROP BRANCH {BRANCH}")
    table.expire_all_but_the_head()
    assert start not in table.history.snapshots
    result = table.check()
    assert (result["range"]["kind"], result["range"]["rows"], result["range"]["cut"]) == ("increment", 5, None)
    assert table.verified == table.head


@pytest.mark.campaign(held_by="tests/unit/quality/ranges/test_snapshot_chain.py::test_a_replaced_table_begins_again")
def test_a_replaced_table_is_reported_and_checked_as_a_whole(table) -> None:
    table.append()
    table.check()
    table.sql("CREATE OR REPLACE TABLE {t} USING iceberg AS SELECT * FROM {t} WHERE id < 4")
    result = table.check()
    assert (result["range"]["cut"], result["range"]["kind"], result["range"]["rows"]) == ("replaced", "table", 4)
    assert table.verified == table.head


def test_a_branch_that_disagrees_with_the_results_is_repaired(table) -> None:
    first = table.append()
    table.check()
    second = table.append()
    table.check()
    table.sql(f"ALTER TABLE {{t}} CREATE OR REPLACE BRANCH {BRANCH} AS OF VERSION {first}")
    table.check()
    assert table.verified == second
    table.sql(f"ALTER TABLE {{t}} DROP BRANCH {BRANCH}")
    table.check()
    assert table.verified == second
    unproven = table.append(bad=1)
    table.sql(f"ALTER TABLE {{t}} CREATE OR REPLACE BRANCH {BRANCH} AS OF VERSION {unproven}")
    assert table.check()["verdict"] == "hold"
    assert table.verified == second, "readers do not stay on what somebody else published"


def test_a_run_that_died_between_its_result_and_the_branch_is_finished_by_the_next(table) -> None:
    table.append()
    table.check()
    second = table.append()
    head = table.history.snapshots[second]
    with table.registry() as connection:
        proven = verifications.newest(connection, table.name)[0]
        verifications.record(
            connection,
            {**{k: v for k, v in proven.items() if k != "at"}, "run": f"r-{table.name}", "from_snapshot": None}
            | {"to_snapshot": second, "to_sequence": head.sequence, "verified_snapshot": second},
            [],
        )
    assert table.check(due=True) == {}
    assert table.verified == second
