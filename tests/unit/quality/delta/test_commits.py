"""What a version of a Delta table is, from logs written by hand; real ones are read in tests/spark/quality."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import delta_log
import pytest

from lakeward.connectors.delta import log
from lakeward.platform.errors import LakewardError
from lakeward.quality.delta.commits import MOST, Commits
from lakeward.quality.delta.table import DeltaTable, verified_proof
from lakeward.quality.ranges.range import Kind, Range, Read
from lakeward.quality.ranges.snapshot_chain import Cut, Snapshot

PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def about(operation: str, txn: str = "t", **parameters: Any) -> dict[str, Any]:
    return {"commitInfo": {"operation": operation, "operationParameters": parameters, "txnId": txn}}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with version 0 and two appends of ten rows; the files stand in its folder."""
    delta_log.commit(tmp_path, 0, about("CREATE TABLE", "t0"), PROTOCOL, delta_log.table(""))
    for version in (1, 2):
        append(tmp_path, version)
    return tmp_path


def append(folder: Path, version: int, *more: Mapping[str, Any], **changed: Any) -> None:
    added = delta_log.add(f"f{version}", 1)
    added["add"] |= changed
    (folder / f"f{version}").touch()
    delta_log.commit(folder, version, about("WRITE", f"t{version}"), added, *more)


def of(folder: Path, version: int) -> Snapshot:
    head = log.head(folder)
    assert head is not None
    return Commits(head)[version]


def proof(version: int, commit: str | None = None) -> dict[str, Any]:
    return {
        "run": f"run-{version}",
        "to_snapshot": version,
        "to_sequence": version,
        "to_commit": commit or f"u/t{version}",
    }


def look(folder: Path, *proofs: dict[str, Any]) -> tuple[int | None, Range]:
    history, found = DeltaTable("ns.t", folder).look(proofs)
    return history.verified, found


@pytest.mark.parametrize("how", ["dropped", "replaced"])
def test_a_table_that_goes_while_its_rows_are_looked_up_is_an_error_in_words(table: Path, how: str) -> None:
    looked = DeltaTable("ns.t", table)
    looked.look((proof(1),))
    shutil.rmtree(table / "_delta_log")
    if how == "replaced":
        delta_log.commit(table, 0, about("CREATE TABLE", "n0"), PROTOCOL, delta_log.table(""))
    with pytest.raises(LakewardError, match="Version 2 is no longer in the Delta log"):
        looked.footers(Read(1, 2), [Snapshot(2, 1, 2, datetime.now(UTC), "append")])


def test_appends_and_commits_without_files_are_a_line_of_versions(table: Path) -> None:
    delta_log.commit(table, 3, about("SET TBLPROPERTIES"), delta_log.table(""))
    made, second, third = (of(table, version) for version in (0, 2, 3))
    assert (made.parent, second.parent, second.operation, second.added) == (None, 1, "append", 10)
    assert (made.operation, made.added, third.operation, third.added) == ("append", 0, "append", 0)
    assert second.commit == "u/t2"
    verified, found = look(table, proof(1))
    assert (verified, found.kind, found.rows, [each.id for each in found.appends]) == (1, Kind.INCREMENT, 10, [2])
    assert found.why == "2 commits since version 1"


def test_the_batch_a_commit_lands_is_its_own_word(table: Path) -> None:
    delta_log.commit(table, 3, {"commitInfo": {"operation": "STREAMING UPDATE", "userMetadata": "flights/7/nonce"}})
    assert of(table, 3).wap_id == "flights/7/nonce"


def test_a_compaction_brings_no_rows_and_one_that_changed_their_number_is_not_believed(table: Path) -> None:
    gone = [delta_log.remove(f"f{number}", rewrite=True) for number in (1, 2)]
    for each in gone:
        each["remove"]["stats"] = '{"numRecords": 10}'
    (table / "both").touch()
    delta_log.commit(table, 3, about("OPTIMIZE"), delta_log.add("both", 1, 20, rewrite=True), *gone)
    assert (of(table, 3).operation, of(table, 3).added) == ("replace", 0)
    assert look(table, proof(1))[1].rows == 10, "the file it took out is read all the same"
    delta_log.commit(table, 3, about("OPTIMIZE"), delta_log.add("both", 1, 19, rewrite=True), *gone)
    assert of(table, 3).why == "compaction 3 changed the row count from 20 to 19"


