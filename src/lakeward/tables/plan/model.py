"""The data model of a maintenance plan: needs, history, actions, actions that are not due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, NotRequired, TypedDict

from lakeward.platform.errors import expect
from lakeward.spec.model.table_layout import SortOrder
from lakeward.tables.plan.cost import Pace

PinKind = Literal["stream", "reader", "check", "maintenance", "batch", "tag", "branch"]
"""Whose need it is. Tags and branches need no pin: Iceberg itself keeps what they are on."""


@dataclass(frozen=True)
class SnapshotPin:
    """A need for history: no snapshot committed at or after `at` may expire.

    Attributes:
        who: `stream flights`, `quality`, `staged batches`.
        why: the reason, as a phrase.
        kind: what ends it; `reader`: a stream that reads the table.
        stream: the stream, of one by a stream.
    """

    who: str
    why: str
    at: datetime
    kind: PinKind = "stream"
    stream: str | None = None


@dataclass(frozen=True)
class Needs:
    """The needs of streams, checks and people for a table.

    Attributes:
        clamps: the snapshot pins.
        refusals: why expiry must not run at all: a position off main, a hold, `gc.enabled=false`.
        hold_until: no maintenance before this time.
        forbidden: why no action may run, e.g. another table under its location.
        min_file_age: minimum age of files that a VACUUM of a Delta table deletes.
    """

    clamps: tuple[SnapshotPin, ...] = ()
    refusals: tuple[str, ...] = ()
    hold_until: datetime | None = None
    forbidden: str = ""
    min_file_age: timedelta = timedelta()


@dataclass(frozen=True)
class History:
    """The history of maintenance, from the ledger.

    Attributes:
        done: action -> when it last succeeded.
        failures: action -> failures in a row since then, and the time of the last.
        finished: partition -> when it got its final layout.
        idle: action -> runs in a row without a change, and the time of the last.
        contested: partition -> failed rewrites in a row since the last successful one, and the time of the last.
        tried: partition -> start of its newest final pass that left more files than promised.
        paces: action -> its measured pace on this table.
    """

    done: Mapping[str, datetime] = field(default_factory=dict)
    failures: Mapping[str, tuple[int, datetime]] = field(default_factory=dict)
    finished: Mapping[str, datetime] = field(default_factory=dict)
    idle: Mapping[str, tuple[int, datetime]] = field(default_factory=dict)
    contested: Mapping[str, tuple[int, datetime]] = field(default_factory=dict)
    tried: Mapping[str, datetime] = field(default_factory=dict)
    paces: Mapping[str, Pace] = field(default_factory=dict)


@dataclass(frozen=True)
class Rewrite:
    """The partitions that are rewritten in one mode.

    Attributes:
        mode: `fragments` (hot: only fragments), `final` (cold: every small file), `layout` (cold: every file, to sort
            its rows) or `deletes` (files with many deleted rows).
        partitions: names; those of an unpartitioned table are `""`.
        where: one condition a partition; empty for the whole table.
        below: files below this size in bytes are rewritten.
        target: target size of written files, in bytes.
        takes, gives: promised files in and out.
        takes_bytes: promised bytes in.
        order: sort order of the written rows; None: unsorted.
        shared_deletes: files are due by delete files that do not name them alone, which the engine leaves out of the
            share of deleted rows.
        deleted: share of deleted rows from which a file is rewritten.
    """

    mode: str
    partitions: tuple[str, ...]
    where: tuple[str, ...]
    below: int
    target: int
    takes: int
    gives: int
    takes_bytes: int
    delete_files: int = 0
    order: SortOrder | None = None
    shared_deletes: bool = False
    deleted: float = 0.1


@dataclass(frozen=True)
class Tag:
    """A tag to create. `kept`: expiry drops it once its snapshot is older."""

    name: str
    snapshot_id: int
    max_age: timedelta


class ActionDocument(TypedDict):
    """One planned action in the JSON of `tables plan`."""

    action: str
    partitions: list[str]
    files: int
    size_bytes: int
    expected_s: float
    why: str


class NotPlannedDocument(TypedDict):
    """An action that is not due in the JSON of `tables plan`."""

    action: str
    why: str
    next_at: datetime | None


class PlanDocument(TypedDict):
    """The plan of one table in the JSON of `tables plan`. `error`: why it cannot be planned; nothing is due then."""

    table: str
    actions: list[ActionDocument]
    not_planned: list[NotPlannedDocument]
    error: NotRequired[str]


@dataclass(frozen=True)
class Action:
    """One planned action.

    Attributes:
        files: number of files (compact), delete files (deletes), manifests, snapshots (expire) or metadata files.
        rewrites: for a compaction.
        where: for a merge of delete files: one condition a partition; empty for the whole table.
        properties: for a repair of the table's properties: the new values.
        older_than, retain_last: for an expiry.
        tag: for `tags`: the new tag.
        expected_s: expected seconds, by this table's own runs.
    """

    action: str
    why: str
    partitions: tuple[str, ...] = ()
    files: int = 0
    size_bytes: int = 0
    rewrites: tuple[Rewrite, ...] = ()
    older_than: datetime | None = None
    retain_last: int = 0
    expected_s: float = 0.0
    properties: Mapping[str, str] = field(default_factory=dict)
    where: tuple[str, ...] = ()
    tag: Tag | None = None

    @property
    def cutoff(self) -> datetime:
        """`older_than` of an expiry, which the planner always sets."""
        return expect(self.older_than, f"older_than of {self.action}")

    @property
    def made_tag(self) -> Tag:
        """`tag` of `tags`, which the planner always sets."""
        return expect(self.tag, f"tag of {self.action}")

    def document(self) -> ActionDocument:
        """The command line's JSON."""
        return {
            "action": self.action,
            "partitions": [part for part in self.partitions if part],
            "files": self.files,
            "size_bytes": self.size_bytes,
            "expected_s": round(self.expected_s, 1),
            "why": self.why,
        }


@dataclass(frozen=True)
class NotPlanned:
    """An action that is not due. `next_at`: when it becomes due by time, if it does."""

    action: str
    why: str
    next_at: datetime | None = None
    refused: bool = False

    def document(self) -> NotPlannedDocument:
        """The command line's JSON."""
        return {"action": self.action, "why": self.why, "next_at": self.next_at}


@dataclass(frozen=True)
class Plan:
    """The due actions of a table, in the order they run, and the actions that are not due."""

    table: str
    snapshot_id: int | None
    actions: tuple[Action, ...]
    not_planned: tuple[NotPlanned, ...]

    def action(self, name: str) -> Action | None:
        """The planned action of this name."""
        return next((action for action in self.actions if action.action == name), None)

    def document(self) -> PlanDocument:
        """The command line's JSON."""
        return {
            "table": self.table,
            "actions": [action.document() for action in self.actions],
            "not_planned": [item.document() for item in self.not_planned],
        }

    def stored(self) -> dict[str, object]:
        """The same as plain JSON data, with the snapshot of the plan."""
        not_planned = [
            {**item.document(), "next_at": item.next_at and item.next_at.isoformat()} for item in self.not_planned
        ]
        return {**self.document(), "not_planned": not_planned, "snapshot_id": self.snapshot_id}
