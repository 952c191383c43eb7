"""What the table says is landed: the position of one stream, a table property in canonical JSON.

It is the only truth about landing. Spark writes it in the same commit as the data, PyIceberg reads it without a JVM.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from lakeward.connectors.commit_protocol.batch import Counted
from lakeward.platform.errors import Blocked

NO_DATA = "-"
"""The offset of a source that has not had any data yet."""

_PREFIX = "lakeward.stream."
_SUFFIX = ".position"


class Totals(BaseModel):
    """Since the stream's first position: records consumed, kept aside and filtered, and rows landed.

    With lineage `rows`, a row stands for a record: `consumed = landed + quarantined + filtered`.
    `skipped`: records a person gave up, counted by offsets; they are no part of `consumed`.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    consumed: int = 0
    landed: int = 0
    quarantined: int = 0
    filtered: int = 0
    skipped: int = 0

    def plus(self, other: Totals) -> Totals:
        """Field by field."""
        return Totals(
            consumed=self.consumed + other.consumed,
            landed=self.landed + other.landed,
            quarantined=self.quarantined + other.quarantined,
            filtered=self.filtered + other.filtered,
            skipped=self.skipped + other.skipped,
        )


def totals_of(counted: Counted, landed: int) -> Totals:
    """One batch's records. Without a count at decode, consumed is what is known to have come out."""
    consumed = landed + counted.quarantined if counted.consumed is None else counted.consumed
    filtered = counted.filtered(landed) or 0
    return Totals(consumed=consumed, landed=landed, quarantined=counted.quarantined, filtered=filtered)


class Skip(BaseModel):
    """Records a person gave up: source name -> canonical offset, from (inclusive) and to (exclusive)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    start: dict[str, str]
    end: dict[str, str]


class Position(BaseModel):
    """How far a stream has landed in this table.

    Attributes:
        seq: the table's own count of the stream's published batches; only rises, also through reset and import.
        query_id: the checkpoint's identity; empty after an import or reset.
        batch: the checkpoint's batch number; -1 after an import or reset.
        generation: the accepted spec the batch was landed by.
        end: source name -> canonical offset up to which (exclusive) is landed; `-` without data yet.
        begin: source name -> where the stream's first batch began; what the audit counts from.
        skips: what was given up between `begin` and `end`, by `reset` and `skip-batch`.
        topic_ids: topic -> its id in the broker: a topic deleted and created again has another one.
        snapshot, snapshot_seq: the published snapshot and its sequence number; None and 0 in a table without any.
        totals: records so far.
        attempt: the id of the write that published it, `<stream>/<seq>/<nonce>`; `import/...` or `reset/...` else.
        complete_through: event time (RFC 3339) up to which the table is final, where the stream knows one.
        added: column -> the generation that added it to the table: an older one does not know it.
        mode: how the stream's batches change the sink: append, upsert or complete.
        at: when it was published, by the writer's clock (RFC 3339); for people, nothing is decided by it.
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
        """What an operation moves where nothing has landed yet; `start`: where the stream's records begin."""
        return cls(seq=0, query_id="", batch=-1, generation=generation, end=dict(start), begin=dict(start))

    def moved(self, reason: str, author: str, **changed: Any) -> Position:
        """This position as an operation moves it: one seq further, and no query's any more.

        Args:
            reason: the operation's word in `attempt`.
            changed: further fields, e.g. `end`.
        """
        seq = self.seq + 1
        own = {"seq": seq, "query_id": "", "batch": -1, "attempt": f"{reason}/{seq}/{author}", "at": now()}
        return self.model_copy(update={**own, **changed})

    def to_json(self) -> str:
        """The canonical form: sorted keys, no spaces."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def now() -> str:
    """This moment by this machine's clock, as `Position.at` has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def key(stream: str) -> str:
    """The table property that holds the position of `stream`."""
    return f"{_PREFIX}{stream}{_SUFFIX}"


def parse(text: str, stream: str, table: str) -> Position:
    """The position written in `text`.

    Raises:
        Blocked: it is not one (`position-unreadable`): somebody else wrote this property.
    """
    try:
        return Position.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole text"
        raise Blocked(
            f"The position of stream {stream} in {table} cannot be read",
            why=f"property {key(stream)}: {where}: {first['msg']}",
            next=f"put the property back as the table's earlier metadata has it; then: lakeward streams audit {stream}",
            reason="position-unreadable",
            code="LW-3018",
        ) from None


def of_properties(properties: Mapping[str, str], table: str) -> dict[str, Position]:
    """Stream id -> position, for every position among a table's properties."""
    return {stream: parse(properties[key(stream)], stream, table) for stream in streams_of(properties)}


def streams_of(properties: Iterable[str]) -> list[str]:
    """The streams that have a position among these property names, sorted."""
    return sorted(
        name[len(_PREFIX) : -len(_SUFFIX)] for name in properties if name.startswith(_PREFIX) and name.endswith(_SUFFIX)
    )
