"""Iceberg reads for the exactly-once audit: three columns of main's head with PyIceberg, without a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.connectors.commit_protocol import audit as counting
from lakeward.connectors.commit_protocol.audit import Audit, Scan
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg.quarantine import BECAME, MOVING, REPLAY, REPLAYED_AT
from lakeward.connectors.kafka.records import Partition
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import DataScan, Table


def audit(
    table: Table,
    stream: str,
    position: Position,
    quarantine: Table | None = None,
    records: Mapping[Partition, int] | None = None,
) -> Audit:
    """Run `commit_protocol.audit.audit` over freshly loaded tables."""
    quarantined = None if quarantine is None else pending_quarantine(quarantine)
    return counting.audit(scan(table), stream, position, quarantined, records)


def quarantined_between(
    table: Table, start: Mapping[Partition, int], end: Mapping[Partition, int]
) -> dict[Partition, tuple[int, int]]:
    """The number of rows, and of distinct records, that a quarantine table has from `start` to `end`, by partition;
    without replayed rows."""
    return counting.rows_between(pending_quarantine(table), start, end)


def pending_quarantine(table: Table, done: str | None = None) -> Scan:
    """A function that reads the identity columns of the rows in quarantine that were not replayed.

    Args:
        done: the token of the newest published replay or removal: its rows have landed, or are in quarantine, even if
            the marker columns are not updated yet.
    """
    return scan(table, _open(done) if REPLAYED_AT in table.schema().column_names else None)


def _open(done: str | None) -> BooleanExpression:
    from pyiceberg import expressions

    build: Any = expressions  # pydantic hides these constructors from mypy
    pending: BooleanExpression = build.IsNull(REPLAYED_AT)
    if done is not None:
        pending = build.And(pending, build.Or(build.IsNull(REPLAY), build.NotEqualTo(REPLAY, done)))
        moved = build.And(build.EqualTo(REPLAY, done), build.EqualTo(BECAME, MOVING))
        pending = build.Or(pending, moved)
    return pending


def scan(table: Table, only: BooleanExpression | None = None) -> Scan:
    """A function that reads the identity columns of main's head, for the rows that match `only`."""

    def read(topics: Sequence[str], stream: str | None) -> Iterator[pa.RecordBatch]:
        from pyiceberg import expressions

        build: Any = expressions  # pydantic hides these constructors from mypy
        topic, partition, offset = IDENTITY_COLUMNS["kafka"]
        row_filter: BooleanExpression = build.In(topic, list(topics))
        if stream is not None:
            row_filter = build.And(row_filter, build.EqualTo("stream", stream))
        if only is not None:
            row_filter = build.And(row_filter, only)
        if table.current_snapshot() is None:
            return iter(())
        scanned = table.scan(row_filter=row_filter, selected_fields=(topic, partition, offset))
        return _batches(table, scanned)

    return read


def _batches(table: Table, scanned: DataScan) -> Iterator[pa.RecordBatch]:
    """What the scan reads. Arrow does not say which file is damaged: they are opened one by one then."""
    reader: Any = scanned.to_arrow_batch_reader()
    try:
        yield from reader
    except ValueError as error:
        for task in scanned.plan_files():
            try:
                with table.io.new_input(task.file.file_path).open() as file:
                    pq.ParquetFile(file)
            except ValueError as of_file:
                raise ValueError(f"{task.file.file_path} is damaged: {of_file}") from error
        raise
