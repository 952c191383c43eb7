"""Eligibility of a replay: which streams' quarantines can be replayed, and which rows cannot. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from lakeward.platform.errors import Refused
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS
from lakeward.spec.model.stream import StreamSpec

if TYPE_CHECKING:
    from lakeward.engine.flow import Flow


class NotReplayable(StrEnum):
    """Why a row stays in quarantine without being processed again."""

    SOURCE = "source"
    AHEAD = "ahead"
    PART = "part"
    ROW = "row"
    KEY = "key"

    @property
    def text(self) -> str:
        """The sentence for people."""
        return _TEXTS[self]


_TEXTS = {
    NotReplayable.SOURCE: "its source is no longer a source of the stream, or it came from several sources",
    NotReplayable.AHEAD: "the stream's position is before its record: the stream reads it itself",
    NotReplayable.PART: "only the first MiB of its record was stored; the rest is in the source, at its position",
    NotReplayable.ROW: "its row was stored, not its record (an earlier version, or lineage: none)",
    NotReplayable.KEY: "its record's key and headers were not stored, and the stream lands them now",
}


def suited(spec: StreamSpec) -> None:
    """Check that a stream's spec allows a replay.

    Raises:
        Refused: names the obstacle.
    """
    why = _obstacle(spec)
    if why is not None:
        raise _refused(str(spec.id), why)


def traced(spec: StreamSpec, built: Flow) -> None:
    """Check the query plan: each row must be identified by its record, or be the only one of its key.

    Raises:
        Refused: names the obstacle.
    """
    missing = [name for name in built.sources[0].identity if name not in built.columns.names]
    if built.stateful:
        raise _refused(str(spec.id), "it keeps state: a late record would change rows that are final")
    if missing:
        raise _refused(str(spec.id), f"its transform drops {', '.join(missing)}: rows cannot be matched to records")
    if spec.sink.mode == "append" and built.lineage != "rows":
        raise _refused(str(spec.id), "lineage is none: some rows of a record may have landed already")


def _obstacle(spec: StreamSpec) -> str | None:
    sink = spec.sink.iceberg
    if sink is None:
        return f"its sink is {spec.sink.connector}; replays support Iceberg tables only, so far"
    if spec.quarantine is None:
        return "it has no quarantine table"
    if len(spec.sources) > 1:
        return "it has several sources; replays support streams with one source only, so far"
    connector = next(iter(spec.sources.values())).connector
    if connector != "kafka" or connector not in IDENTITY_COLUMNS:
        return f"a record of {connector} has no position of its own, by which it could land exactly once"
    if sink.mode == "complete":
        return "mode complete replaces all rows with every batch"
    if sink.mode == "upsert" and sink.order_by is None:
        return "mode upsert without order_by cannot decide whether the row in the table is newer"
    if sink.mode == "upsert" and sink.delete_when is not None:
        return "delete_when keeps no trace of a deleted key: an older row would restore it"
    return None


def _refused(stream: str, why: str) -> Refused:
    return Refused(
        f"Cannot replay the quarantine of stream {stream}",
        why=why,
        next=f"lakeward streams audit {stream}   counts the quarantined rows, which stay where they are",
        code="LW-2048",
    )
