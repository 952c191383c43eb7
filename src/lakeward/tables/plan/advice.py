"""Advice on a table: changes that reduce small files more cheaply than maintenance. Pure; nothing is changed.

Each line is based on the newest commits; with too few commits there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from lakeward.platform.text import count, size, span
from lakeward.spec.model.policy import Compact
from lakeward.spec.sql.statements import call_name
from lakeward.tables.facts import PartitionFacts, Snapshot, TableFacts
from lakeward.tables.plan.delete_writers import deleting

LOOK_BACK = 50
"""Newest commits that are considered; with fewer than `LEAST` there is no advice."""
LEAST = 10
LONG_ENOUGH = timedelta(minutes=1)
"""Longest trigger interval that is advised (Iceberg's own advice for streams)."""
GAIN = 2.0
"""Minimum gain of an advice: a factor of two."""
FINE = 20
"""Minimum number of partitions for advice on partitioning."""
MODE = "write.distribution-mode"


@dataclass(frozen=True)
class IntervalStream:
    """A stream that lands in a table: its trigger's interval, and its freshness limit."""

    stream: str
    every: timedelta
    freshness: timedelta


@dataclass(frozen=True)
class _Commits:
    """Medians over a table's newest commits: files, bytes a file, partitions."""

    files: float
    file_size: float
    partitions: float


def advice(facts: TableFacts, compact: Compact, feeds: Sequence[IntervalStream], now: datetime) -> tuple[str, ...]:
    """One line for each cause of avoidable small files.

    Args:
        facts: the table now.
        compact: its policy.
        feeds: the streams that land in it at an interval.
        now: the moment ages are measured from.
    """
    commits = _commits(facts)
    lines: list[str] = []
    if commits is not None and commits.file_size < facts.profile.thresholds.fragment:
        lines += [line for feed in feeds if (line := _trigger(feed, commits))]
        lines += _distribution(facts, commits)
    return (*lines, *deleting(facts), *_partitions(facts, now - timedelta(seconds=compact.cold_after.seconds)))


def _commits(facts: TableFacts) -> _Commits | None:
    wrote = [
        snapshot for snapshot in facts.main() if snapshot.operation != "replace" and snapshot.count("added-data-files")
    ]
    newest: Sequence[Snapshot] = wrote[:LOOK_BACK]
    if len(newest) < LEAST:
        return None
    files = [snapshot.count("added-data-files") for snapshot in newest]
    return _Commits(
        median(files),
        median(each.count("added-files-size") / count for each, count in zip(newest, files, strict=True)),
        median(snapshot.count("changed-partition-count") for snapshot in newest),
    )


def _trigger(feed: IntervalStream, commits: _Commits) -> str:
    longer = min(LONG_ENOUGH, feed.freshness / 2)
    gain = longer / feed.every if feed.every else 0.0
    if gain < GAIN:
        return ""
    return (
        f"stream {feed.stream} commits every {span(feed.every)}, {count(round(commits.files), 'file')} of "
        f"{size(commits.file_size)} each time: trigger every {span(longer)} makes {gain:.0f} times fewer, within its "
        f"freshness of {span(feed.freshness)}"
    )


def _distribution(facts: TableFacts, commits: _Commits) -> list[str]:
    each = commits.files / commits.partitions if commits.partitions else 0.0
    mode = facts.properties.get(MODE)
    if facts.format != "iceberg" or mode not in (None, "none") or each < GAIN:
        return []
    setting = f"{MODE} is none" if mode else f"{MODE} is not set"
    return [
        f"a commit writes {each:.0f} files into each partition, one for each task ({setting}): "
        f"ALTER TABLE {call_name(facts.table, facts.catalog)} SET TBLPROPERTIES ('{MODE}' = 'hash') makes it one"
    ]


def _partitions(facts: TableFacts, cold: datetime) -> list[str]:
    """Small finished partitions: no rewrite joins two of them."""
    parts = [part for part in facts.profile.partitions if part.key and part.makes in (0, 1)]
    finished: list[PartitionFacts] = [part for part in parts if part.last_written is None or part.last_written < cold]
    if len(parts) < FINE or len(finished) < FINE / 2:
        return []
    held = median(part.bytes for part in finished)
    if held >= facts.profile.thresholds.fragment:
        return []
    fields = ", ".join(part.partition("=")[0] for part in parts[0].key.split("/"))
    return [
        f"{count(len(parts), 'partition')} by {fields}, and half of the {len(finished)} finished ones have less "
        f"than {size(held)}: no compaction makes larger files of them; a coarser partitioning does"
    ]
