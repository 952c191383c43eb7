"""Failure attribution: which stream's batch killed a driver, and how often.

A driver that dies takes all its streams along. The batch position decides: a stream that ran in the driver and landed
nothing between two deaths runs the same batch again, with the offsets that Spark planned before the first. Three equal
failures with one suspect are attributed to that batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection

from lakeward.platform.failures import signature
from lakeward.platform.runtime import Runtime
from lakeward.registry import batches, restarts
from lakeward.registry.drivers import Driver
from lakeward.registry.observations import Observation
from lakeward.registry.streams import Block
from lakeward.spec.model.file_paths import local
from lakeward.supervision import launch_log
from lakeward.supervision.observe import Facts
from lakeward.supervision.termination import Death

COMPARED = 10
"""Number of earlier failures of a driver that are compared."""


@dataclass(frozen=True)
class Attribution:
    """The suspects: stream -> how many times in a row the driver failed this way while it ran the same batch."""

    times: Mapping[str, int]

    @property
    def worst(self) -> int:
        """The highest count, this failure included; 0 if no batch ran."""
        return max(self.times.values(), default=0)

    @property
    def suspects(self) -> list[str]:
        """The streams with the highest count; one suspect is a finding. A stream that landed in between is none."""
        return sorted(name for name, times in self.times.items() if times == self.worst)


def of(connection: Connection, facts: Facts, row: Driver, death: Death, words: str) -> Attribution:
    """Attribute this failure to streams."""
    hosted = [item.id for item in facts.streams if item.driver == row.name and item.desired == "running"]
    if death.stream in hosted:
        ran = [str(death.stream)]
    else:
        ran = [name for name in hosted if _in_a_batch(facts.observations.get(name), row)]
    if not ran:
        return Attribution({})
    alike: list[datetime] = []
    for earlier in restarts.recent(connection, row.name, COMPARED):
        if signature(earlier.error) != signature(words):
            break
        alike.append(earlier.at)
    times = {}
    for name in ran:
        seen = facts.observations.get(name)
        landed = seen.committed_at if seen is not None else None
        times[name] = 1 + sum(1 for at in alike if landed is None or at > landed)
    return Attribution(times)


def place(connection: Connection, facts: Facts, runtime: Runtime, row: Driver, stream: str, death: Death) -> Block:
    """The failed batch with its offsets and the tail of the log, for the on-call engineer."""
    seen = facts.observations.get(stream)
    named = death.stream == stream
    batch = death.batch_id if named and death.batch_id is not None else _next_batch(seen)
    offsets: Mapping[str, object] | None = (
        dict(death.offsets) if named and death.offsets else _offsets(connection, facts, runtime, stream, batch)
    )
    return {
        "batch": batch,
        "offsets": offsets,
        "error": death.error,
        "log": launch_log.newest(connection, row, stream),
    }


def _in_a_batch(seen: Observation | None, row: Driver) -> bool:
    """Whether a query ran in this launch and was not idle when it was observed last.

    The lag does not help: it is measured after a batch, and this may be the first batch.
    """
    return seen is not None and seen.at >= row.launched_at and seen.query_state == "running"


def _next_batch(seen: Observation | None) -> int | None:
    """The next batch id: ids count from 0 without gaps."""
    if seen is None:
        return None
    return 0 if seen.batch_id is None else seen.batch_id + 1


def _offsets(
    connection: Connection, facts: Facts, runtime: Runtime, stream: str, batch: int | None
) -> dict[str, object] | None:
    """Start and end offsets of the batch: it starts at the end of the last landed batch, and Spark planned its end."""
    newest = batches.newest(connection, stream, 1)
    start = dict((newest[0].end_offsets if newest else None) or {})
    generation = facts.generations.get(stream)
    end: Mapping[str, str] = {}
    if generation is not None and batch is not None:
        sources = list(generation.spec.get("sources") or {})
        end = _planned(runtime.checkpoint_of(generation.checkpoint), batch, sources) or {}
    names = sorted(start.keys() | end.keys())
    return {name: {"start": start.get(name), "end": end.get(name)} for name in names} or None


def _planned(checkpoint: str, batch: int, sources: list[str]) -> Mapping[str, str] | None:
    """The end offsets that Spark planned for the batch; None if the checkpoint file cannot be read from here."""
    file = Path(local(checkpoint)) / "offsets" / str(batch)
    try:
        lines = file.read_text().splitlines()[2:]  # the first two lines are a version and the batch's metadata
    except OSError:
        return None
    if len(sources) != 1 or len(lines) != 1:
        return None  # the file names no sources
    try:
        return {sources[0]: json.dumps(json.loads(lines[0]), sort_keys=True, separators=(",", ":"))}
    except ValueError:
        return {sources[0]: lines[0]}
