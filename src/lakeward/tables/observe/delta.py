"""Facts about a Delta table, from its log.

A version is the counterpart of a snapshot. Facts that the checkpoint no longer has (which files a rewrite wrote, when a
partition was last written) are carried over from the profile stored at the last observation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.delta.state import Change, Live, State
from lakeward.platform.text import instant
from lakeward.spec.sql.statements import quote, quote_text
from lakeward.tables.facts import (
    DeleteFiles,
    File,
    PartitionFacts,
    Profile,
    Snapshot,
    TableFacts,
    Thresholds,
    summarise,
)
from lakeward.tables.partition_values import EMPTY, Partition, from_delta, shown

Judge = Callable[[int, Mapping[str, str]], Thresholds]
"""(table bytes, table properties) -> size thresholds of its files."""
_BY_TEXT = ("date", "timestamp", "timestamp_ntz", "boolean", "byte", "short", "integer", "long")
_SQL = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}


def table_facts(name: str, state: State, judge: Judge, known: Profile | None = None) -> TableFacts:
    """The facts of a table.

    Args:
        name: `namespace.table`.
        state: the state of its log.
        judge: computes the thresholds.
        known: the profile of an earlier observation.
    """
    properties = state.properties
    thresholds = judge(sum(file.size for file in state.files.values()), properties)
    return TableFacts(
        table=name,
        format="delta",
        uuid=str(state.metadata.get("id")),
        location=str(state.folder),
        metadata_location=str(state.folder / "_delta_log" / f"{state.version:020d}.json"),
        format_version=1,
        snapshot_id=state.version,
        sequence=state.version,
        properties=properties | {key: said for key, said in state.domains.items() if key.startswith("lakeward.")},
        refs={},
        snapshots=_snapshots(state),
        metadata_files=len(list((state.folder / "_delta_log").iterdir())),
        streams=tuple(position.streams_of(state.domains)),
        profile=_profile(state, thresholds, known),
        catalog="spark_catalog",
        tombstones={path: instant(at_ms) for path, at_ms in state.removed.items()},
        columns=state.names,
        folder=state.folder,
    )


def partition_of(state: State, values: Mapping[str, str | None]) -> Partition:
    """A partition by its typed values, named `origin=EWR/day=2013-01-01`; one for a table without partitions."""
    kinds = {column: state.type_of(column) for column in state.columns}
    return Partition(
        tuple(from_delta(kind, values.get(column)) for column, kind in kinds.items()),
        "/".join(f"{column}={shown(kind, values.get(column))}" for column, kind in kinds.items()),
    )


def untouched(state: State, values: Mapping[str, str | None]) -> str:
    """Why a partition must not be rewritten, as a phrase; empty: it may be."""
    empty = [column for column in state.columns if state.type_of(column) == "string" and values.get(column) == EMPTY]
    if not empty:
        return ""
    return (
        f"its value of {empty[0]} is an empty string, which OPTIMIZE would turn into NULL, because Delta has no empty "
        "partition value: UPDATE it to another value"
    )


def partition_condition(state: State, values: Mapping[str, str | None]) -> str | None:
    """The condition that selects a partition; empty for a table without partitions, None if SQL cannot express it."""
    parts = []
    for column in state.columns:
        kind, value = state.type_of(column), values.get(column)
        if value is None:
            parts.append(f"{quote(column)} IS NULL")
        elif kind == "string":
            parts.append(f"{quote(column)} = {quote_text(value)}")
        elif kind in _BY_TEXT:
            parts.append(f"{quote(column)} = CAST({quote_text(value)} AS {_SQL.get(kind, kind.upper())})")
        else:
            return None  # floats, decimals, binaries: equality may select wrong files
    return " AND ".join(parts)


def _snapshots(state: State) -> tuple[Snapshot, ...]:
    changes = {change.version: change for change in state.changes}
    first = min(state.versions, default=0)
    return tuple(
        Snapshot(
            id=version,
            parent=version - 1 if version > first else None,
            sequence=version,
            at=instant(at_ms),
            operation=_operation(changes.get(version)),
        )
        for version, at_ms in state.versions.items()
    )


def _operation(change: Change | None) -> str:
    """The operation in Iceberg's terms, from the changed files; a change that left the log counts as an append."""
    if change is None:
        return "append"
    if change.rewrite:
        return "replace"
    if change.removed:
        return "overwrite" if change.added else "delete"
    return "append" if change.added else "metadata"


def _profile(state: State, thresholds: Thresholds, known: Profile | None) -> Profile:
    before = known if known is not None and (known.snapshot_id or 0) <= state.version else None
    since = before.snapshot_id if before is not None and before.snapshot_id is not None else -1
    rewritten = {path for change in state.changes if change.rewrite for path in change.added}
    made = rewritten | (set(before.outputs) if before is not None else set())
    groups: dict[Partition, list[tuple[str, Live]]] = defaultdict(list)
    for path, live in state.files.items():
        groups[partition_of(state, live.partition)].append((path, live))
    previous_parts = {part.key: part for part in before.partitions} if before is not None else {}
    newest = _newest(state, since)
    partitions = []
    for partition, held in groups.items():
        values = held[0][1].partition
        files = [
            File(live.size, live.rows or 0, instant(live.at_ms), path in made, live.deleted) for path, live in held
        ]
        deletes = DeleteFiles(sum(live.deleted > 0 for _, live in held))
        part = summarise(partition.name, partition_condition(state, values), files, thresholds, deletes)
        part = replace(part, untouched=untouched(state, values))
        partitions.append(_carried(part, previous_parts.get(part.key), newest))
    partitions.sort(key=lambda part: (-part.small, part.key))
    return Profile(
        snapshot_id=state.version,
        thresholds=thresholds,
        files=sum(part.files for part in partitions),
        bytes=sum(part.bytes for part in partitions),
        records=sum(part.records for part in partitions),
        small_files=sum(part.small for part in partitions),
        delete_files=sum(part.delete_files for part in partitions),
        partitions=tuple(partitions),
        outputs=tuple(sorted(path for path in made & set(state.files) if state.files[path].size < thresholds.small)),
    )


def _carried(
    part: PartitionFacts, known: PartitionFacts | None, newest: Mapping[tuple[str, bool], datetime]
) -> PartitionFacts:
    """A partition with the times it was last written and rewritten, from its commits or from the earlier profile.

    Args:
        part: the facts from its files.
        kept: the earlier facts.
        newest: partition and whether rewritten -> the time of the newest such commit.
    """
    written, rewritten = newest.get((part.key, False)), newest.get((part.key, True))
    if known is not None:
        return replace(
            part, last_written=written or known.last_written, last_rewritten=rewritten or known.last_rewritten
        )
    return replace(part, last_written=written or part.last_written, last_rewritten=rewritten)


def _newest(state: State, since: int) -> dict[tuple[str, bool], datetime]:
    return {
        (partition_of(state, live.partition).name, change.rewrite): instant(change.at_ms)
        for change in state.changes  # oldest first: the newest commit wins
        if change.version > since
        for live in change.added.values()
    }
