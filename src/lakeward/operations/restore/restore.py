"""restore: set the writers aside, take the table back in one commit, give its streams new checkpoints, start them.

Data, positions and `verified` move in one commit, so a kill leaves either all as it was or all taken back. The same
commit leaves a marker on the table, naming the checkpoints that no stream may go on with; until a stream has a new one
its driver is turned away by the position, which its checkpoint does not fit. Run again, the same command finishes that.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import structlog

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.iceberg import rename, rollback
from lakeward.operations import operation_lock
from lakeward.operations.context import Site
from lakeward.operations.generation import again, next_checkpoint
from lakeward.operations.request import Approval
from lakeward.operations.restore import plan as planning
from lakeward.operations.restore.plan import WORD, NotRecorded, RestorePlan
from lakeward.operations.waiting import Waiting
from lakeward.platform.errors import DependencyDown, LakewardError, Refused, SpecError, expect
from lakeward.quality.ranges.metadata import BRANCH
from lakeward.registry import changes, events, generations, maintenance, streams
from lakeward.tables.guard.actor import Actor, actor
from lakeward.tables.maintain import take_over
from lakeward.telemetry import failpoints

log = structlog.get_logger(__name__)

MARKER = "lakeward.restore"
"""Table property: a `_Marker` as JSON, from the commit on until every stream has its new checkpoint."""


RECORDED_S = 60.0
"""So long after its stop a driver may take to tell the registry of the last batch."""


@dataclass(frozen=True)
class Ask:
    """One restore of one table.

    Attributes:
        to: the snapshot that becomes main's head.
        comment: why; kept with the change.
        approval: somebody's yes to exactly one plan; None: nobody said it yet.
        kill: end the process of a driver that does not stop in time.
    """

    table: str
    to: int
    comment: str = ""
    approval: Approval | None = None
    kill: bool = False


@dataclass(frozen=True)
class Restored:
    """How it ended. `detail` is a sentence, `data` the plan's with what was done."""

    detail: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Marker:
    """What is left to do after the commit: stream -> the checkpoint it must not go on with."""

    to: int
    at: str
    checkpoints: Mapping[str, str]
    data: Mapping[str, Any]

    def text(self) -> str:
        return json.dumps(self.__dict__, sort_keys=True)


