"""Tables of format v3: rows tell which commit wrote them, so a range with rewritten rows costs what was rewritten."""

from __future__ import annotations

import pytest

from lakeward.connectors.spark.connect import session
from lakeward.quality.ranges.frames import WRITTEN, rows
from lakeward.quality.ranges.range import Read

MERGE = (
    "MERGE INTO {t} t USING (SELECT id, if(id = %d, null, 'MM') carrier FROM range(%d, %d)) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET t.carrier = s.carrier WHEN NOT MATCHED THEN INSERT (id, carrier, delay) "
    "VALUES (s.id, s.carrier, 1D)"
)


@pytest.fixture(
    params=[
        pytest.param(
            "copy-on-write",
            marks=pytest.mark.campaign(held_by="test_the_rows_of_changes_are_those_written_since_that_still_stand"),
        ),
        "merge-on-read",
    ]
)
def either(request, table):
    """An empty table of format v3 that rewrites rows in one of the two ways."""
    return upgraded(table, request.param)


@pytest.fixture
def traced(table):
    """An empty table of format v3."""
    return upgraded(table, "merge-on-read")


def upgraded(table, way: str):
    how = ", ".join(f"'write.{each}.mode' = '{way}'" for each in ("merge", "update", "delete"))
    table.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('format-version' = '3', {how})")
    return table


def ids(table, read: Read) -> list[int]:
    with session(table.runtime) as spark:
        return sorted(row["id"] for row in rows(spark, table.name, read).collect())


def test_the_rows_of_changes_are_those_written_since_that_still_stand(either) -> None:
    either.append(rows=10)
    head = either.append(rows=10)
    base = either.history.snapshots[head]
    either.sql("UPDATE {t} SET carrier = 'UU' WHERE id IN (3, 14)")
    either.sql(MERGE % (-1, 18, 22))
    either.sql("DELETE FROM {t} WHERE id IN (14, 15)")
    either.landed = 22
    either.append(rows=2)
    wanted = [3, 18, 19, 20, 21, 22, 23]
    assert ids(either, Read(None, either.head, base.sequence)) == wanted
    either.compact()
    assert ids(either, Read(None, either.head, base.sequence)) == wanted, "a compaction carries the lineage over"


def test_only_what_an_update_wrote_is_checked_and_its_snapshot_is_reported_after_a_compaction(either) -> None:
    either.append(rows=40)
    assert either.check()["verdict"] == "pass"
    either.append(rows=5)
    either.sql(MERGE % (-1, 3, 5))
    either.sql(MERGE % (7, 6, 9))
    bad = either.head
    either.sql(MERGE % (30, 30, 32))
    either.compact()
    result = either.check()
    assert (result["range"]["kind"], result["range"]["rows"]) == ("changes", None)
    assert "by row lineage" in result["range"]["why"]
    assert (result["verdict"], result["first_bad_snapshot"]) == ("hold", bad)
    failed = next(each for each in result["checks"] if each["state"] == "fail")
    assert (failed["rows"], failed["unexpected_count"], failed["by"]) == (12, 2, "rows")
    assert sorted(row["id"] for row in failed["sample"]) == [7, 30]
    either.sql("UPDATE {t} SET carrier = 'AA' WHERE carrier IS NULL")
    assert either.check()["verdict"] == "pass" and either.verified == either.head


@pytest.mark.campaign(held_by="tests/unit/quality/ranges/test_range.py::test_deletes_alone_leave_nothing_to_read")
def test_deletes_alone_leave_nothing_to_read(traced) -> None:
    traced.append(rows=10)
    traced.check()
    traced.sql("DELETE FROM {t} WHERE id >= 0")
    result = traced.check()
    assert result["range"]["kind"] == "changes" and result["range"]["rows"] == 0
    assert {each["state"] for each in result["checks"]} == {"skipped"}
    assert result["verdict"] == "pass" and traced.verified == traced.head


@pytest.mark.campaign(
    held_by="tests/unit/quality/ranges/test_first_bad.py::test_the_oldest_failing_row_says_what_halving_finds"
)
def test_one_query_finds_the_snapshot_that_halving_finds(traced) -> None:
    traced.append()
    traced.check()
    traced.append()
    bad = traced.append(bad=2)
    traced.append(bad=1)
    before = traced.check()
    assert (before["range"]["kind"], before["first_bad_snapshot"]) == ("increment", bad)
    assert halving(traced, before) == bad


