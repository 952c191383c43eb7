"""Report sources outside of the registry: the table, the broker, the checkpoint's log.

A source that does not answer is named and omitted: the report is needed most during outages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.commit_protocol.position import NO_DATA, Position, key, parse, streams_of
from lakeward.connectors.folder import store
from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import Runtime
from lakeward.platform.text import instant
from lakeward.spec.model.file_paths import local
from lakeward.spec.model.sources import Source
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.catalogs import prefix_in
from lakeward.spec.sql.names import name_parts
from lakeward.supervision.report import quarantine_loss
from lakeward.supervision.report.lag import Lag, of_delta, of_iceberg, of_kafka, together
from lakeward.supervision.report.late import Kept, LateState
from lakeward.supervision.report.late import state as late_state
from lakeward.supervision.report.quarantine_loss import QuarantineState, Rejected, Rejecting

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True)
class Commit:
    """A snapshot of the sink's table that no stream of Lakeward published."""

    at: datetime
    snapshot: int
    operation: str


@dataclass(frozen=True)
class Planned:
    """The newest batch of a checkpoint. `done`: whether Spark committed it. `ends`: end offsets by source."""

    batch: int
    done: bool
    ends: Mapping[str, str]


@dataclass(frozen=True)
class Sources:
    """The answers.

    Attributes:
        position: the table's position; None if the sink has none, or if it could not be read.
        table_answered: whether the table could be read; None for a sink without a table.
        table_missing: whether the table does not exist (yet, or any more).
        late: the table of late records; None for a stream that keeps none, or if the catalog does not answer.
        quarantine: the quarantine table; None without rejected records, or if it could not be read.
        halt: why no batch may land in the table as it is now; None if one may, or if that could not be read.
        lag: the lag, measured at the source.
        others: commits by others on the table, newest last.
        planned: the checkpoint's newest batch.
        trouble: what did not answer, in sentences.
    """

    position: Position | None = None
    table_answered: bool | None = None
    lag: Lag | None = None
    others: tuple[Commit, ...] = ()
    planned: Planned | None = None
    trouble: tuple[str, ...] = ()
    table_missing: bool = False
    halt: BlockReason | None = None
    quarantine: QuarantineState | None = None
    late: LateState | None = None


def ask(
    runtime: Runtime,
    spec: StreamSpec,
    recorded_ends: Mapping[str, str],
    since: datetime,
    checkpoint: str = "",
    rejecting: Rejecting = Rejected,
    keeping: Callable[[str], Kept] = lambda table: Kept(),
) -> Sources:
    """Ask the table, the broker and the checkpoint.

    Args:
        recorded_ends: source -> end of the newest recorded batch, for sinks that keep no position.
        since: how far back commits of others are listed.
        rejecting: reads what the registry knows of rejected records.
        keeping: reads what the registry knows of late records that were kept in a table.
        checkpoint: location of the checkpoint; read only on a file system of this machine.
    """
    trouble: list[str] = []
    position: Position | None = None
    answered: bool | None = None
    others: tuple[Commit, ...] = ()
    missing = False
    halt: BlockReason | None = None
    rejected: QuarantineState | None = None
    late: LateState | None = None
    try:
        if spec.sink.files is not None:
            position, answered = store.newest(Path(spec.sink.files.path), str(spec.id)), True
        answered = answered if spec.sink.rows_in is None else True
        answer = _table(runtime, spec, since)
        missing = spec.sink.rows_in is not None and answer is None
        if answer is not None:
            position, others, halt = answer
        rejected = quarantine_loss.read(runtime, spec, position, rejecting)
        late = late_state(runtime, spec, keeping)
    except LakewardError as error:
        answered = False
        trouble.append(f"{error.what}: {error.why}")
    except Exception as error:  # noqa: BLE001  # the boundary to PyIceberg: an unreachable catalog must not hide the rest
        answered = False
        trouble.append(f"The catalog does not answer: {_first_line(error)}")
    lag, silent = measure(
        runtime, spec, position.end if position else recorded_ends, position.topic_ids if position else {}
    )
    trouble += silent
    newest = planned(checkpoint, list(spec.sources))
    return Sources(position, answered, lag, others, newest, tuple(trouble), missing, halt, rejected, late)


def measure(
    runtime: Runtime, spec: StreamSpec, ends: Mapping[str, str], topic_ids: Mapping[str, str] | None = None
) -> tuple[Lag | None, list[str]]:
    """The lag of all sources from `ends` (source -> landed position), None if none of them was measured; and what did
    not answer, in sentences. `topic_ids`: of the topics that landed.
    """
    lags, unmeasured, trouble = [], dict[str, str](), []
    kafka = [source.kafka for source in spec.sources.values() if source.kafka is not None]
    # Ids are kept by topic: of one name in two clusters they are those of either.
    own = {topic: each for topic, each in (topic_ids or {}).items() if sum(one.reads(topic) for one in kafka) <= 1}
    for name, source in spec.sources.items():
        try:
            found = _measure(runtime, str(spec.id), str(name), source, ends.get(str(name), NO_DATA), own)
        except LakewardError as error:
            trouble.append(f"{error.what}: {error.why}")
            unmeasured[str(name)] = trouble[-1]
            continue
        if isinstance(found, Lag):
            lags.append(found)
        else:
            unmeasured[str(name)] = found
    return together(lags, unmeasured), trouble


