"""What stands in a sink, read without the product's audit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from exactly_once_oracle import Row
from exactly_once_streams import Kind
from psycopg2 import sql
from world import World

from lakeward.connectors.commit_protocol.position import Position, key, parse
from lakeward.connectors.delta import location as place
from lakeward.connectors.delta import log
from lakeward.connectors.folder import store
from lakeward.connectors.postgres import connection, position_store
from lakeward.platform.errors import LakewardError
from lakeward.spec.model.stream import StreamSpec


class Sinks:
    """Reads the campaign's sinks."""

    def __init__(self, world: World, folder: Path) -> None:
        self._world, self.folder = world, folder
        self._lake = world.catalog()

    def place(self, kind: Kind, table: str) -> Path:
        """The folder of a sink's files."""
        if kind.sink == "iceberg":
            return Path(self._world.runtime.lake.warehouse, *table.split("."))
        return place.folder_of(self._world.runtime.lake, table) if kind.sink == "delta" else self.folder / table

    def rows(self, kind: Kind, stream: str, table: str) -> list[Row]:
        """All rows; nothing yet is no row."""
        match kind.sink:
            case "iceberg":
                return self._world.rows(table)
            case "delta":
                return _delta(self.place(kind, table))
            case "postgres":
                return self._postgres(table.rpartition(".")[2])
            case "files":
                files = sorted(self.place(kind, table).glob("seq=*/*.parquet"))
                return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
            case "kafka":
                return consume(self._world.kafka.bootstrap, table.rpartition(".")[2])
            case "python":
                kept = self.folder / f"{stream}.jsonl"
                return [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []

    def position(self, kind: Kind, stream: str, table: str, document: Mapping[str, Any]) -> Position | None:
        """Of a sink that keeps one."""
        text: str | None = None
        if kind.sink == "iceberg":
            from pyiceberg.exceptions import NoSuchTableError

            try:
                text = self._lake.load_table(table).properties.get(key(stream))
            except NoSuchTableError:
                return None
        elif kind.sink == "delta":
            found = log.read(self.place(kind, table))
            text = found.domains.get(key(stream)) if found else None
        elif kind.sink == "postgres":
            spec = StreamSpec.model_validate({"owner": "tests", **document})
            try:
                return position_store.of(self._world.runtime, spec).state().position
            except LakewardError:
                return None
        elif kind.sink == "files":
            return store.newest(self.place(kind, table), stream)
        return None if text is None else parse(text, stream, table)

    def staged(self, table: str, stream: str, since: float) -> int:
        """Snapshots of the stream in an Iceberg table that main does not have, younger than `since`."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            metadata = self._lake.load_table(table).metadata
        except NoSuchTableError:
            return 0
        known, main = {each.snapshot_id: each for each in metadata.snapshots}, set()
        at = metadata.current_snapshot_id
        while at in known:
            main.add(at)
            at = known[at].parent_snapshot_id
        return sum(
            each.snapshot_id not in main and each.timestamp_ms >= since * 1000
            for each in metadata.snapshots
            if each.summary and str(each.summary["lakeward.attempt"] or "").startswith(f"{stream}/")
        )

    def written(self, kind: Kind, table: str, since: float) -> tuple[int, int]:
        """Data files and manifests that are younger than `since`, published or not."""
        root = self.place(kind, table)
        fresh = [
            each.relative_to(root)
            for each in root.rglob("*")
            if each.is_file() and not each.name.endswith(".crc") and each.stat().st_mtime >= since
        ] if root.exists() else []  # fmt: skip
        data = [each for each in fresh if "parquet" in each.name]
        return len(data), sum(each.name.endswith("-m0.avro") or each.name == "_SUCCESS" for each in fresh)

    def _postgres(self, table: str) -> list[Row]:
        runtime = self._world.runtime
        with (
            closing(connection.connect(runtime.postgres["there"], runtime.pgpass, "oracle")) as held,
            held.cursor() as cursor,
        ):
            cursor.execute("SELECT to_regclass(%s)", (f'public."{table}"',))
            if cursor.fetchone() == (None,):
                return []
            cursor.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table)))
            names = [each.name for each in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _delta(folder: Path) -> list[Row]:
    found = log.read(folder)
    files = found.files if found else {}
    return [row for name in files for row in pq.ParquetFile(folder / name).read().to_pylist()]


def consume(bootstrap: str, topic: str) -> list[Row]:
    """Everything in a topic of one partition, from its own beginning, whatever was committed."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "log_level": 0}
    consumer = Consumer(settings)
    found: list[Row] = []
    try:
        where = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(where, timeout=30)
        consumer.assign([where])
        while len(found) < end:
            found += [json.loads(each.value() or b"{}") for each in consumer.consume(end - len(found), timeout=10)]
    finally:
        consumer.close()
    return found
