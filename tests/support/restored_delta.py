"""A Delta table as streams leave it, written by hand: Parquet files and a log, without Spark."""

from __future__ import annotations

import io
import json
from typing import Any

import delta_log
import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.connectors.commit_protocol.position import Position, Totals, key
from lakeward.connectors.delta import log
from lakeward.connectors.delta.check import DOMAINS
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.connectors.delta.folder import Folder, parquet

FIELDS = [("_kafka_topic", "string"), ("_kafka_partition", "integer"), ("_kafka_offset", "long")]


def protocol(*features: str, reader: tuple[str, ...] = ()) -> dict[str, Any]:
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    return {"protocol": {**versions, "readerFeatures": list(reader), "writerFeatures": [DOMAINS, *features, *reader]}}


def metadata(columns: list[tuple[str, str]] = FIELDS, **properties: str) -> dict[str, Any]:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns]
    return {
        "metaData": {
            "id": "u-1", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
            "schemaString": json.dumps({"type": "struct", "fields": fields}), "configuration": properties,
        }
    }  # fmt: skip


def create(folder: Folder, *features: str, reader: tuple[str, ...] = (), **properties: str) -> None:
    delta_log.commit(
        folder, 0, {"commitInfo": {"operation": "CREATE TABLE"}}, protocol(*features, reader=reader),
        metadata(**properties),
    )  # fmt: skip


def head(folder: Folder) -> int:
    return DeltaLog(folder).listing().versions[-1]


def file(folder: Folder, offsets: range, topic: str = "t", **more: Any) -> dict[str, Any]:
    """A data file with these offsets, as an `add` action."""
    rows = {
        "_kafka_topic": pa.array([topic] * len(offsets), pa.string()),
        "_kafka_partition": pa.array([0] * len(offsets), pa.int32()),
        "_kafka_offset": pa.array(list(offsets), pa.int64()),
    }
    number = sum(each.suffix == ".parquet" for each in folder.iterdir())
    name = f"part-{offsets.start}-{offsets.stop}-{number}.parquet"
    content = io.BytesIO()
    pq.write_table(pa.table(rows), content)
    delta_log.put(folder / name, content.getvalue())
    size = len(content.getvalue())
    stats = json.dumps({"numRecords": len(offsets)})
    return {"add": {"path": name, "size": size, "partitionValues": {}, "modificationTime": 1, "dataChange": True,
                    "stats": stats, **more}}  # fmt: skip


def removal(add: dict[str, Any], *, rewrite: bool = False) -> dict[str, Any]:
    return {"remove": {"path": add["add"]["path"], "deletionTimestamp": 1, "dataChange": not rewrite}}


def commit(folder: Folder, operation: str, *actions: dict[str, Any], attempt: str | None = None) -> int:
    version = head(folder) + 1
    about = {"operation": operation, "timestamp": 1_772_000_000_000, "operationParameters": {}, "txnId": f"tx{version}"}
    delta_log.commit(folder, version, {"commitInfo": about | ({"userMetadata": attempt} if attempt else {})}, *actions)
    return version


def land(
    folder: Folder, stream: str, seq: int, start: int, end: int, *, topic: str = "t", source: str = "a"
) -> Position:
    """A batch of the stream, as a driver commits it."""
    version, attempt = head(folder) + 1, f"{stream}/{seq}/x"
    at = Position(
        seq=seq, query_id="q", batch=seq - 1, end={source: offsets(topic, end)}, begin={source: offsets(topic, 0)},
        snapshot=version, snapshot_seq=version, totals=Totals(consumed=end, landed=end), attempt=attempt, generation=1,
    )  # fmt: skip
    domain = {"domainMetadata": {"domain": key(stream), "configuration": at.to_json(), "removed": False}}
    commit(folder, "STREAMING UPDATE", file(folder, range(start, end), topic), domain, attempt=attempt)
    return at


def offsets(topic: str, at: int) -> str:
    return json.dumps({topic: {"0": at, "1": 0}}, separators=(",", ":"))


def values(folder: Folder) -> list[int]:
    """The offsets of all rows, in order."""
    table = log.read(folder, deletion_vectors=True)
    assert table is not None
    found: list[int] = []
    for path in table.files:
        found += pq.read_table(parquet(log.absolute(folder, path)))["_kafka_offset"].to_pylist()
    return sorted(found)