def _measure(
    runtime: Runtime, stream: str, name: str, source: Source, at: str, topic_ids: Mapping[str, str]
) -> Lag | str:
    """The lag of one source, or why it has none."""
    if source.kafka is not None:
        return of_kafka(name, source.kafka, at, runtime, topic_ids)
    if source.iceberg is not None:
        return of_iceberg(stream, name, source.iceberg, at, runtime)
    if source.delta is not None:
        return of_delta(stream, name, source.delta, at, runtime) or "the log of its table has no row counts"
    return f"the lag of a source of type {source.connector} is not measured"


TableAnswer = tuple[Position | None, tuple[Commit, ...], BlockReason | None]
"""Position, commits of others, and why no batch may land now."""


def _table(runtime: Runtime, spec: StreamSpec, since: datetime) -> TableAnswer | None:
    """What the table says, by the kind of the table; None if the table does not exist."""
    if spec.sink.delta:
        return _delta(runtime, spec, since)
    return _postgres(runtime, spec) if spec.sink.postgres else _iceberg(runtime, spec, since)


def _postgres(runtime: Runtime, spec: StreamSpec) -> TableAnswer | None:
    """The position; PostgreSQL does not record which other writers wrote to a table."""
    from lakeward.connectors.postgres.check import check_table
    from lakeward.connectors.postgres.position_store import of

    state = of(runtime, spec).state()
    return None if state.oid is None else (state.position, (), check_table(state))


def _iceberg(runtime: Runtime, spec: StreamSpec, since: datetime) -> TableAnswer | None:
    """What the table says; None if the sink is no Iceberg table or the table does not exist."""
    if spec.sink.iceberg is None:
        return None
    from pyiceberg.exceptions import NoSuchTableError

    from lakeward.connectors.iceberg.catalog import load_lake
    from lakeward.connectors.iceberg.check import check_table
    from lakeward.connectors.iceberg.pyiceberg_table import state_of

    name = str(spec.sink.iceberg.table)
    try:
        catalog = load_lake(runtime.lake, runtime.pgpass)
        table = catalog.load_table(name_parts(name))
    except NoSuchTableError:
        return None
    position = _position(table.properties, spec)
    exact = spec.sink.iceberg.commit == "exact"
    blocked = check_table(state_of(table.metadata, str(spec.id), name), prefix_in(runtime.lake, name))
    return position, _others(table, since), blocked if exact else None


def _delta(runtime: Runtime, spec: StreamSpec, since: datetime) -> TableAnswer | None:
    """What a Delta table says, from its log."""
    from lakeward.connectors.delta import location, log
    from lakeward.connectors.delta.check import check_table
    from lakeward.connectors.delta.position_store import DeltaPositionStore

    folder = location.folder_of(runtime.lake, spec.sink.label)
    table = log.read(folder)
    if table is None:
        return None
    others = []
    version = table.version
    while (commit := log.commit(folder, version)) is not None:
        at = instant(commit.at_ms)
        if at < since:
            break
        if not any(streams_of(commit.domains)) and version > 0:
            others.append(Commit(at, version, commit.operation.lower()))
        version -= 1
    position = _position(table.domains, spec)
    state = DeltaPositionStore(folder, spec.sink.label, str(spec.id)).read().state
    return position, tuple(reversed(others)), None if state is None else check_table(state)


def _position(properties: Mapping[str, str], spec: StreamSpec) -> Position | None:
    """The table's position; None without one.

    Raises:
        Blocked: the entry is there and is not a position.
    """
    text = properties.get(key(spec.id))
    return None if text is None else parse(text, spec.id, spec.sink.label)


def _others(table: Table, since: datetime) -> tuple[Commit, ...]:
    """Commits on main since then that are not a batch of a stream: rewrites and commits of other writers."""
    commits = []
    known = {item.snapshot_id: item for item in table.metadata.snapshots}
    snapshot = table.current_snapshot()
    while snapshot is not None:
        at = instant(snapshot.timestamp_ms)
        if at < since:
            break
        summary: Mapping[str, str] = snapshot.summary.additional_properties if snapshot.summary else {}
        if not any(name in summary for name in ("lakeward.attempt", "wap.id", "published-wap-id")):
            operation = snapshot.summary.operation.value if snapshot.summary else "unknown"
            commits.append(Commit(at, snapshot.snapshot_id, operation))
        parent = snapshot.parent_snapshot_id
        snapshot = known.get(parent) if parent is not None else None
    return tuple(reversed(commits))


def planned(folder: str, sources: list[str]) -> Planned | None:
    """The newest batch in a checkpoint on this machine; None without one, or if it cannot be read from here."""
    path = Path(local(folder))
    if not folder or "://" in str(path) or not path.is_absolute():
        return None
    try:
        numbers = [int(item.name) for item in (path / "offsets").iterdir() if item.name.isdigit()]
        if not numbers:
            return None
        newest = max(numbers)
        lines = (path / "offsets" / str(newest)).read_text().splitlines()[2:]  # after the version and the metadata
        done = (path / "commits" / str(newest)).exists()
    except (OSError, ValueError):
        return None
    if len(lines) != 1 or len(sources) != 1:
        return Planned(newest, done, {})  # several sources are in the order of the query, which only the query knows
    return Planned(newest, done, {sources[0]: _canonical(lines[0])})


def _canonical(line: str) -> str:
    try:
        offsets: Any = json.loads(line)
    except ValueError:
        return NO_DATA
    return NO_DATA if not isinstance(offsets, dict) else json.dumps(offsets, sort_keys=True, separators=(",", ":"))


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
