"""Obstacles to a rebuild, and notes that a person should read before one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg import pyiceberg_table
from lakeward.operations.context import Context
from lakeward.platform.errors import Refused, expect
from lakeward.platform.text import count
from lakeward.spec.deploy.plan import keeps_state
from lakeward.tables.guard import readers

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakeward.spec.model.stream import StreamSpec


def refused(stream: str, why: str, next_: str) -> Refused:
    """The refusal of a rebuild."""
    return Refused(f"Cannot rebuild the table of stream {stream}", why=why, next=next_, code="LW-2039")


def suited(spec: StreamSpec) -> None:
    """Check that a stream's spec allows a rebuild."""
    stream, sink = str(spec.id), spec.sink.iceberg
    new_stream = f"give it a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy"
    if sink is None or sink.commit != "exact":
        raise refused(
            stream,
            f"its sink is {spec.sink.connector}; rebuilds support Iceberg tables with commit: exact only",
            new_stream,
        )
    if sink.mode == "complete":
        raise refused(stream, "mode complete replaces all rows with every batch", f"lakeward streams restart {stream}")
    if len(spec.sources) > 1:
        raise refused(
            stream, "it has several sources; rebuilds support streams with one source only, so far", new_stream
        )
    if spec.source.kafka is None:
        why = f"its source is {spec.source.connector}; rebuilds support Kafka sources only, so far"
        raise refused(stream, why, new_stream)
    if keeps_state(spec):
        why = "it keeps state, and state is stored in its checkpoint: the new rows would not match it"
        raise refused(stream, why, new_stream)


def alone(context: Context, stream: str, table: str, old: Table) -> None:
    """Check that no other stream lands in the table or reads it incrementally."""
    others = sorted(set(pyiceberg_table.positions(old)) - {stream})
    if others:
        raise refused(
            stream,
            f"{', '.join(others)} also landed in {table}: these rows would be missing in the new table",
            "finish a backfill first; for another stream, give one of the two a table of its own",
        )
    with context.connect() as connection:
        reading = sorted({reader.stream for reader in readers.registered(connection).get(table, ())})
    if reading:
        raise refused(
            stream,
            f"{', '.join(reading)} reads {table} incrementally and would be blocked: the new table is another one",
            f"remove the file of {', '.join(reading)}, lakeward deploy, rebuild, and give it a new id and a new table",
        )


def notes(stream: str, old: Table, live: Position, spec: StreamSpec) -> list[str]:
    """Notes for the person who approves the plan."""
    notes_ = []
    if live.totals.skipped:
        notes_.append(f"{count(live.totals.skipped, 'record')} skipped by reset or skip-batch are read again")
    refs = sorted(set(old.metadata.refs) - {"main"})
    if refs:
        notes_.append(f"branches and tags stay with the old table: {', '.join(refs)}")
    own = {name for name in old.properties if not name.startswith("lakeward.")}
    sink = expect(spec.sink.iceberg, "a sink `iceberg`")
    extra = sorted(
        name
        for name in own - set(sink.properties)
        if not name.startswith(("write.", "commit.", "format-version", "owner", "created-at"))
    )
    if extra:
        notes_.append(f"table properties that are not in the spec stay with the old table: {', '.join(extra)}")
    if spec.quarantine is not None:
        notes_.append(f"records that the old transform quarantined stay in quarantine as {stream}@before-<n>")
    if spec.late is not None:
        notes_.append(f"late records stay in {spec.late.table}; the fill drops none, so it lands them too")
    return notes_
