"""The audit's view of an Iceberg table: three columns of main's head with PyIceberg, no JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeward.connectors.exact import audit as counting
from lakeward.connectors.exact.audit import Audit, Partition, Scan
from lakeward.connectors.exact.position import Position
from lakeward.spec.positions import IDENTITY_COLUMNS

if TYPE_CHECKING:
    from pyiceberg.table import Table


def audit(
    table: Table,
    stream: str,
    position: Position,
    quarantine: Table | None = None,
    records: Mapping[Partition, int] | None = None,
) -> Audit:
    """`exact.audit.audit` over freshly loaded tables."""
    aside = None if quarantine is None else scan(quarantine)
    return counting.audit(scan(table), stream, position, aside, records)


def rows_between(
    table: Table, start: Mapping[Partition, int], end: Mapping[Partition, int]
) -> dict[Partition, tuple[int, int]]:
    """How many rows the table has of the records from `start` to `end`, and of how many records, by partition."""
    return counting.rows_between(scan(table), start, end)


def scan(table: Table) -> Scan:
    """Reads the identity columns of main's head."""

    def read(topics: Sequence[str], stream: str | None) -> Iterator[pa.RecordBatch]:
        from pyiceberg import expressions

        build: Any = expressions  # pydantic hides these constructors from mypy
        topic, partition, offset = IDENTITY_COLUMNS["kafka"]
        wanted: expressions.BooleanExpression = build.In(topic, list(topics))
        if stream is not None:
            wanted = build.And(wanted, build.EqualTo("stream", stream))
        if table.current_snapshot() is None:
            return iter(())
        reader: Any = table.scan(row_filter=wanted, selected_fields=(topic, partition, offset)).to_arrow_batch_reader()
        return iter(reader)

    return read
