"""Properties set in a log written by hand. Spark reads such a version in tests/spark/connectors/delta."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import delta_log
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.connectors.delta import log
from lakeward.connectors.delta.amend import amend
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.platform.errors import Fenced, Refused, Transient

ODD = "delta.checkpointInterval"
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["domainMetadata"]}


def metadata(**configuration: str) -> dict[str, Any]:
    """A table as Spark describes it."""
    made = delta_log.table("")["metaData"]
    return made | {"format": {"provider": "parquet", "options": {}}, "createdTime": 1, "configuration": configuration}


def made(folder: Path, **protocol: Any) -> Path:
    delta_log.commit(folder, 0, {"protocol": PROTOCOL | protocol}, {"metaData": metadata(**{ODD: "x", "owner": "ann"})})
    return folder


def test_the_next_version_has_the_properties_and_changes_nothing_else(tmp_path: Path) -> None:
    assert amend("n.t", made(tmp_path), {ODD: "10"}, {ODD: "x"}) == 1
    info, action = DeltaLog(tmp_path).actions(1)
    assert info["commitInfo"]["operation"] == "SET TBLPROPERTIES"
    assert action == {"metaData": metadata(**{ODD: "10", "owner": "ann"})}


def test_a_table_read_from_a_checkpoint_keeps_its_empty_lists(tmp_path: Path) -> None:
    """A checkpoint has a column of each field, so that what a table does not have is null there."""
    row = metadata(**{ODD: "x"}) | {"name": None, "description": None}
    kinds = pa.struct(
        [
            *((name, pa.string()) for name in ("id", "name", "description", "schemaString")),
            ("format", pa.struct([("provider", pa.string()), ("options", pa.map_(pa.string(), pa.string()))])),
            ("partitionColumns", pa.list_(pa.string())), ("createdTime", pa.int64()),
            ("configuration", pa.map_(pa.string(), pa.string())),
        ]
    )  # fmt: skip
    asked = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()),
                       ("writerFeatures", pa.list_(pa.string()))])  # fmt: skip
    rows = [{"metaData": row, "protocol": None}, {"metaData": None, "protocol": PROTOCOL}]
    made(tmp_path)
    pq.write_table(
        pa.Table.from_pylist(rows, pa.schema([("metaData", kinds), ("protocol", asked)])),
        tmp_path / log.LOG / f"{0:020d}.checkpoint.parquet",
    )
    assert amend("n.t", tmp_path, {ODD: "10"}, {ODD: "x"}) == 1
    assert list(DeltaLog(tmp_path).actions(1, "metaData")) == [{"metaData": metadata(**{ODD: "10"})}]


def test_what_another_writer_changed_is_left(tmp_path: Path) -> None:
    made(tmp_path)
    delta_log.commit(tmp_path, 1, {"metaData": metadata(**{ODD: "5"})})
    with pytest.raises(Fenced, match=f"changed: {re.escape(ODD)}") as fenced:
        amend("n.t", tmp_path, {ODD: "10"}, {ODD: "x"})
    assert (fenced.value.code, log.commit(tmp_path, 2)) == ("LW-3493", None)
    with pytest.raises(Fenced):
        amend("n.t", tmp_path / "none", {ODD: "10"}, {ODD: "x"})


def test_what_the_protocol_asks_of_a_writer_is_not_ignored(tmp_path: Path) -> None:
    made(tmp_path, writerFeatures=["domainMetadata", "catalogManaged"])
    with pytest.raises(Refused, match="cannot be set without Spark") as refused:
        amend("n.t", tmp_path, {ODD: "10"}, {ODD: "x"})
    assert "catalogManaged" in refused.value.why and log.commit(tmp_path, 1) is None


def test_other_commits_that_always_come_first_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path)
    monkeypatch.setattr(DeltaLog, "put", lambda *_: False)
    with pytest.raises(Transient, match="contention"):
        amend("n.t", tmp_path, {ODD: "10"}, {ODD: "x"})