@pytest.mark.parametrize(
    ("actions", "operation", "why"),
    [
        ([about("DELETE"), delta_log.remove("f1")], "delete", "version 3 (DELETE) rewrites rows in place"),
        ([about("MERGE"), delta_log.remove("f1"), delta_log.add("f2", 1)], "overwrite", "(MERGE) rewrites rows"),
        ([about("?"), delta_log.remove("f1", rewrite=True), delta_log.add("f2", 1)], "overwrite", "rewrites rows"),
        ([about("RESTORE", version="1"), delta_log.remove("f2")], "overwrite", "version 3 is a RESTORE"),
        ([about("RESTORE", version=None), delta_log.remove("f2")], "overwrite", "version 3 is a RESTORE"),
        ([about("WRITE"), delta_log.add("never", 1)], "overwrite", "never is missing from the folder"),
        ([about("WRITE"), delta_log.add("file:///elsewhere/f2", 1)], "overwrite", "a file is of another table"),
        ([about("WRITE"), delta_log.add("_f2", 1)], "overwrite", "skips a file"),
        ([about("WRITE"), delta_log.add("day=1/f2", 1)], "overwrite", "does not contain its partition"),
    ],
)
def test_whatever_is_no_plain_append_needs_the_whole_table(table: Path, actions: Any, operation: str, why: str) -> None:
    (table / "_f2").touch()
    delta_log.commit(table, 3, *actions)
    assert of(table, 3).operation == operation and why in str(of(table, 3).why)
    found = look(table, proof(1))[1]
    assert found.kind is Kind.TABLE and why in found.why


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"stats": None}, "does not state the row counts"),
        ({"stats": '{"minValues": {}}'}, "does not state the row counts"),
        ({"deletionVector": {"cardinality": 1}}, "a file has a deletion vector"),
    ],
)
def test_an_append_that_cannot_be_read_apart_says_why(table: Path, changed: Any, why: str) -> None:
    append(table, 3, **changed)
    assert of(table, 3).operation == "overwrite" and why in str(of(table, 3).why)


@pytest.mark.parametrize(
    ("protocol", "configuration", "why"),
    [
        ({}, {"delta.columnMapping.mode": "name"}, "maps column names"),
        ({"readerFeatures": ["typeWidening", "timestampNtz"]}, {}, "the table uses typeWidening"),
    ],
)
def test_a_table_whose_files_delta_must_read_is_never_read_by_them(
    table: Path, protocol: Any, configuration: Any, why: str
) -> None:
    said = delta_log.table("")
    said["metaData"]["configuration"] = configuration
    delta_log.commit(table, 3, about("SET TBLPROPERTIES"), said, {"protocol": PROTOCOL["protocol"] | protocol})
    assert why in str(of(table, 2).why)


def test_a_commit_nobody_can_read_is_never_an_append(table: Path) -> None:
    append(table, 4)
    (table / log.LOG / f"{3:020d}.json").write_text('{"add"')
    delta_log.commit(table, 5, PROTOCOL, delta_log.table(""))
    assert of(table, 3).operation == "overwrite" and "version 3 cannot be read" in str(of(table, 3).why)


def test_a_restore_leaves_the_proof_behind_and_an_older_one_stands(table: Path) -> None:
    append(table, 3)
    delta_log.commit(table, 4, about("RESTORE", version="1"), delta_log.remove("f2"), delta_log.remove("f3"))
    verified, found = look(table, proof(3), proof(1))
    assert (verified, found.cut, found.kind) == (1, Cut.ROLLED_BACK, Kind.TABLE)
    assert "the table was rolled back to before verified version 3 and then continued to version 4" in found.why
    assert look(table, proof(3))[0] is None


def test_a_restore_to_where_the_proof_stands_keeps_it(table: Path) -> None:
    delta_log.commit(table, 3, about("RESTORE", version="1"), delta_log.remove("f2"))
    verified, found = look(table, proof(1))
    assert (verified, found.cut, found.kind) == (1, None, Kind.TABLE)


