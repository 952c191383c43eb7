"""What a kill left: how far a stream really was, from its checkpoint, its sink and the registry."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exactly_once_arming import Armed
from exactly_once_oracle import At, Record
from exactly_once_sinks import Sinks
from exactly_once_streams import Kind
from world import World

from lakeward.connectors.file_access import FileAccess

LANDED = ("after-publish", "before-commit-log", "after-record")
SENT = LANDED[1:]
"""Of a sink without a position only the step that was reached tells that the batch is out."""


@dataclass
class Stream:
    """One stream of a round."""

    kind: Kind
    name: str
    table: str
    document: dict[str, Any]
    under_way: set[At] = field(default_factory=set)
    """Records of batches that a kill cut: a sink at least once may have them twice."""


@dataclass(frozen=True)
class Found:
    """What stood there after the kill.

    Attributes:
        cell: the step it shows; `none`: the stream had not come to its step.
        facts: what that follows from.
    """

    cell: str
    facts: Mapping[str, Any]


class Inquest:
    """Looks at the streams of one topic."""

    def __init__(self, world: World, sinks: Sinks, topic: str) -> None:
        self._world, self._sinks, self._topic = world, sinks, topic
        self._files = FileAccess(world.runtime.lake)

    def folder_of(self, stream: Stream) -> Path:
        """Its checkpoint on this machine."""
        return Path(self._checkpoint(stream))

    def _checkpoint(self, stream: Stream) -> str:
        return f"{self._world.runtime.checkpoints}/{stream.name}/1"

    def batches(self, stream: Stream) -> tuple[list[int], list[int]]:
        """The batches in its offset log and in its commit log."""
        folder = self._checkpoint(stream)
        offsets, commits = (
            [int(name) for name in self._files.names(f"{folder}/{log}") if name.isdigit()]
            for log in ("offsets", "commits")
        )
        return offsets, commits

    def ends(self, stream: Stream, batch: int) -> dict[str, int]:
        """Partition -> offset at the end of a batch, as the offset log has it."""
        text = self._files.text(f"{self._checkpoint(stream)}/offsets/{batch}")
        return {} if text is None else dict(json.loads(text.splitlines()[2]).get(self._topic, {}))

    def post_mortem(self, stream: Stream, armed: Armed, reached: bool) -> Found:
        """Where the kill really was, from what it left."""
        offsets, commits = self.batches(stream)
        last, done = max(offsets, default=-1), max(commits, default=-1)
        position = self._sinks.position(stream.kind, stream.name, stream.table, stream.document)
        seen = self._world.observation(stream.name)
        facts: dict[str, Any] = {"offsets": last, "commits": done, "position": position.batch if position else None}
        facts["recorded"] = seen.batch_id if seen is not None else None
        if last == done:
            between = armed.step if armed.step in ("before-offset-log", "after-commit-log") else "none"
            return Found(between if reached else "none", facts)
        begin, end = self.ends(stream, done), self.ends(stream, last)
        stream.under_way |= {
            (int(part), at) for part, to in end.items() for at in range(begin.get(part, 0), to)
        }  # fmt: skip
        if (position is not None and position.batch == last) or (reached and armed.step in SENT):
            told = facts["recorded"] == last
            if told == (armed.step == "after-record") and reached and armed.step in LANDED:
                return Found(armed.step, facts)
            return Found("after-record" if told else "after-publish", facts)
        since = (self.folder_of(stream) / "offsets" / str(last)).stat().st_mtime
        if stream.kind.sink == "iceberg":
            facts["staged"] = self._sinks.staged(stream.table, stream.name, since)
        if stream.kind.sink in ("iceberg", "delta", "files"):
            facts["files"], facts["manifests"] = self._sinks.written(stream.kind, stream.table, since)
        return Found(_unpublished(stream.kind, armed.step if reached else "none", facts), facts)

    def drained(self, stream: Stream, records: Sequence[Record]) -> bool:
        """Whether its checkpoint says that everything sent was landed."""
        offsets, commits = self.batches(stream)
        if not offsets or max(offsets) != max(commits, default=-1):
            return False
        ends = self.ends(stream, max(offsets))
        wanted: dict[str, int] = {}
        for each in records:
            wanted[str(each.at[0])] = max(wanted.get(str(each.at[0]), 0), each.at[1] + 1)
        return all(ends.get(part, 0) >= to for part, to in wanted.items())


def _unpublished(kind: Kind, step: str, facts: Mapping[str, Any]) -> str:
    """The cell of a batch that has its offsets and is in no table: as far as what it left goes."""
    if step == "none" or step in ("before-offset-log", "after-commit-log", "after-publish"):
        return "none"
    if step == "after-offset-log":
        return step if not facts.get("files") and not facts.get("staged") else "none"
    if kind.sink == "iceberg":
        if step == "after-stage":
            return step if facts["staged"] else "none"
        if step == "after-files":
            return step if facts["files"] and facts["manifests"] and not facts["staged"] else "none"
        return step if facts["files"] and not facts["staged"] else "none"
    if kind.sink in ("delta", "files") and step != "before-send":
        return step if facts["files"] else "none"
    return step
