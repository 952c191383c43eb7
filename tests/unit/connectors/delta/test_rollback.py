"""A Delta table rolled back in one commit without Spark: what the commit has, and what refuses it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import delta_log
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import restored_delta as rig

from lakeward.connectors.commit_protocol.position import key
from lakeward.connectors.delta import log, rollback, state
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.platform.errors import Fenced, Refused, Transient


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Version 1: rows 0 to 4; version 2: rows 5 to 7."""
    rig.create(tmp_path)
    rig.land(tmp_path, "s", 1, 0, 5)
    rig.land(tmp_path, "s", 2, 5, 8)
    return tmp_path


def _move(folder: Path, to: int, domains: dict[str, str | None] | None = None) -> int:
    now, target = rollback.newest(folder), rollback.at_version(folder, to)
    assert now is not None
    rollback.check("n.t", now, target)
    return rollback.move("n.t", now, target, domains or {}, "restore/version-1/ann")


def _refused(folder: Path, to: int) -> str:
    before = rig.head(folder)
    with pytest.raises(Refused) as error:
        _move(folder, to)
    assert rig.head(folder) == before, "nothing was changed"
    return f"{error.value.what}: {error.value.why} {error.value.next}"


def _last(folder: Path) -> list[dict[str, Any]]:
    return list(DeltaLog(folder).actions(rig.head(folder)))


def test_the_commit_continues_the_target_with_its_files_and_the_positions(folder: Path) -> None:
    old = rollback.at_version(folder, 1)
    assert _move(folder, 1, {key("s"): "{}", "lakeward.restore": "m", key("s@b"): None}) == 3

    assert rig.values(folder) == [0, 1, 2, 3, 4]
    found = log.commit(folder, 3)
    assert found is not None
    assert (found.operation, found.parent, found.attempt) == ("RESTORE", 1, "restore/version-1/ann")
    assert found.domains == {key("s"): "{}", "lakeward.restore": "m"}, "what the table does not have is not removed"
    now = rollback.newest(folder)
    assert now is not None
    assert (now.files, now.rows) == (old.files, 5)
    removed = [action["remove"] for action in _last(folder) if "remove" in action]
    assert [(each["path"], each["dataChange"], each["extendedFileMetadata"]) for each in removed] == [
        ("part-5-8-1.parquet", True, True)
    ]
    assert state.read(folder) is not None, "the other readers of the log read it"


def test_a_file_comes_back_as_it_was_recorded(tmp_path: Path) -> None:
    rig.create(tmp_path, "rowTracking", reader=("deletionVectors",))
    inline = {"storageType": "i", "pathOrInlineDv": "x" * 20, "sizeInBytes": 16, "cardinality": 2}
    more = {"deletionVector": inline, "baseRowId": 40, "defaultRowCommitVersion": 1, "tags": {"a": "b"}}
    first = rig.file(tmp_path, range(5), **more)
    assert rig.commit(tmp_path, "WRITE", first) == 1
    smaller = {"add": {**first["add"], "deletionVector": {**inline, "pathOrInlineDv": "y" * 20, "cardinality": 4}}}
    rig.commit(tmp_path, "DELETE", {"remove": {**rig.removal(first)["remove"], "deletionVector": inline}}, smaller)
    rig.commit(tmp_path, "DELETE", rig.removal(smaller))

    _move(tmp_path, 1)

    (add,) = [action["add"] for action in _last(tmp_path) if "add" in action]
    assert add == first["add"]
    _move(tmp_path, 2)  # the same file with another deletion vector: out and in, in one commit
    (add,) = [action["add"] for action in _last(tmp_path) if "add" in action]
    (remove,) = [action["remove"] for action in _last(tmp_path) if "remove" in action]
    assert (add["deletionVector"], remove["deletionVector"]) == (smaller["add"]["deletionVector"], inline)
    assert (remove["baseRowId"], remove["stats"]) == (40, first["add"]["stats"])
    now = rollback.newest(tmp_path)
    assert now is not None
    assert now.rows == 1


def _checkpoint(folder: Path, version: int) -> None:
    """As Spark writes it: a row has every kind of action, and all but one are empty."""
    at = rollback.at_version(folder, version)
    rows: list[dict[str, Any]] = [{"metaData": at.metadata}, {"protocol": at.protocol}]
    rows += [{"add": {**add, "stats_parsed": {"numRecords": 1}}} for add in at.files.values()]
    domains = [{"domain": name, "configuration": text, "removed": False} for name, text in at.domains.items()]
    rows += [{"domainMetadata": domain} for domain in domains]
    strings, texts = pa.map_(pa.string(), pa.string()), pa.list_(pa.string())
    add = {"path": pa.string(), "partitionValues": strings, "size": pa.int64(), "modificationTime": pa.int64(),
           "dataChange": pa.bool_(), "stats": pa.string(), "baseRowId": pa.int64(),
           "stats_parsed": pa.struct({"numRecords": pa.int64()})}  # fmt: skip
    metadata = {"id": pa.string(), "schemaString": pa.string(), "partitionColumns": texts, "configuration": strings}
    protocol = {"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32(), "readerFeatures": texts,
                "writerFeatures": texts}  # fmt: skip
    domain = {"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()}
    kinds = {"add": add, "metaData": metadata, "protocol": protocol, "domainMetadata": domain}
    schema = pa.schema([(name, pa.struct(list(fields.items()))) for name, fields in kinds.items()])
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / log.LOG / f"{version:020d}.checkpoint.parquet")


