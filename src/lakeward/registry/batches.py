"""Batches: what each stream landed, batch by batch. A copy for display; the table's position is authoritative."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, DateTime, Integer, String, cast, column, func, or_, select, true
from sqlalchemy.dialects.postgresql import JSONB, insert

from lakeward.registry import version
from lakeward.registry.schema import batches

_READ = [column for column in batches.c if column.name != "advisory"]
"""The columns that are read: all but `advisory`, to which Lakeward 0.1 wrote counts of failing rows."""


@dataclass(frozen=True)
class Batch:
    """One recorded batch.

    Attributes:
        seq: the table's own count; None for sinks without a position.
        start_offsets, end_offsets: source -> position, in the form of its connector.
        consumed, landed, quarantined, filtered: records; None where they were not counted.
        late_dropped: late records, also of a generation that keeps them; None where they were not counted. What people
            read says which: `lakeward.supervision.report.late`.
        skipped: records that a person gave up (skip-batch).
        phases: phase -> seconds, as in `observations.Watch`; None without Spark's progress report.
        core_s: seconds that its tasks occupied a core, of all cores; None without Spark's progress report.
        replayed: it was recorded again after a restart.
    """

    stream: str
    query_id: str
    batch_id: int
    seq: int | None
    generation: int
    snapshot_id: int | None
    start_offsets: Mapping[str, str] | None
    end_offsets: Mapping[str, str] | None
    consumed: int | None
    landed: int | None
    quarantined: int | None
    filtered: int | None
    late_dropped: int | None
    skipped: int | None
    duration_s: float | None
    phases: Mapping[str, float] | None
    core_s: float | None
    replayed: bool
    complete_through: datetime | None
    committed_at: datetime

    def as_json(self) -> dict[str, object]:
        """The columns by name."""
        return dict(vars(self))


def record(connection: Connection, **values: Any) -> None:
    """Record one landed batch (columns of `schema.batches`). Idempotent: a second call keeps the first record
    and sets `replayed`."""
    statement = insert(batches).values(**values)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[batches.c.stream, batches.c.query_id, batches.c.batch_id],
            set_={"replayed": True},
        )
    )


def core_s_per_million(recorded: Iterable[Batch]) -> float | None:
    """Core-seconds for a million records that batches read; None if none of them has both figures."""
    known = [(each.core_s, each.consumed) for each in recorded if each.core_s is not None and each.consumed is not None]
    records = sum(consumed for _, consumed in known)
    return round(sum(spent for spent, _ in known) * 1e6 / records, 1) if records else None


def columns(connection: Connection) -> frozenset[str]:
    """The columns this registry has: a driver may be one version newer and omits the others."""
    return version.columns(connection, batches.name)


def newest(connection: Connection, stream: str, limit: int = 20) -> list[Batch]:
    """The newest batches of a stream, newest first."""
    rows = connection.execute(
        select(*_READ).where(batches.c.stream == stream).order_by(batches.c.committed_at.desc()).limit(limit)
    )
    return [Batch(**row._mapping) for row in rows]


def durations(connection: Connection, streams: Iterable[str], most: int = 100) -> dict[str, list[float]]:
    """How long the newest batches of each stream took, in seconds, without replayed ones."""
    durations = {}
    for stream in streams:
        rows = connection.execute(
            select(batches.c.duration_s)
            .where(batches.c.stream == stream, batches.c.replayed.is_(False), batches.c.duration_s.is_not(None))
            .order_by(batches.c.committed_at.desc())
            .limit(most)
        )
        durations[stream] = [float(row[0]) for row in rows]
    return durations


def rejecting(connection: Connection, stream: str, most: int) -> list[Batch]:
    """The newest batches of a stream that put records into quarantine, newest first."""
    rows = connection.execute(
        select(*_READ)
        .where(batches.c.stream == stream, batches.c.quarantined > 0)
        .order_by(batches.c.committed_at.desc())
        .limit(most)
    )
    return [Batch(**row._mapping) for row in rows]


def keeping_late(connection: Connection, stream: str, within: Collection[int], most: int) -> list[Batch]:
    """The newest batches of a stream with late records that one of these generations kept, newest first."""
    rows = connection.execute(
        select(*_READ)
        .where(batches.c.stream == stream, batches.c.late_dropped > 0, batches.c.generation.in_(within))
        .order_by(batches.c.committed_at.desc())
        .limit(most)
    )
    return [Batch(**row._mapping) for row in rows]


def of_snapshots(connection: Connection, snapshots: list[int]) -> list[Batch]:
    """The batches that published the given snapshots, with their offsets."""
    rows = connection.execute(select(*_READ).where(batches.c.snapshot_id.in_(snapshots)).order_by(batches.c.seq))
    return [Batch(**row._mapping) for row in rows]


def since(connection: Connection, stream: str, seq: int) -> list[Batch]:
    """The batches of a stream from one of its seqs on, oldest first, skipped batches included."""
    rows = connection.execute(
        select(*_READ).where(batches.c.stream == stream, batches.c.seq >= seq).order_by(batches.c.seq)
    )
    return [Batch(**row._mapping) for row in rows]


def landed_between(connection: Connection, stream: str, after: int, upto: int) -> int | None:
    """The rows that landed with the batches after one sequence number, up to and with another; None if a batch between
    them is not recorded, or was not counted."""
    found, counted, landed = connection.execute(
        select(func.count(batches.c.seq.distinct()), func.count(batches.c.landed), func.sum(batches.c.landed)).where(
            batches.c.stream == stream, batches.c.seq > after, batches.c.seq <= upto
        )
    ).one()
    return int(landed) if landed is not None and found == counted == upto - after else None


def after(
    connection: Connection, moments: Mapping[str, datetime | None], *, settled_s: float, most: int
) -> dict[str, list[Batch]]:
    """The batches of each stream that were committed after a moment, oldest first.

    Args:
        moments: stream -> the moment; None: only its newest batch.
        settled_s: younger batches are left out: a transaction that began earlier may still add an older one.
        most: batches of one stream.
    """
    if not moments:
        return {}
    rows = [{"stream": name, "at": None if at is None else at.isoformat()} for name, at in moments.items()]
    requested = (
        func.jsonb_to_recordset(cast(rows, JSONB))
        .table_valued(column("stream", String), column("at", DateTime(timezone=True)), name="requested")
        .render_derived(with_types=True)
    )
    of_stream = (
        batches.c.stream == requested.c.stream,
        batches.c.committed_at < func.now() - timedelta(seconds=settled_s),
    )
    newest = select(func.max(batches.c.committed_at)).where(*of_stream).correlate(requested).scalar_subquery()
    first = func.coalesce(requested.c.at, newest - timedelta(microseconds=1))
    later = (
        select(*_READ)
        .where(*of_stream, batches.c.committed_at > first)
        .order_by(batches.c.committed_at, batches.c.batch_id)
        .limit(most)
        .correlate(requested)
        .lateral("later")
    )
    result: dict[str, list[Batch]] = {}
    for row in connection.execute(select(later).select_from(requested.join(later, true()))):
        result.setdefault(row.stream, []).append(Batch(**row._mapping))
    return {name: sorted(items, key=lambda item: (item.committed_at, item.batch_id)) for name, items in result.items()}


def generation_before(connection: Connection, stream: str, seq: int) -> int | None:
    """The generation that landed the batch before this one; None if it is not recorded."""
    earlier = select(batches.c.generation).where(batches.c.stream == stream, batches.c.seq < seq)
    generation: int | None = connection.execute(earlier.order_by(batches.c.seq.desc()).limit(1)).scalar_one_or_none()
    return generation


def landed(connection: Connection, of: Mapping[str, tuple[int, datetime | None]], most: int) -> dict[str, int]:
    """How many batches each stream landed with a generation since a moment; counted up to `most`.

    Args:
        of: stream -> (generation, since; None: ever).
    """
    if not of:
        return {}
    rows = [
        {"stream": name, "generation": number, "since": None if since is None else since.isoformat()}
        for name, (number, since) in of.items()
    ]
    columns = (column("stream", String), column("generation", Integer), column("since", DateTime(timezone=True)))
    requested = (
        func.jsonb_to_recordset(cast(rows, JSONB))
        .table_valued(*columns, name="requested")
        .render_derived(with_types=True)
    )
    # The newest rows are the current generation's: each stream costs `most` rows of the index, however old it is.
    newest_rows = (
        select(batches.c.batch_id)
        .where(batches.c.stream == requested.c.stream, batches.c.generation == requested.c.generation)
        .where(or_(requested.c.since.is_(None), batches.c.committed_at > requested.c.since))
        .order_by(batches.c.committed_at.desc())
        .limit(most)
        .correlate(requested)
        .subquery()
    )
    number = select(func.count()).select_from(newest_rows).scalar_subquery()
    return {row[0]: int(row[1]) for row in connection.execute(select(requested.c.stream, number))}


def late(connection: Connection, stream: str) -> dict[int, tuple[int, datetime]]:
    """Generation -> the number of late records in its recorded batches, and when the first of these was committed."""
    columns = batches.c.generation, func.sum(batches.c.late_dropped), func.min(batches.c.committed_at)
    rows = connection.execute(
        select(*columns).where(batches.c.stream == stream, batches.c.late_dropped > 0).group_by(batches.c.generation)
    )
    return {int(generation): (int(number), since) for generation, number, since in rows}


def totals(connection: Connection, stream: str) -> dict[str, int]:
    """Sums over the recorded batches: consumed, landed, quarantined, filtered."""
    names = ["consumed", "landed", "quarantined", "filtered"]
    sums = [func.coalesce(func.sum(batches.c[name]), 0).label(name) for name in names]
    row = connection.execute(select(*sums).where(batches.c.stream == stream)).one()
    return {name: int(row._mapping[name]) for name in names}