@dataclass(frozen=True)
class Restore:
    """Carries it out."""

    site: Site
    ask: Ask

    @property
    def begun(self) -> bool:
        """Whether an earlier run took the table back, and was killed before its streams had their checkpoints."""
        return self._left() is not None

    def run(self) -> Restored:
        """Do it, or finish what was begun.

        Raises:
            SpecError: there is no such table, or nobody says why.
            Refused: it cannot be done, or nobody approved exactly this.
            Fenced: somebody committed to the table meanwhile; nothing was changed.
            LakewardError: it was tried and did not succeed; the streams go on as before, and so can this.
        """
        if not self.ask.comment.strip():
            raise SpecError(
                f"A restore of {self.ask.table} needs a comment",
                why="whoever reads it later must know why",
                next="say it with --comment TEXT",
            )
        with actor(self.site.connect, self.ask.table, self.site.holder) as mine:
            take_over(self.site.connect, self.site.runtime, self.ask.table)
            left = self._left()
            if left is not None:
                writers = tuple(sorted(left.checkpoints))
                finished = self._aside(writers, mine, None, left)
                if left.to == self.ask.to:
                    return finished
            planned = planning.plan(self.site, self.ask.table, self.ask.to)
            if planned.there:
                return Restored(f"{self.ask.table} stands at snapshot {self.ask.to} already", dict(planned.data))
            self._permit(planned)
            return self._aside(planned.writers, mine, planned, None)

    def _left(self) -> _Marker | None:
        """What an earlier run left half done."""
        raw = planning.load(self.site, self.ask.table).properties.get(MARKER)
        return None if raw is None else _Marker(**json.loads(raw))

    def _permit(self, planned: RestorePlan) -> None:
        """Whether a person said yes to just this.

        Raises:
            Refused: nobody did, or to something else.
        """
        approval = self.ask.approval
        if approval is None:
            raise Refused(
                f"The restore of {self.ask.table} needs a person's approval: approval missing",
                why=f"it would {planned.text}",
                next="answer the question at a terminal, or in a script: --yes --comment TEXT",
            )
        if approval.key != planned.key:
            raise Refused(
                f"The restore of {self.ask.table} is not what {approval.by} approved",
                why=f"things have moved; now it would {planned.text}",
                next=f"lakeward tables restore {self.ask.table} --to {self.ask.to} --dry-run   shows it anew",
            )

    def _aside(
        self, writers: tuple[str, ...], mine: Actor, planned: RestorePlan | None, left: _Marker | None
    ) -> Restored:
        """With every writer set aside: take the table back unless that is done, and settle."""
        begun = datetime.now(UTC)
        approved_by = self.ask.approval.by if self.ask.approval else None
        with ExitStack() as stack:
            turns = {
                stream: stack.enter_context(
                    operation_lock.operating(
                        self.site, stream, self.ask.comment, WORD, f"{self.ask.table} restored", approved_by
                    )
                )
                for stream in writers
            }
            action = self._record(planned, left)
            stopped: list[str] = []
            try:
                for stream, waiting in turns.items():
                    if waiting.aside(kill=self.ask.kill):
                        stopped.append(stream)
                failpoints.hit("restore-stopped")
                if left is None:
                    left = self._move(turns, mine, expect(planned, "the plan of a restore that nobody began"))
            except (Exception, KeyboardInterrupt) as error:
                for stream in stopped:
                    with suppress(DependencyDown):  # else it counts as abandoned, and is started by the next to come
                        turns[stream].as_before()
                self._failed(action, error, begun)
                raise
            failpoints.hit("restore-moved")
            return self._settle(left, stopped, action, begun)

    def _move(self, turns: Mapping[str, Waiting], mine: Actor, planned: RestorePlan) -> _Marker:
        """The one commit, on exactly what was looked at now that nobody lands any more."""
        now = self._settled()
        self._permit(now)
        new = sorted(set(now.writers) - set(turns))
        if new:
            raise Refused(
                f"Table {self.ask.table} was not restored: {', '.join(new)} writes it too now",
                why="it was deployed meanwhile; nothing was changed",
                next="the same command again",
            )
        for waiting in turns.values():
            waiting.keep()
        mine.check()
        # For people it is what they approved; which batches go is known only now.
        data = {**now.data, "streams": [{**each, "end": None} for each in now.data["streams"]]}
        marker = _Marker(
            now.to,
            datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            {each.stream: each.kept.checkpoint for each in now.backs if each.again and each.kept is not None},
            data,
        )
        properties = {
            position.key(each.stream): None if each.position is None else each.position.to_json() for each in now.backs
        }
        held = now.loaded.metadata.refs.get(BRANCH)
        branches = {} if held is None or held.snapshot_id == now.verified else {BRANCH: now.verified}
        failpoints.hit("restore-before-commit")
        rollback.move(now.loaded, now.to, {**properties, MARKER: marker.text()}, branches)
        return marker

    def _settled(self) -> RestorePlan:
        """The plan once the registry has heard of the last batch."""
        end = time.monotonic() + RECORDED_S
        while True:
            try:
                return planning.plan(self.site, self.ask.table, self.ask.to, settled=True)
            except NotRecorded:
                if time.monotonic() > end:
                    raise
            self.site.sleep(1.0)

    def _settle(self, left: _Marker, stopped: list[str], action: int, begun: datetime) -> Restored:
        """After the commit. Each step may be done again."""
        for stream, old in sorted(left.checkpoints.items()):
            self._new_checkpoint(stream, old, left)
            failpoints.hit("restore-one-settled")
        detail = (
            f"{self.ask.table} stands at snapshot {left.to} again ({left.data['records_before']:,} to "
            f"{left.data['records_after']:,} rows)"
        )
        with self.site.connect() as connection:
            if stopped:  # whatever blocked them was about what the table held before
                streams.set_desired(connection, stopped, "running")
            known = changes.newest(connection, "table", self.ask.table)
            if not any(each["change"] == WORD and (each["detail"] or {}).get("at") == left.at for each in known):
                by = {"approved_by": self.ask.approval.by} if self.ask.approval else {}
                changes.record(
                    connection, "table", self.ask.table, WORD, author=self.site.author, comment=self.ask.comment,
                    at=left.at, **left.data, **by,
                )  # fmt: skip
                events.record(
                    connection, "table", self.ask.table, WORD, f"{detail} (by {self.site.author})",
                    comment=self.ask.comment,
                )  # fmt: skip
        catalog = planning.load(self.site, self.ask.table).catalog
        rename.amend(catalog, self.ask.table, lambda _: {MARKER: None}, {MARKER: left.text()})
        self._done(action, left, begun)
        if stopped:
            self.site.reconcile()
            detail += f"; asked to run again: {', '.join(stopped)}"
        return Restored(detail, dict(left.data))

    def _new_checkpoint(self, stream: str, old: str, left: _Marker) -> None:
        with self.site.connect() as connection:
            row = streams.get(connection, stream)
            kept = generations.get(connection, stream, row.generation)
            if kept is None or kept.checkpoint != old:
                return  # it has one already
            folder = next_checkpoint(old, stream)
            number = again(connection, kept, folder, self.site.author)
            changes.record(
                connection, "stream", stream, WORD, author=self.site.author, comment=self.ask.comment,
                before={"checkpoint": old, "generation": kept.generation},
                after={"checkpoint": folder, "generation": number, "table": self.ask.table, "snapshot": str(left.to)},
            )  # fmt: skip

    def _record(self, planned: RestorePlan | None, left: _Marker | None) -> int:
        """A row of the table's ledger."""
        data = planned.data if planned is not None else left.data if left is not None else {}
        before = {"snapshot_id": str(data.get("from_snapshot")), "records": data.get("records_before")}
        with self.site.connect() as connection:
            return maintenance.begin_action(
                connection, plan=uuid4().hex, table=self.ask.table, action=WORD, session_id=None, before=before
            )

    def _done(self, action: int, left: _Marker, begun: datetime) -> None:
        after = {"snapshot_id": str(left.to), "records": left.data["records_after"]}
        with self.site.connect() as connection:
            maintenance.finish_action(
                connection, action, result="done", verified=True, why=self.ask.comment, after=after,
                duration_s=round((datetime.now(UTC) - begun).total_seconds(), 3),
            )  # fmt: skip

    def _failed(self, action: int, error: BaseException, begun: datetime) -> None:
        why = f"{error.what}: {error.why}" if isinstance(error, LakewardError) else str(error) or "interrupted"
        with suppress(DependencyDown), self.site.connect() as connection:
            maintenance.finish_action(
                connection, action, result="refused" if isinstance(error, Refused) else "failed", verified=False,
                why=why, duration_s=round((datetime.now(UTC) - begun).total_seconds(), 3),
            )  # fmt: skip
