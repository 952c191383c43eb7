"""Positions and snapshot ancestry of an Iceberg table through PyIceberg, without a JVM.

For the command line and for operations that run without a driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.metadata import TableMetadata

from lakeward.connectors.commit_protocol import ancestry, position
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg.check import TableState
from lakeward.platform.text import whole_number
from lakeward.spec.model import iceberg_properties as properties
from lakeward.spec.sql.names import dotted

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_ATTEMPT, _WAP_IDS, _WAP_ENABLED = "lakeward.attempt", ("wap.id", "published-wap-id"), "write.wap.enabled"


def positions(table: Table) -> dict[str, Position]:
    """Stream id -> position, for every stream that landed in this table.

    Raises:
        Blocked: a position cannot be read.
    """
    return position.of_properties(table.properties, _name(table))


def state_of(metadata: TableMetadata, stream: str, table: str) -> TableState:
    """One stream's state from one version of a table's metadata; the same as `jvm.state_of`."""
    raw = metadata.properties.get(position.key(stream))
    parsed = position.parse(raw, stream, table) if raw is not None else None
    main = metadata.refs.get("main")
    head = main.snapshot_id if main else None
    known = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}

    def look_up(snapshot: int) -> ancestry.Link | None:
        known_snapshot = known.get(snapshot)
        return None if known_snapshot is None else link_of(known_snapshot)

    walked = ancestry.walk(head, look_up, parsed.snapshot if parsed else None, parsed.snapshot_seq if parsed else 0)
    return TableState(
        stream=stream,
        table=table,
        staging=metadata.properties.get(_WAP_ENABLED, "").lower() == "true",
        raw=raw,
        position=parsed,
        ancestry=walked,
        newest_seq=None if walked.right else ancestry.newest_of(stream, head, look_up),
        unreadable=properties.stop_commits(metadata.properties),
    )


def link_of(snapshot: Snapshot) -> ancestry.Link:
    """A snapshot as a `Link` of the chain of parents."""
    summary = snapshot.summary
    extra = summary.additional_properties if summary else {}
    return ancestry.Link(
        snapshot=snapshot.snapshot_id,
        seq=snapshot.sequence_number or 0,
        parent=snapshot.parent_snapshot_id,
        operation=summary.operation.value if summary else "append",
        attempt=extra.get(_ATTEMPT),
        wap_id=next((extra[name] for name in _WAP_IDS if extra.get(name)), None),
        added=whole_number(extra.get("added-records")) or 0,
    )


def _name(table: Table) -> str:
    return dotted(table.name())
