"""Delta tables by their versions: what is read, what is proven, and what readers of the proven version see."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from typing import Any

import delta_log
import pyarrow as pa
import pytest
from delta_log import PLAIN

from lakeward.cli.app import main
from lakeward.connectors.delta import log
from lakeward.platform.runtime import Project
from lakeward.quality.delta.table import DeltaTable, verified_proof
from lakeward.quality.publishing.release import release
from lakeward.quality.ranges import metadata
from lakeward.quality.ranges.range import Read
from lakeward.quality.results.status import proof_status as status_of
from lakeward.quality.runs.dry_run import due_of
from lakeward.registry import incidents, verifications


@pytest.fixture
def table(delta_table: Any) -> Any:
    """An empty Delta table (version 0)."""
    return delta_table


def test_a_range_across_a_compaction_reads_exactly_the_appended_rows(table) -> None:
    first = table.append(rows=3, by_spark=True)
    result = table.check()
    assert (result["verdict"], result["verified_snapshot"], result["format"]) == ("pass", first, "delta")
    assert result["range"]["kind"] == "table" and {each["by"] for each in result["checks"]} == {"metadata"}
    table.append(rows=4)
    compacted = table.optimize()
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')")
    last = table.append(rows=5)
    assert table.rows(Read(first, last)) == list(range(3, 12))
    assert table.rows(Read(first, compacted)) == list(range(3, 7))
    assert table.rows(Read(compacted, last)) == list(range(7, 12))
    assert table.rows(Read(last - 2, last - 1)) == [], "properties bring no rows"
    (planned,) = due_of(table.runtime, table.url, Project(table.project))
    assert planned.due and "9 rows" in planned.why, "what Airflow asks before it checks"
    (status,) = status_of(table.runtime, table.url, Project(table.project))
    assert (status.proof or {})["to_snapshot"] == first and (status.lag.snapshots, status.lag.rows) == (2, 9)
    result = table.check()
    assert (result["range"]["kind"], result["range"]["rows"]) == ("increment", 9)
    assert "1 compaction" in result["range"]["why"] and f"since version {first}" in result["range"]["why"]
    assert (result["verdict"], result["from_snapshot"], result["verified_snapshot"]) == ("pass", first, last)
    assert table.check(due=True) == {}, "nothing is due"
    compacted = table.optimize()
    result = table.check(due=True)
    assert (result["spark_jobs"], result["verified_snapshot"]) == (0, compacted)


def test_bad_rows_hold_the_recorded_version_and_the_first_bad_one_is_named(table) -> None:
    proven = table.append()
    table.check()
    table.append()
    bad = table.append(bad=1)
    table.append()
    table.optimize()
    result = table.check()
    assert (result["verdict"], result["first_bad_snapshot"], result["verified_snapshot"]) == ("hold", bad, proven)
    with table.registry() as connection:
        said = incidents.open_ones(connection)["quality", table.name].text
    assert f"still on version {proven}" in said and f"since: version {bad}" in said
    assert any(f"first bad version {bad}" in each for each in table.told)
    seen = table.spark.read.format("delta").option("versionAsOf", str(table.verified)).load(str(table.folder))
    assert [row["carrier"] for row in seen.select("carrier").collect()] == ["AA"] * 10
    assert table.check(due=True) == {}, "held, and nothing changed"
    table.sql("DELETE FROM {t} WHERE carrier IS NULL")
    result = table.check(due=True)
    assert result["range"]["kind"] == "table" and "(DELETE) rewrites rows" in result["range"]["why"]
    assert (result["verdict"], result["verified_snapshot"]) == ("pass", table.head)


_MERGE = "MERGE INTO {t} t USING (SELECT 900L id) s ON t.id = s.id WHEN "
INSERTED = (_MERGE + "NOT MATCHED THEN INSERT (id) VALUES (s.id)", "increment")
REWRITTEN = (_MERGE + "MATCHED THEN UPDATE SET delay = 1", "table")


def rewritten(table: Any, *statements: tuple[str, str]) -> None:
    """Each statement brings or keeps a bad row: it is read in the way given, and nothing of it is published."""
    table.append()
    table.check()
    for statement, kind in statements:
        table.sql(statement)
        result = table.check()
        assert (result["range"]["kind"], result["verdict"], result["verified_snapshot"]) == (kind, "hold", 1), statement


def test_what_was_rewritten_is_not_overlooked(table) -> None:
    rewritten(table, INSERTED, REWRITTEN)


@pytest.mark.campaign(held_by="test_what_was_rewritten_is_not_overlooked")
def test_what_other_statements_rewrote_is_not_overlooked(table) -> None:
    rewritten(
        table,
        ("UPDATE {t} SET carrier = NULL WHERE id = 2", "table"),
        ("INSERT OVERWRITE {t} SELECT 7L, NULL, 1D, 0, 7L", "table"),
    )


@pytest.mark.campaign(
    held_by="tests/unit/quality/delta/test_commits.py::test_an_append_that_cannot_be_read_apart_says_why"
)
def test_deletion_vectors_are_read_through_delta(table) -> None:
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    table.append()
    table.check()
    table.sql("DELETE FROM {t} WHERE id = 3")
    result = table.check()
    assert (result["range"]["kind"], result["verdict"]) == ("table", "pass")
    assert {each["rows"] for each in result["checks"]} == {9}
    table.append(rows=5)
    result = table.check()
    assert (result["range"]["kind"], result["range"]["rows"], result["verdict"]) == ("increment", 5, "pass")


@pytest.mark.campaign(
    held_by="tests/unit/quality/delta/test_commits.py::test_a_table_whose_files_delta_must_read_is_never_read_by_them"
)
def test_mapped_columns_are_read_as_the_whole_table(table) -> None:
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2',"
              " 'delta.minWriterVersion' = '5')")  # fmt: skip
    table.append()
    table.check()
    table.append(bad=1)
    result = table.check()
    assert result["range"]["kind"] == "table" and "maps column names" in result["range"]["why"]
    assert (result["verdict"], result["verified_snapshot"]) == ("hold", 2)


@pytest.mark.campaign(
    held_by="tests/unit/quality/delta/test_commits.py::test_a_restore_leaves_the_proof_behind_and_an_older_one_stands"
)
def test_a_restore_takes_verified_back_and_reads_the_whole_table(table) -> None:
    kept = table.append()
    table.check()
    lost = table.append()
    table.check()
    assert table.verified == lost
    table.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {kept}")
    assert table.verified == kept, "readers do not stay on rows that were taken out"
    result = table.check(due=True)
    assert result["range"]["cut"] == "rolled-back" and f"before verified version {lost}" in result["range"]["why"]
    assert result["range"]["kind"] == "table" and "is a RESTORE" in result["range"]["why"]
    assert (result["verdict"], result["verified_snapshot"]) == ("pass", table.head)


@pytest.mark.campaign(
    held_by="tests/unit/quality/delta/test_commits.py::test_a_proof_of_a_table_that_was_there_before_counts_for_nothing"
)
def test_a_version_of_a_table_made_again_was_never_proven(table) -> None:
    table.append()
    proven = table.append()
    assert table.check()["verified_snapshot"] == proven
    table.drop()
    table.create()
    table.append(bad=1)
    again = table.append(bad=1)
    assert (again, table.verified) == (proven, None), "the number is the same, the rows are not"
    assert verified_proof(table.name, table.folder, table.proofs) is None
    result = table.check(due=True)
    assert (result["range"]["cut"], result["range"]["kind"]) == ("replaced", "table")
    assert f"replaced since verified version {proven}" in result["range"]["why"]
    assert (result["verdict"], result["verified_snapshot"]) == ("hold", None)
    table.sql("CREATE OR REPLACE TABLE {t} USING delta AS SELECT * FROM {t} WHERE carrier IS NOT NULL")
    result = table.check(due=True)
    assert (result["range"]["cut"], result["verdict"], result["verified_snapshot"]) == ("replaced", "pass", again + 1)


def test_the_command_line_names_the_version_and_refuses_what_is_icebergs(table, home, capsys) -> None:
    def lakeward(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["quality", *words, table.name, "--home", str(home), "--project", str(table.project)])
        told = capsys.readouterr()
        return int(ended.value.code or 0), told.out + told.err

    proven = table.append()
    table.check()
    table.append(bad=1)
    assert table.check()["verdict"] == "hold"  # that `run` itself ends with 3 is seen in `test_door.py`
    shown = json.loads(lakeward("show", "-o", "json")[1])
    assert (shown["verified_snapshot"], shown["format"]) == (proven, "delta")
    assert f"readers stay on verified version {proven}" in lakeward("show")[1]
    assert f", version {table.head}" in lakeward("history")[1]
    suite = table.project / "expectations" / f"{table.name}.yaml"
    suite.write_text(f"pointer_table: true\n{suite.read_text()}")
    assert "cannot use pointer_table" in table.check()["note"]
    table.drop()
    table.create()
    table.append(bad=1)
    assert json.loads(lakeward("show", "-o", "json")[1])["verified_snapshot"] is None


@pytest.mark.campaign(
    held_by="tests/spark/quality/test_door.py::test_a_proposed_suite_passes_on_the_rows_it_was_proposed_from"
)
def test_a_suite_is_proposed_for_a_delta_table(table, home, capsys) -> None:
    table.drop()
    columns = PLAIN.append(pa.field("at", pa.timestamp("us", "UTC")))
    delta_log.create(table.folder, columns)
    ids = range(12)
    for _ in range(10):
        rows = [list(ids), [f"A{each % 2}" for each in ids], [float(each) or None for each in ids], [0] * 12, list(ids)]
        rows.append([datetime.now(UTC)] * 12)
        assert delta_log.append(table.folder, pa.table(dict(zip(columns.names, rows, strict=True)), schema=columns))
    with pytest.raises(SystemExit):
        main(["quality", "profile", table.name, "--dry-run", "-o", "json", "--home", str(home), "--project",
              str(table.project)])  # fmt: skip
    found = json.loads(capsys.readouterr().out)
    kwargs = {(each["type"], each["kwargs"].get("column")): each["kwargs"] for each in found["expectations"]}
    assert (found["snapshot"], found["rows"], found["rows_read"]) == (table.head, 120, 120)
    assert kwargs["expect_column_values_to_be_in_set", "carrier"]["value_set"] == ["A0", "A1"]
    assert ("expect_column_values_to_not_be_null", "carrier") in kwargs
    assert ("expect_column_values_to_not_be_null", "delay") not in kwargs, "8% of its rows are null"
    bounds = kwargs["expect_column_values_to_be_between", "delay"]
    assert (bounds["min_value"], bounds["max_value"]) == (0, 16)
    assert ("expect_freshness_as_usual", "at") in kwargs and ("expect_volume_as_usual", None) in kwargs


@pytest.mark.campaign(
    held_by="tests/unit/quality/delta/test_commits.py::test_a_proof_of_a_table_that_was_there_before_counts_for_nothing"
)
def test_an_older_copy_of_the_folder_proves_nothing_of_what_lands_in_it(table) -> None:
    table.append()
    older = table.folder.with_name(f"{table.folder.name}_copy")
    shutil.copytree(table.folder, older)
    try:
        proven = table.append()
        table.check()
        table.drop()
        older.rename(table.folder)
        assert table.append(bad=1) == proven and table.verified is None
        assert table.check(due=True)["verdict"] == "hold"
    finally:
        shutil.rmtree(older, ignore_errors=True)


@pytest.mark.campaign(
    held_by="tests/unit/quality/delta/test_commits.py::test_a_log_that_was_cleaned_above_the_proof_is_reported"
)
def test_what_the_log_or_the_folder_lost_is_read_with_the_whole_table(table) -> None:
    first = table.append()
    table.check()
    table.append()
    gone = table.append(bad=1)
    table.optimize()
    table.vacuum()
    result = table.check()
    assert result["range"]["kind"] == "table" and "is missing from the folder" in result["range"]["why"]
    assert (result["verdict"], result["verified_snapshot"]) == ("hold", first)
    assert result["first_bad_snapshot"] is None, "nobody can tell any more"
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    table.append()
    for version in range(gone + 1):  # as Delta cleans its log: whole checkpoints stand above what goes
        (table.folder / log.LOG / f"{version:020d}.json").unlink()
    result = table.check()
    assert result["range"]["cut"] == "expired" and f"versions after verified version {first}" in result["range"]["why"]
    assert (result["verdict"], result["range"]["kind"]) == ("hold", "table")


@pytest.mark.campaign(held_by="tests/unit/quality/delta/test_stats.py::test_whole_numbers_doubles_and_dates_are_exact")
def test_types_partitions_and_new_columns_are_the_same_as_through_delta(table) -> None:
    table.drop()
    table.sql(
        "CREATE TABLE {t} (id BIGINT, kind STRING, day DATE, `at` TIMESTAMP, local TIMESTAMP_NTZ, money DECIMAL(12,3),"
        " small FLOAT, inner STRUCT<a: INT, b: ARRAY<STRING>>, `odd.name` MAP<STRING, INT>, bytes BINARY, yes BOOLEAN)"
        " USING delta PARTITIONED BY (kind, day, yes)"
    )
    rows = (
        "SELECT id, CASE id % 4 WHEN 0 THEN NULL WHEN 1 THEN 'a/b c=%2F:é' WHEN 2 THEN '' ELSE '007' END,"
        " if(id % 3 = 0, NULL, DATE'1500-01-02'), TIMESTAMP'2024-03-10 02:30:00.123456', TIMESTAMP_NTZ'1969-12-31"
        " 23:59:59.999999', 1.005 * id, 0.1F, named_struct('a', id, 'b', array('x', NULL)), map('k', 1), X'00FF',"
        " id % 2 = 0 FROM range({a}, {b}, 1, 2)"
    )
    table.sql("INSERT INTO {t} " + rows.replace("{a}", "0").replace("{b}", "4"))
    before = table.head
    table.sql("INSERT INTO {t} " + rows.replace("{a}", "10").replace("{b}", "50"))
    table.sql("ALTER TABLE {t} ADD COLUMN later STRING")
    table.sql("INSERT INTO {t} SELECT *, 'new' FROM (" + rows.replace("{a}", "50").replace("{b}", "60") + ")")
    of = DeltaTable(table.name, table.folder)
    history, _ = of.look([])
    whole = of.rows(table.reader, Read(None, table.head)).where("id >= 10")
    part = of.rows(table.reader, Read(before, table.head))
    assert part.columns == whole.columns and part.dtypes == whole.dtypes
    text = "to_json(struct(*), map('ignoreNullFields', 'false')) AS row"
    expected, found = (sorted(row["row"] for row in each.selectExpr(text).collect()) for each in (whole, part))
    assert found == expected and len(found) == 50
    stated = of.footers(Read(before, table.head), [history.snapshots[table.head], history.snapshots[before + 1]])
    assert stated is not None and (stated.rows, stated.columns["id"].high, stated.columns["kind"].nulls) == (50, 59, 25)
    assert stated.columns["later"].nulls is None and not stated.columns["at"].bounded


def test_rows_that_are_not_all_there_are_an_error_and_never_fewer_rows(table) -> None:
    first = table.append()
    table.check()
    table.append(rows=5)
    file = table.folder / log.LOG / f"{table.head:020d}.json"
    file.write_text(file.read_text().replace('\\"numRecords\\":3', '\\"numRecords\\":4'))  # 5 rows in 2 files
    result = table.check()
    assert (result["verdict"], result["verified_snapshot"]) == ("error", None)
    assert "has 3 rows, the log says 4" in result["note"]
    assert table.verified == first


@pytest.mark.campaign(
    held_by="tests/spark/quality/test_own.py::test_checks_against_other_tables_and_a_row_of_each_result_in_the_lake"
)
def test_checks_of_our_own_work_on_versions(table) -> None:
    iceberg, lake = f"{table.name}_keys", metadata.catalog(table.runtime)
    keys = "{{type: expect_keys_to_be_in_reference, kwargs: {{columns: [carrier], reference: {}}}}}".format
    equal = f"by: {{carrier: carrier}}, total: count(*), other: {table.name}, other_total: count(*)"
    carriers = pa.table({"carrier": ["AA"]})
    lake.create_table(iceberg, carriers.schema).append(carriers)
    table.suite(
        keys(iceberg),
        keys(table.name),
        f"{{type: expect_totals_to_equal_other_table, kwargs: {{{equal}}}, scope: table}}",
        "{type: expect_volume_as_usual}",
        "{type: expect_landed_to_equal_offsets}",
    )
    try:
        table.append()
        table.check()
        table.append()
        result = table.check()
        assert [(each["state"], each["error"]) for each in result["checks"]] == [
            *[("pass", None)] * 4,
            ("skipped", "no batch of a stream is in the range"),
        ]
        assert result["checks"][3]["observed"]["text"].startswith("600 rows an hour") and result["verdict"] == "pass"
    finally:
        lake.drop_table(iceberg)


@pytest.mark.campaign(
    held_by="tests/unit/quality/delta/test_commits.py::test_a_run_that_ended_late_does_not_take_verified_back"
)
def test_a_late_run_does_not_take_verified_back_and_a_release_moves_it(table) -> None:
    table.append()
    table.check()
    held = table.append(bad=1)
    assert table.check()["verdict"] == "hold"

    def connect() -> Any:
        return table.registry()

    done = release(connect, DeltaTable(table.name, table.folder), lambda: table.spark, author="ada", comment="known")
    assert done["verified_snapshot"] == held and f"version {held}" in done["detail"]
    assert table.verified == held
    newer = table.append()
    table.check()
    with table.registry() as connection:  # a run that began before that one, and ends only now
        late = {**verifications.newest(connection, table.name, limit=9)[-1], "run": f"late-{table.name}"}
        verifications.record(connection, {key: each for key, each in late.items() if key != "published_at"}, [])
    assert table.verified == newer
    table.sql(
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 1 second',"
        " 'delta.logRetentionDuration' = 'interval 1 day')"
    )
    assert len(table.rows(Read(None, held))) == 20, "a version Delta calls too old, of which no file is gone"