def test_a_version_is_read_from_a_checkpoint_and_one_before_it_is_refused(folder: Path) -> None:
    before = rollback.at_version(folder, 1)
    _checkpoint(folder, 1)
    (folder / log.LOG / f"{0:020d}.json").unlink()
    with pytest.raises(Refused, match="its log is incomplete"):
        rollback.at_version(folder, 0)
    found = rollback.at_version(folder, 1)
    assert (found.domains, found.features, list(found.files)) == (before.domains, before.features, list(before.files))
    rig.commit(folder, "DELETE", *(rig.removal({"add": add}) for add in found.files.values()))

    _move(folder, 1)

    (add,) = [action["add"] for action in _last(folder) if "add" in action]
    assert add == next(iter(before.files.values())), "what only a checkpoint has is left out"


def test_files_that_vacuum_deleted_are_counted(folder: Path) -> None:
    paths = list(rollback.at_version(folder, 2).files)
    adds = [{"add": {"path": path}} for path in paths]
    rig.commit(folder, "DELETE", *(rig.removal(add) for add in adds))
    (folder / paths[0]).unlink()
    said = _refused(folder, 2)
    assert "1 file no longer exist" in said
    assert "delta.deletedFileRetentionDuration (7 days by default)" in said
    assert paths[0] in said


def test_a_deletion_vector_that_vacuum_deleted_is_missing_too(tmp_path: Path) -> None:
    rig.create(tmp_path, reader=("deletionVectors",))
    vector = {"storageType": "p", "pathOrInlineDv": f"{tmp_path}/dv.bin", "offset": 1, "sizeInBytes": 1,
              "cardinality": 1}  # fmt: skip
    first = rig.file(tmp_path, range(3), deletionVector=vector)
    rig.commit(tmp_path, "WRITE", first)
    rig.commit(tmp_path, "DELETE", rig.removal(first))
    assert "1 file no longer exist" in _refused(tmp_path, 1)
    (tmp_path / "dv.bin").write_bytes(base64.b64decode("AA=="))
    assert _move(tmp_path, 1) == 3


def test_a_file_that_vacuum_deletes_after_the_plan_stops_the_commit(folder: Path) -> None:
    path = next(iter(rollback.at_version(folder, 1).files))
    rig.commit(folder, "DELETE", rig.removal({"add": {"path": path}}))
    now, to = rollback.newest(folder), rollback.at_version(folder, 1)
    assert now is not None
    rollback.check("n.t", now, to)
    (folder / path).unlink()
    with pytest.raises(Refused, match="no longer exist"):
        rollback.move("n.t", now, to, {}, "a")
    assert rig.head(folder) == 3


@pytest.mark.parametrize(
    ("changed", "action"),
    [
        ("schema", rig.metadata([*rig.FIELDS, ("n", "long")])),
        ("constraints", rig.metadata(**{"delta.constraints.small": "n < 9"})),
        ("column mapping", rig.metadata(**{"delta.columnMapping.mode": "name"})),
        ("protocol", rig.protocol("changeDataFeed")),
        ("partitioning", {"metaData": {**rig.metadata()["metaData"], "partitionColumns": ["_kafka_topic"]}}),
        ("features", rig.metadata(**{"delta.enableRowTracking": "true"})),
    ],
)
def test_what_was_set_up_otherwise_is_refused_and_the_version_is_named(
    folder: Path, changed: str, action: dict[str, Any]
) -> None:
    version = rig.commit(folder, "ALTER", action)
    rig.commit(folder, "WRITE", rig.file(folder, range(8, 9)))
    said = _refused(folder, 1)
    assert f"its {changed} changed since" in said
    assert f"restore to version {version} or a later one" in said
    assert _move(folder, version) == version + 2
    rig.commit(folder, "SET TBLPROPERTIES", {"metaData": {**rollback.newest(folder).metadata, "description": "x"}})
    assert _move(folder, version) == version + 4, "other properties stay as they are now"


