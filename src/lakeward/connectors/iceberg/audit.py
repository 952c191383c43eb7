"""The audit's view of an Iceberg table: three columns of main's head with PyIceberg, no JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeward.connectors.commit_protocol import audit as counting
from lakeward.connectors.commit_protocol.audit import Audit, Partition, Scan
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg.quarantine import BECAME, MOVING, REPLAY, REPLAYED_AT
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table


def audit(
    table: Table,
    stream: str,
    position: Position,
    quarantine: Table | None = None,
    records: Mapping[Partition, int] | None = None,
) -> Audit:
    """`exact.audit.audit` over freshly loaded tables."""
    aside = None if quarantine is None else put_aside(quarantine)
    return counting.audit(scan(table), stream, position, aside, records)


def put_aside_between(
    table: Table, start: Mapping[Partition, int], end: Mapping[Partition, int]
) -> dict[Partition, tuple[int, int]]:
    """How many rows a quarantine table has of the records from `start` to `end`, and of how many records, by
    partition; without those that landed after all."""
    return counting.rows_between(put_aside(table), start, end)


def put_aside(table: Table, done: str | None = None) -> Scan:
    """Reads the identity columns of a quarantine table's rows that nothing was made of.

    Args:
        done: the newest replay or removal that the sink calls published: its rows have landed, or have come here,
            whether it is noted beside them or not.
    """
    return scan(table, _open(done) if REPLAYED_AT in table.schema().column_names else None)


def _open(done: str | None) -> BooleanExpression:
    from pyiceberg import expressions

    build: Any = expressions  # pydantic hides these constructors from mypy
    found: BooleanExpression = build.IsNull(REPLAYED_AT)
    if done is not None:
        found = build.And(found, build.Or(build.IsNull(REPLAY), build.NotEqualTo(REPLAY, done)))
        moved = build.And(build.EqualTo(REPLAY, done), build.EqualTo(BECAME, MOVING))
        found = build.Or(found, moved)
    return found


def scan(table: Table, only: BooleanExpression | None = None) -> Scan:
    """Reads the identity columns of main's head, of the rows for which `only` holds."""

    def read(topics: Sequence[str], stream: str | None) -> Iterator[pa.RecordBatch]:
        from pyiceberg import expressions

        build: Any = expressions  # pydantic hides these constructors from mypy
        topic, partition, offset = IDENTITY_COLUMNS["kafka"]
        wanted: BooleanExpression = build.In(topic, list(topics))
        if stream is not None:
            wanted = build.And(wanted, build.EqualTo("stream", stream))
        if only is not None:
            wanted = build.And(wanted, only)
        if table.current_snapshot() is None:
            return iter(())
        reader: Any = table.scan(row_filter=wanted, selected_fields=(topic, partition, offset)).to_arrow_batch_reader()
        return iter(reader)

    return read
