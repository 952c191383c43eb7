"""restore operation: drain the writers, roll the table back in one commit, start the streams with new checkpoints.

Data, positions and `verified` move in one commit, so a kill leaves either everything unchanged or everything rolled
back. The same commit leaves a marker on the table with the checkpoints that must not be continued. Until a stream has a
new checkpoint, preflight refuses its driver, because checkpoint and position differ. Repeating the command finishes it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lakeward.connectors.commit_protocol import position
from lakeward.operations.context import Context
from lakeward.operations.generation import accept_again, next_checkpoint
from lakeward.operations.operation import HeldLocks, Lock, Operation
from lakeward.operations.request import Outcome, Request
from lakeward.operations.restore import plan as planning
from lakeward.operations.restore.plan import WORD, Marker, NotRecorded, RestorePlan
from lakeward.operations.restore.restorable import MARKER as MARKER
from lakeward.platform.errors import Fenced
from lakeward.registry import changes, events, generations, streams
from lakeward.telemetry import failpoints

ATTEMPTS = 5
"""Attempts of the commit. Before each, the plan is made again and must be the approved one."""

RECORDED_S = 60.0
"""How long a driver may take after its stop to record the last batch."""


class Restore(Operation[RestorePlan]):
    """Restores one table; `to` is the snapshot that becomes main's head."""

    name = WORD
    kind = "table"
    lock = Lock.TABLE
    needs_comment = True
    needs_approval = True

    def __init__(self, context: Context, request: Request, to: int) -> None:
        super().__init__(context, request)
        self.to = to

    def interrupted_plan(self) -> RestorePlan | None:
        """An earlier run that was killed after its commit, before its streams had new checkpoints."""
        table = planning.open_table(self.context, self.subject)
        raw = table.properties.get(MARKER)
        if raw is None:
            return None
        marker = Marker(**json.loads(raw))
        writers = tuple(sorted(marker.checkpoints))
        return RestorePlan(
            "finish an interrupted restore", holds=writers, drains=writers, leases=(self.subject,),
            table=table, to=marker.to, marker=marker,
        )  # fmt: skip

    def completes(self, interrupted: RestorePlan) -> bool:
        return interrupted.to == self.to

    def plan(self) -> RestorePlan:
        return planning.plan(self.context, self.subject, self.to)

    def drained_plan(self, plan: RestorePlan) -> RestorePlan:
        """The plan, made again after the last batch was recorded."""
        if plan.marker is not None:
            return plan
        end = time.monotonic() + RECORDED_S
        while True:
            try:
                return planning.plan(self.context, self.subject, self.to, settled=True)
            except NotRecorded:
                if time.monotonic() > end:
                    raise
            self.context.sleep(1.0)

    def ledger(self, plan: RestorePlan) -> Mapping[str, Any]:
        data = plan.data if plan.marker is None else plan.marker.data
        return {"snapshot_id": str(data.get("from_snapshot")), "records": data.get("records_before")}

    def ledger_after(self, outcome: Outcome) -> Mapping[str, Any]:
        return {"snapshot_id": str(outcome.data["to_snapshot"]), "records": outcome.data["records_after"]}

    def apply(self, plan: RestorePlan, held: HeldLocks) -> Outcome:
        marker = plan.marker or self._move(plan)
        failpoints.hit("restore-moved")
        return self._settle(marker, held)

    def _move(self, now: RestorePlan) -> Marker:
        """The one commit, on exactly what was read after the writers stopped.

        A commit that another writer made first (a compaction) is no obstacle if the plan on it is the same.
        """
        for _ in range(ATTEMPTS):
            marker = self._marker(now)
            properties = {
                position.key(back.stream): None if back.position is None else back.position.to_json()
                for back in now.backs
            }
            failpoints.hit("restore-before-commit")
            try:
                now.table.move(
                    now.to, {**properties, MARKER: marker.text()}, now.verified,
                    f"{WORD}/{now.table.noun}-{now.to}/{self.context.author}",
                )  # fmt: skip
            except Fenced as error:
                fenced, again = error, self.drained_plan(now)
                if again.key != now.key:
                    raise Fenced(
                        error.what,
                        why=f"{error.why}; the plan is another one now: {'; '.join((again.text, *again.lines))}",
                        next=error.next,
                        code="LW-3530",
                    ) from None
                now = again
            else:
                return marker
        raise fenced

    @staticmethod
    def _marker(now: RestorePlan) -> Marker:
        # People see what they approved; the exact batches are known only now.
        data = {**now.data, "streams": [{**entry, "end": None} for entry in now.data["streams"]]}
        return Marker(
            now.to,
            datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            {
                back.stream: back.generation.checkpoint
                for back in now.backs
                if back.lands_again and back.generation is not None
            },
            data,
        )

    def _settle(self, marker: Marker, held: HeldLocks) -> Outcome:
        """The steps after the commit. Each is idempotent."""
        for stream, old in sorted(marker.checkpoints.items()):
            self._new_checkpoint(stream, old, marker)
            failpoints.hit("restore-one-settled")
        table = planning.open_table(self.context, self.subject)
        detail = (
            f"{self.subject} is at {table.noun} {marker.to} again ({marker.data['records_before']:,} to "
            f"{marker.data['records_after']:,} rows)"
        )
        with self.context.connect() as connection:
            if held.drained:  # a block concerned the rows from before
                streams.set_desired(connection, held.drained, "running")
            known = changes.newest(connection, "table", self.subject)
            if not any(change.change == WORD and (change.detail or {}).get("at") == marker.at for change in known):
                self.record_change(connection, {"at": marker.at, **marker.data})
                events.record(
                    connection, "table", self.subject, WORD, f"{detail} (by {self.context.author})",
                    comment=self.request.comment,
                )  # fmt: skip
        table.forget(marker.text())
        return self.done(detail, marker.data)

    def _new_checkpoint(self, stream: str, old: str, marker: Marker) -> None:
        with self.context.connect() as connection:
            row = streams.get(connection, stream)
            generation = generations.get(connection, stream, row.generation)
            if generation is None or generation.checkpoint != old:
                return  # it already has a new one
            folder = next_checkpoint(old, stream)
            number = accept_again(connection, generation, folder, self.context.author)
            before = {"checkpoint": old, "generation": generation.generation}
            after = {"checkpoint": folder, "generation": number, "table": self.subject, "snapshot": str(marker.to)}
            self.record_change(connection, {"before": before, "after": after}, of=("stream", stream))