def test_a_proof_of_a_table_that_was_there_before_counts_for_nothing(table: Path) -> None:
    verified, found = look(table, proof(2, "another/t2"))
    assert (verified, found.cut) == (None, Cut.REPLACED)
    assert found.why == "the table was replaced since verified version 2: the whole table"
    assert look(table, proof(2, "u/another"))[0] is None, "of an older copy of the folder"
    assert look(table, proof(7, "another/t7"))[1].cut is Cut.REPLACED, "its version is not there to compare"
    assert verified_proof("ns.t", table, [proof(2, "another/t2"), proof(1)]) == proof(1)


def test_a_run_that_ended_late_does_not_take_verified_back(table: Path) -> None:
    assert look(table, proof(1), proof(2))[0] == 2


def test_a_replaced_table_begins_again(table: Path) -> None:
    said = delta_log.table("")
    said["metaData"]["id"] = "v"
    (table / "f3").touch()
    delta_log.commit(table, 3, about("CREATE OR REPLACE TABLE AS SELECT"), said, delta_log.add("f3", 1),
                     delta_log.remove("f1"))  # fmt: skip
    assert (of(table, 3).parent, of(table, 3).operation, of(table, 3).added) == (None, "append", 10)
    assert look(table, proof(2))[1].cut is Cut.REPLACED


def test_a_log_that_was_cleaned_above_the_proof_is_reported(table: Path) -> None:
    for version in range(3, 6):
        append(table, version)
    delta_log.commit(table, 5, PROTOCOL, delta_log.table(""))
    for version in range(3):
        (table / log.LOG / f"{version:020d}.json").unlink()
    _checkpoint(table, 4)
    assert look(table, proof(2))[1].kind is Kind.INCREMENT, "its child stands"
    verified, found = look(table, proof(1))
    assert (verified, found.cut) == (None, Cut.EXPIRED)
    assert "versions after verified version 1 were expired" in found.why


def test_no_more_than_the_newest_versions_are_looked_at(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeward.quality.delta.commits.MOST", 2)
    head = log.head(table)
    assert head is not None and MOST > 2
    assert (sorted(Commits(head)), 0 in Commits(head), len(Commits(head))) == ([1, 2], False, 2)


def _checkpoint(folder: Path, version: int) -> None:
    """One as Delta writes it, with the metadata alone."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    said = delta_log.table("")["metaData"]
    rows = [{"metaData": said | {"configuration": [("a", "b")]}, "protocol": None, "add": None},
            {"metaData": None, "protocol": PROTOCOL["protocol"], "add": None}]  # fmt: skip
    kinds = pa.schema(
        {
            "metaData": pa.struct({"id": pa.string(), "schemaString": pa.string(),
                                   "partitionColumns": pa.list_(pa.string()),
                                   "configuration": pa.map_(pa.string(), pa.string())}),
            "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
            "add": pa.struct({"path": pa.string()}),
        }
    )  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, kinds), folder / log.LOG / f"{version:020d}.checkpoint.parquet")
    (folder / log.LOG / f"{version + 1:020d}.json").write_text(json.dumps(about("WRITE")) + "\n")


def test_who_the_table_is_is_in_the_checkpoint_once_its_commit_is_gone(table: Path) -> None:
    _checkpoint(table, 2)
    (table / log.LOG / f"{0:020d}.json").unlink()
    head = log.head(table)
    assert head is not None and (head.version, head.table_id, head.properties) == (3, "u", {"a": "b"})
    assert log.live(head) == []


def test_rows_that_were_rewritten_are_never_read_as_added_ones(table: Path) -> None:
    delta_log.commit(table, 3, about("DELETE"), delta_log.remove("f1"))
    found = DeltaTable("ns.t", table)
    found.look([])
    session: Any = None  # it is refused before a session is needed
    with pytest.raises(LakewardError, match="Cannot read the rows"):
        found.rows(session, Read(1, 3))
    with pytest.raises(LakewardError, match="version 2 is not below version 1"):
        found.rows(session, Read(2, 1))
