"""Whether a stream's position alone defines where it continues. Pure.

recover needs that, reset and skip-batch as well. The command line refuses by it, and the on-call block offers by it: a
block never names a command that is refused for the stream's shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakeward.spec.deploy.plan import keeps_state
from lakeward.spec.model.stream import StreamSpec

RECOVER = "recover"
_SINKS = frozenset({"iceberg", "delta", "postgres"})
"""Sinks whose position can move without a batch."""


@dataclass(frozen=True)
class Obstacle:
    """Why an operation cannot move the position.

    Attributes:
        part: the part of the spec that is the reason.
        why: a sentence without its full stop.
        next: what helps instead.
    """

    part: Literal["sink", "source", "state"]
    why: str
    next: str


def obstacle(spec: StreamSpec, operation: str) -> Obstacle | None:
    """The obstacle of `operation` (recover, reset, skip a batch of); None if the stream's shape allows it."""
    native = spec.sink.iceberg is not None and spec.sink.iceberg.commit != "exact"
    if spec.sink.connector not in _SINKS or native:
        return Obstacle(
            "sink",
            "the position in its folder moves only with its batches"
            if spec.sink.files is not None
            else f"its sink ({spec.sink.connector}) keeps no position; only the checkpoint records the progress",
            "restore a lost checkpoint from a copy; for a record that fails, change the transform, then: "
            f"lakeward deploy; lakeward streams upgrade {spec.id}",
        )
    readable = {"kafka", "files", "iceberg", "delta", "kinesis"} if operation == RECOVER else {"kafka"}
    other = [str(name) for name, source in spec.sources.items() if source.connector not in readable]
    if other:
        return Obstacle(
            "source",
            f"the position does not define where to continue in {', '.join(other)}; only Kafka offsets do",
            "restore the checkpoint from a copy",
        )
    remembers = [str(name) for name, source in spec.sources.items() if source.deduplicate]
    if not remembers and _goes_through(spec):
        return None
    state = "its transform keeps state (windows, aggregates) or makes other rows than it reads"
    if remembers:
        state = f"it keeps the keys of {', '.join(remembers)} to drop duplicates"
    return Obstacle(
        "state",
        f"{state}, and state is stored in the checkpoint",
        "restore the checkpoint from a copy, or land into a new table under a new id",
    )


def _goes_through(spec: StreamSpec) -> bool:
    """Whether each record is transformed on its own. Rows of files and tables have no lineage; their SQL decides."""
    untraced = any(source.files or source.from_table for source in spec.sources.values())
    return spec.lineage == "rows" or (untraced and spec.transform.sql is not None and not keeps_state(spec))
