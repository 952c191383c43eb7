"""Advice on delete files: which writer makes them, and what to configure there. Pure; nothing is changed."""

from __future__ import annotations

from collections import Counter
from typing import Final

from lakeward.platform.text import count
from lakeward.tables.facts import Snapshot, TableFacts

LOOK_BACK: Final = 50
"""Newest commits with delete files whose writers are named."""
_JOBS: Final = (("flink.job-id", "Flink job"), ("spark.app.id", "Spark application"), ("trino_query_id", "Trino query"))
_ATTEMPT: Final = "lakeward.attempt"  # `<stream>/<seq>/<nonce>`
_CONNECT: Final = "kafka.connect."


def writer_of(snapshot: Snapshot) -> str:
    """Who wrote a commit, as far as its summary tells: `Flink job 4f..`, `spark 4.1.1`, `an unnamed writer`."""
    said = snapshot.summary
    if attempt := said.get(_ATTEMPT):
        return f"stream {attempt.partition('/')[0]}"
    if any(key.startswith(_CONNECT) for key in said):
        return "Kafka Connect"
    engine = " ".join(each for each in (said.get("engine-name"), said.get("engine-version")) if each)
    job = next((f"{name} {said[key]}" for key, name in _JOBS if said.get(key)), "")
    return engine if job.startswith("Spark") and engine else job or engine or "an unnamed writer"


def deleting(facts: TableFacts) -> tuple[str, ...]:
    """One line for equality deletes, one for position deletes of several data files, one for Delta's vectors."""
    profile = facts.profile
    lines = []
    share = f"{count(profile.deleted_rows, 'row')} of {profile.records} deleted"
    if profile.equality_deletes:
        opened = max((part.opened for part in profile.partitions), default=0)
        writers = _writers(facts, "added-equality-delete-files")
        lines.append(
            f"{count(profile.equality_deletes, 'equality-delete file')} by {writers}: a read opens up to {opened} for "
            f"one data file (about {share}), and only compaction removes them; commit less often there, or append only "
            "where rows never change"
        )
    shared = any(part.shared_deletes for part in profile.partitions) and not profile.equality_deletes
    if shared or any(part.excess_deletes for part in profile.partitions):
        lines.append(
            f"position-delete files for several data files by {_writers(facts, 'added-position-delete-files')} (about "
            f"{share}): set write.delete.granularity to file in Spark, or let the writer use format version 3"
        )
    if facts.format == "delta" and profile.delete_files:
        lines.append(
            f"{count(profile.delete_files, 'file')} with a deletion vector, {share}: OPTIMIZE rewrites those from "
            f"{profile.thresholds.deleted:.0%} on"
        )
    return tuple(lines)


def _writers(facts: TableFacts, counted: str) -> str:
    made = [snapshot for snapshot in facts.main() if snapshot.count(counted)][:LOOK_BACK]
    if not made:
        return "a writer whose commits have expired"
    names = Counter(writer_of(snapshot) for snapshot in made)
    return ", ".join(f"{name} (snapshot {_newest(made, name)})" for name, _ in names.most_common(3))


def _newest(made: list[Snapshot], name: str) -> int:
    return next(snapshot.id for snapshot in made if writer_of(snapshot) == name)
