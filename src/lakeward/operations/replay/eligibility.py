"""Which streams' quarantines can be replayed, and which of their rows cannot. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from lakeward.platform.errors import Refused
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS
from lakeward.spec.model.stream import StreamSpec

if TYPE_CHECKING:
    from lakeward.engine.flow import Flow


class Left(StrEnum):
    """Why a row stays in quarantine although nobody looked whether it is good by now."""

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
    Left.SOURCE: "it came from a source that the stream has no more, or from several at once",
    Left.AHEAD: "the stream has not passed its record: it reads it (again) itself",
    Left.PART: "only the first MiB of its record was kept; the rest is in the source, at its position",
    Left.ROW: "the row was kept, not its record: an earlier version did that, and streams of lineage none do",
    Left.KEY: "the record's key and headers were not kept, and the stream lands them now",
}


def suited(spec: StreamSpec) -> None:
    """Refuse what a spec alone tells.

    Raises:
        Refused: names what stands in the way.
    """
    why = _obstacle(spec)
    if why is not None:
        raise _refused(str(spec.id), why)


def traced(spec: StreamSpec, built: Flow) -> None:
    """Refuse what the plan tells: each row must be known by its record, or be the only one of its key.

    Raises:
        Refused: names what stands in the way.
    """
    missing = [name for name in built.inlets[0].identity if name not in built.columns.names]
    if built.stateful:
        raise _refused(str(spec.id), "it keeps state: a record that comes later changes rows that are long final")
    if missing:
        raise _refused(
            str(spec.id), f"its transform drops {', '.join(missing)}: nobody could say which record is a row"
        )
    if spec.sink.mode == "append" and built.lineage != "rows":
        raise _refused(str(spec.id), "lineage is none: of a record with several rows some may have landed")


def _obstacle(spec: StreamSpec) -> str | None:
    sink = spec.sink.iceberg
    if sink is None:
        return f"its sink is {spec.sink.connector}; replaying is done for Iceberg tables, not yet for others"
    if spec.quarantine is None:
        return "it has no quarantine table"
    if len(spec.sources) > 1:
        return "it has several sources; replaying is done for streams of one, not yet for others"
    connector = next(iter(spec.sources.values())).connector
    if connector != "kafka" or connector not in IDENTITY_COLUMNS:
        return f"a record of {connector} has no position of its own by which it could land once"
    if sink.mode == "complete":
        return "mode complete replaces all rows with every batch"
    if sink.mode == "upsert" and sink.order_by is None:
        return "mode upsert without order_by: nothing says whether the row in the table is newer"
    if sink.mode == "upsert" and sink.delete_when is not None:
        return "delete_when forgets a key that is deleted: an older row would bring it back"
    return None


def _refused(stream: str, why: str) -> Refused:
    return Refused(
        f"The quarantine of stream {stream} cannot be replayed",
        why=why,
        next=f"its rows stay where they are: lakeward streams audit {stream}",
        code="LW-2048",
    )
