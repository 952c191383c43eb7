"""The position of a stream: what has landed in the table, stored as a table property in canonical JSON.

It alone decides what has landed. Spark writes it in the same commit as the data; PyIceberg reads it without a JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from lakeward.connectors.commit_protocol.batch import Counted
from lakeward.platform.errors import Blocked

NO_DATA = "-"
"""The offset of a source that has had no data yet."""

_PREFIX = "lakeward.stream."
_SUFFIX = ".position"


class Totals(BaseModel):
    """Counts since the stream's first position: records consumed, quarantined and filtered, and rows landed.

    With lineage `rows`, a row is one record: `consumed = landed + quarantined + filtered`.
    `skipped`: records a person skipped, counted by offsets; they are not part of `consumed`.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    consumed: int = 0
    landed: int = 0
    quarantined: int = 0
    filtered: int = 0
    skipped: int = 0

    def plus(self, other: Totals) -> Totals:
        """The sum, field by field."""
        return Totals(
            consumed=self.consumed + other.consumed,
            landed=self.landed + other.landed,
            quarantined=self.quarantined + other.quarantined,
            filtered=self.filtered + other.filtered,
            skipped=self.skipped + other.skipped,
        )


def totals_of(counted: Counted, landed: int) -> Totals:
    """The counts of one batch. Without a count at decode, `consumed` is the number of landed and quarantined rows."""
    consumed = landed + counted.quarantined if counted.consumed is None else counted.consumed
    filtered = counted.filtered(landed) or 0
    return Totals(consumed=consumed, landed=landed, quarantined=counted.quarantined, filtered=filtered)


class Skip(BaseModel):
    """Records a person skipped: source name -> canonical offset, from (inclusive) and to (exclusive)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    start: dict[str, str]
    end: dict[str, str]


class Position(BaseModel):
    """How far a stream has landed in this table.

    Attributes:
        seq: the table's own count of the stream's published batches; only rises, also through reset and import.
        query_id: the checkpoint's identity; empty after an import or reset.
        batch: the checkpoint's batch number; -1 after an import or reset.
        generation: the accepted spec that landed the batch.
        end: source name -> canonical offset up to which (exclusive) records have landed; `-` without data yet.
        begin: source name -> where the stream's first batch began; the audit counts from there.
        skips: the ranges skipped between `begin` and `end`, by `reset` and `skip-batch`.
        topic_ids: topic -> its id in the broker: a recreated topic has another id.
        snapshot, snapshot_seq: the published snapshot and its sequence number; None and 0 in a table without any.
        totals: counts so far.
        attempt: the id of the write that published it, `<stream>/<seq>/<nonce>`, or `import/...` or `reset/...`.
        complete_through: event time (RFC 3339) up to which the table is final, if the stream has one.
        added: column -> the generation that added it to the table; older generations do not have it.
        mode: how the stream's batches change the sink: append, upsert or complete.
        at: when it was published, by the writer's clock (RFC 3339); for display only.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    seq: int
    query_id: str
    batch: int
    generation: int = 0
    end: dict[str, str]
    begin: dict[str, str] = {}
    skips: tuple[Skip, ...] = ()
    topic_ids: dict[str, str] = {}
    snapshot: int | None = None
    snapshot_seq: int = 0
    totals: Totals = Totals()
    attempt: str = ""
    complete_through: str | None = None
    added: dict[str, int] = {}
    mode: str = "append"
    at: str = ""

    @classmethod
    def before_first(cls, generation: int, start: Mapping[str, str]) -> Position:
        """The position that an operation moves if nothing has landed yet; `start`: where the stream's records begin."""
        return cls(seq=0, query_id="", batch=-1, generation=generation, end=dict(start), begin=dict(start))

    def moved(self, reason: str, author: str, **changed: Any) -> Position:
        """This position as an operation moves it: the next seq, without a query id.

        Args:
            reason: the name of the operation in `attempt`.
            changed: further fields to set, e.g. `end`.
        """
        seq = self.seq + 1
        own = {"seq": seq, "query_id": "", "batch": -1, "attempt": f"{reason}/{seq}/{author}", "at": now()}
        return self.model_copy(update={**own, **changed})

    def to_json(self) -> str:
        """The canonical form: sorted keys, no spaces."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def now() -> str:
    """The current time by this machine's clock, in the form of `Position.at`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def key(stream: str) -> str:
    """The name of the table property with the position of `stream`."""
    return f"{_PREFIX}{stream}{_SUFFIX}"


class KeptIn(Enum):
    """Where a sink keeps a position, and how a person puts one back that another program wrote.

    Values: the place, and the next step.
    """

    PROPERTY = (
        "property {key}",
        "restore the position from a backup of the table; or give the stream a new id and a new table",
    )
    DELTA_LOG = (
        "the domain metadata {key} of the Delta log",
        "restore the table and its _delta_log from a backup, then: lakeward streams start {stream}; or give the "
        "stream a new id and a new table (conf/streams/{stream}.yaml), then: lakeward deploy",
    )
    ROW = (
        "the row of the stream in the table of positions",
        "set its column position to the value of a backup; then: lakeward streams audit {stream}",
    )
    FILE = (
        "the file with the position in the folder of the newest batch",
        "restore the file from a backup; then: lakeward streams start {stream}",
    )

    @classmethod
    def of_format(cls, name: str) -> KeptIn:
        """That of a table's format, `iceberg` or `delta`."""
        return cls.DELTA_LOG if name == "delta" else cls.PROPERTY


def parse(text: str, stream: str, table: str, kept: KeptIn = KeptIn.PROPERTY) -> Position:
    """Parse a position.

    Args:
        kept: where the text was read, for the message.

    Raises:
        Blocked: the text is not a position (`position-unreadable`): another program wrote it.
    """
    try:
        return Position.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole text"
        place, step = (each.format(key=key(stream), stream=stream) for each in kept.value)
        raise Blocked(
            f"The position of stream {stream} in {table} cannot be read",
            why=f"{place}: {where}: {first['msg']}",
            next=step,
            reason="position-unreadable",
            code="LW-3018",
        ) from None


def of_properties(properties: Mapping[str, str], table: str) -> dict[str, Position]:
    """Stream id -> position, for every position in a table's properties."""
    return {stream: parse(properties[key(stream)], stream, table) for stream in streams_of(properties)}


def streams_of(properties: Iterable[str]) -> list[str]:
    """The streams that have a position among these property names, sorted."""
    return sorted(
        name[len(_PREFIX) : -len(_SUFFIX)] for name in properties if name.startswith(_PREFIX) and name.endswith(_SUFFIX)
    )