def test_the_snapshot_of_a_failing_row_is_remembered_after_it_is_expired(traced) -> None:
    traced.append()
    traced.check()
    bad = traced.append(bad=1)
    assert traced.check()["first_bad_snapshot"] == bad
    traced.append(bad=1)
    traced.append()
    traced.compact()
    traced.expire_all_but_the_head()
    assert bad not in traced.history.snapshots
    again = traced.check()
    assert again["range"]["cut"] == "expired", "so the whole table was read"
    assert (again["verdict"], again["first_bad_snapshot"]) == ("hold", bad)


@pytest.mark.campaign(
    held_by="tests/unit/quality/ranges/test_first_bad.py::test_lineage_tells_the_snapshot_of_a_rewrite_and_one_that_is_expired"
)
def test_a_snapshot_that_nobody_remembers_is_reported_by_its_sequence_number(traced) -> None:
    traced.append()
    traced.append(bad=1)
    traced.append()
    traced.expire_all_but_the_head()
    result = traced.check()
    assert result["first_bad_snapshot"] is None
    assert "sequence number 2, whose snapshot is expired" in result["note"]


def test_a_table_that_was_upgraded_has_lineage_from_its_next_commit_on(table) -> None:
    table.append()
    table.check()
    table.sql("UPDATE {t} SET carrier = NULL WHERE id = 3")
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
    untraced = table.check()
    assert untraced["range"]["kind"] == "table" and "no row lineage" in untraced["range"]["why"]
    assert (untraced["verdict"], untraced["first_bad_snapshot"]) == ("hold", None)
    table.append(rows=5)
    result = table.check()
    assert result["range"]["kind"] == "changes"
    assert result["verdict"] == "hold", "the row from before the upgrade tells the sequence number of its file"
    failed = next(each for each in result["checks"] if each["state"] == "fail")
    assert [row["id"] for row in failed["sample"]] == [3]
    assert result["first_bad_snapshot"] == next(
        each.id for each in table.history.snapshots.values() if each.operation == "overwrite"
    )


def test_a_row_that_does_not_tell_when_it_was_written_may_be_new(table) -> None:
    head = table.append(rows=4)
    base = table.history.snapshots[head]
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
    with session(table.runtime) as spark:
        told = rows(spark, table.name, Read(None, base.id)).select(WRITTEN).distinct().collect()
    assert [row[0] for row in told] == [None]
    assert ids(table, Read(None, base.id, base.sequence)) == [0, 1, 2, 3]


def halving(table, result) -> int | None:
    """What the search without lineage says of the same range."""
    from lakeward.quality.ranges.first_bad import Failed, search
    from lakeward.quality.ranges.range import decide
    from lakeward.quality.ranges.snapshot_chain import Mark

    history = table.history
    found = decide(history, [Mark(result["from_snapshot"], history.snapshots[result["from_snapshot"]].sequence)])

    def probe(read: Read, checks: object) -> bool:
        with session(table.runtime) as spark:
            return rows(spark, table.name, read).where("carrier IS NULL").count() > 0

    return search(found, Failed(alone=("carrier",)), probe)


@pytest.mark.campaign(
    held_by="tests/spark/quality/test_readers.py::"
    "test_every_reader_sees_the_proven_rows_and_expiry_takes_none_of_them_away"
)
def test_a_pointer_table_shows_what_is_proven(traced) -> None:
    traced.suite(more="pointer_table: true\n")
    pointer = f"lake.{traced.name}__verified"
    try:
        traced.append(rows=4)
        traced.check()
        traced.sql("UPDATE {t} SET carrier = 'UU' WHERE id < 2")
        assert traced.check()["verdict"] == "pass"
        shown = traced.spark.table(pointer).select("id", "carrier").orderBy("id").collect()
        assert [tuple(row) for row in shown] == [(0, "UU"), (1, "UU"), (2, "AA"), (3, "AA")]
    finally:
        traced.sql(f"DROP TABLE IF EXISTS {pointer}")


def test_rows_staged_before_a_proof_and_published_after_it_are_new(traced) -> None:
    traced.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    traced.append(rows=3)
    traced.spark.conf.set("spark.wap.id", "s/1/x")
    try:
        traced.sql("INSERT INTO {t} SELECT id, 'AA', 1D, 0, id FROM range(10, 12)")
    finally:
        traced.spark.conf.unset("spark.wap.id")
    (staged,) = (each for each in traced.history.snapshots.values() if each.wap_id)
    traced.compact()
    traced.check()
    base = traced.history.snapshots[traced.head]
    assert base.sequence > staged.sequence
    traced.sql(f"CALL lake.system.cherrypick_snapshot('lake.{traced.name}', {staged.id})")
    traced.sql("UPDATE {t} SET carrier = 'UU' WHERE id = 0")
    assert traced.check()["range"]["kind"] == "changes"
    assert ids(traced, Read(None, traced.head, base.sequence)) == [0, 10, 11]
