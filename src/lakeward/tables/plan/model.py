"""What a plan is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from lakeward.platform.errors import expect
from lakeward.spec.model.table_layout import SortOrder
from lakeward.tables.plan.cost import Pace


@dataclass(frozen=True)
class SnapshotPin:
    """Something that needs history: nothing committed at or after `at` may be expired.

    Attributes:
        who: `stream flights`, `quality`, `staged batches`.
        why: what it needs it for, one phrase.
    """

    who: str
    why: str
    at: datetime


@dataclass(frozen=True)
class Needs:
    """What others need of the table.

    Attributes:
        clamps: the history somebody needs.
        refusals: why expiry must not run at all: a position off main, a hold, `gc.enabled=false`.
        hold_until: no maintenance before this.
        forbidden: why no action at all may run, e.g. another table under its location.
        least_kept: floor under the age of what a VACUUM of a Delta table deletes.
    """

    clamps: tuple[SnapshotPin, ...] = ()
    refusals: tuple[str, ...] = ()
    hold_until: datetime | None = None
    forbidden: str = ""
    least_kept: timedelta = timedelta()


@dataclass(frozen=True)
class History:
    """What was done before, from the ledger.

    Attributes:
        done: action -> when it last ended well.
        failures: action -> failures in a row since then, and when the last was.
        finished: partition -> when it got its final layout.
        idle: action -> runs in a row that changed nothing, and when the last was.
        contested: partition -> rewrites of it in a row that failed since the last good one, and when the last did.
        tried: partition -> when its newest final pass began that left more files than promised.
        paces: action -> how long it takes here, as far as it was ever done.
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
    """The partitions rewritten in one way.

    Attributes:
        mode: `fragments` (hot: only fragments are taken), `final` (cold: every small file is), `layout` (cold: every
            file is, to be put in order) or `deletes` (files of which many rows are deleted).
        partitions: names; those of an unpartitioned table are `""`.
        where: one condition a partition; empty when the whole table is meant.
        below: files below this size in bytes are taken.
        target: size in bytes of what is written.
        takes, gives: promised files in and out.
        takes_bytes: promised bytes in.
        order: of the rows written; None: as they come.
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


@dataclass(frozen=True)
class Tag:
    """A tag to be made. `kept`: an expiry takes it once its snapshot is older."""

    name: str
    snapshot_id: int
    kept: timedelta


@dataclass(frozen=True)
class Action:
    """One planned action.

    Attributes:
        files: what it takes: files (compact), delete files (deletes), manifests, snapshots (expire) or metadata files.
        rewrites: of a compaction.
        where: of a merge of delete files: one condition a partition; empty when the whole table is meant.
        properties: of a repair of the table's properties: what is set.
        older_than, retain_last: of an expiry.
        tag: of `tags`: what is made.
        expected_s: seconds it should take, by this table's own runs.
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
        """`older_than` of an expiry: the planner sets it."""
        return expect(self.older_than, f"older_than of {self.action}")

    @property
    def made_tag(self) -> Tag:
        """`tag` of `tags`: the planner sets it."""
        return expect(self.tag, f"tag of {self.action}")

    def document(self) -> dict[str, Any]:
        """The command line's JSON."""
        return {
            "action": self.action,
            "partitions": [each for each in self.partitions if each],
            "files": self.files,
            "size_bytes": self.size_bytes,
            "expected_s": round(self.expected_s, 1),
            "why": self.why,
        }


@dataclass(frozen=True)
class NotPlanned:
    """An action that is not due. `next_at`: when time alone makes it due, if it does."""

    action: str
    why: str
    next_at: datetime | None = None
    refused: bool = False

    def document(self) -> dict[str, Any]:
        """The command line's JSON."""
        return {"action": self.action, "why": self.why, "next_at": self.next_at}


@dataclass(frozen=True)
class Plan:
    """What is due for a table, in the order it is done, and what is not."""

    table: str
    snapshot_id: int | None
    actions: tuple[Action, ...]
    not_planned: tuple[NotPlanned, ...]

    def action(self, name: str) -> Action | None:
        """The planned action of this name."""
        return next((each for each in self.actions if each.action == name), None)

    def document(self) -> dict[str, Any]:
        """The command line's JSON."""
        return {
            "table": self.table,
            "actions": [each.document() for each in self.actions],
            "not_planned": [each.document() for each in self.not_planned],
        }

    def stored(self) -> dict[str, Any]:
        """The same as plain JSON data, with the snapshot it was made for."""
        left = [{**each.document(), "next_at": each.next_at and each.next_at.isoformat()} for each in self.not_planned]
        return {**self.document(), "not_planned": left, "snapshot_id": self.snapshot_id}