@pytest.mark.parametrize(
    ("feature", "properties", "said"),
    [
        ("icebergCompatV2", {}, "does not support: icebergCompatV2"),
        ("collations", {}, "does not support: collations"),
        ("inCommitTimestamp", {"delta.enableInCommitTimestamps": "true"}, "does not support: inCommitTimestamp"),
        ("appendOnly", {"delta.appendOnly": "true"}, "it is append-only"),
    ],
)
def test_a_table_that_a_commit_without_spark_may_not_change(
    tmp_path: Path, feature: str, properties: dict[str, str], said: str
) -> None:
    rig.create(tmp_path, feature, **properties)
    rig.commit(tmp_path, "WRITE", rig.file(tmp_path, range(3)))
    assert said in _refused(tmp_path, 0)


def test_row_ids_that_a_file_never_had(tmp_path: Path) -> None:
    rig.create(tmp_path, "rowTracking")
    first = rig.file(tmp_path, range(3))
    rig.commit(tmp_path, "WRITE", first)
    rig.commit(tmp_path, "DELETE", rig.removal(first))
    assert "have no row ids" in _refused(tmp_path, 1)


def test_a_table_without_positions_is_left_to_spark(tmp_path: Path) -> None:
    old = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    delta_log.commit(tmp_path, 0, {"commitInfo": {"operation": "CREATE TABLE"}}, old, rig.metadata())
    rig.commit(tmp_path, "WRITE", rig.file(tmp_path, range(3)))
    assert "RESTORE TABLE" in _refused(tmp_path, 0)


def test_of_two_restores_at_once_one_wins(folder: Path) -> None:
    now, to = rollback.newest(folder), rollback.at_version(folder, 1)
    assert now is not None
    assert rollback.move("n.t", now, to, {}, "a") == 3
    with pytest.raises(Fenced, match="another commit came first"):
        rollback.move("n.t", now, to, {}, "b")
    assert rig.head(folder) == 3
    assert log.commit(folder, 3).attempt == "a"


def test_a_version_that_another_process_overwrote_is_not_taken_for_done(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = DeltaLog.put

    def overwritten(self: DeltaLog, version: int, actions: Any) -> bool:
        done = put(self, version, actions)
        delta_log.commit(folder, version, {"commitInfo": {"operation": "WRITE"}})
        return done

    monkeypatch.setattr(DeltaLog, "put", overwritten)
    with pytest.raises(Fenced, match="another commit came first"):
        _move(folder, 1, {key("s"): "{}"})


def test_the_marker_goes_only_if_it_is_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _move(folder, 1, {"lakeward.restore": "m"})
    rollback.forget("n.t", folder, "lakeward.restore", "another")
    assert rig.head(folder) == 3
    with monkeypatch.context() as patched:
        patched.setattr(DeltaLog, "put", lambda *_: False)
        with pytest.raises(Transient, match="contention"):
            rollback.forget("n.t", folder, "lakeward.restore", "m")
    rollback.forget("n.t", folder, "lakeward.restore", "m")
    assert "lakeward.restore" not in log.domains(folder, rig.head(folder))
    assert [list(each) for each in _last(folder)] == [["commitInfo"], ["domainMetadata"]]
    rollback.forget("n.t", folder, "lakeward.restore", "m")
    assert rig.head(folder) == 4


def test_rows_of_a_file_without_statistics_are_read_from_it(folder: Path) -> None:
    rig.commit(folder, "WRITE", rig.file(folder, range(8, 12), stats=None))
    now = rollback.newest(folder)
    assert now is not None
    assert now.rows == 12
    _move(folder, 2)
    assert json.loads(_last(folder)[0]["commitInfo"]["operationMetrics"]["numRemovedFiles"]) == 1


def test_comments_and_the_next_value_of_an_identity_column_are_no_change_of_the_schema(tmp_path: Path) -> None:
    rig.create(tmp_path, "identityColumns")

    def column(**about: Any) -> dict[str, Any]:
        made = rig.metadata()
        schema = json.loads(made["metaData"]["schemaString"])
        schema["fields"][2]["metadata"] = {"delta.identity.start": 1, "delta.identity.step": 1, **about}
        made["metaData"]["schemaString"] = json.dumps(schema)
        return made

    rig.commit(tmp_path, "WRITE", column(**{"delta.identity.highWaterMark": 5}), rig.file(tmp_path, range(5)))
    rig.commit(tmp_path, "WRITE", column(**{"delta.identity.highWaterMark": 8}), rig.file(tmp_path, range(5, 8)))
    rig.commit(tmp_path, "CHANGE COLUMN", column(**{"delta.identity.highWaterMark": 8, "comment": "offset"}))

    assert _move(tmp_path, 1) == 4
    assert rig.values(tmp_path) == [0, 1, 2, 3, 4]
    now = rollback.newest(tmp_path)
    assert now is not None
    assert '"delta.identity.highWaterMark": 8' in now.metadata["schemaString"], "no value is given again"
    rig.commit(tmp_path, "CHANGE COLUMN", column(**{"delta.generationExpression": "1"}))
    assert "schema changed since" in _refused(tmp_path, 1)
