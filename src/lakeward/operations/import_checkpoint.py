"""Checkpoint import: continue an existing `toTable` query at the end of its checkpoint. Can be undone.

Spark's sink writes query id and epoch into its snapshots. The position is seeded at the end of the query's newest batch
in the table, if the checkpoint says that this batch is its last one and is finished. Where rows carry their source
position, every record up to that position must be in the table exactly once. The old checkpoint is only read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.connectors.commit_protocol import checkpoint_batch
from lakeward.connectors.commit_protocol.position import Position, Totals, now
from lakeward.connectors.iceberg import audit, position_store
from lakeward.operations import sink_position
from lakeward.operations.operation import HeldLocks
from lakeward.operations.request import Outcome, Plan, StreamOperation
from lakeward.operations.sink_position import IcebergSinkPosition
from lakeward.operations.skip_batch import by_source
from lakeward.operations.stream import OnStream, spec_of
from lakeward.platform.errors import Refused, SpecError, expect_type
from lakeward.registry import changes
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS

WAP = "write.wap.enabled"
_QUERY, _EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"
_ATTEMPT = "import/"


@dataclass(frozen=True)
class ImportPlan(Plan):
    """`moved` is the position to seed; None undoes an import."""

    moved: Position | None = field(default=None)


class Import(OnStream[ImportPlan]):
    """Refuses everything that is doubtful. Reports what was proved and what could not be proved."""

    name = StreamOperation.IMPORT.value

    def plan(self) -> ImportPlan:
        row = self.row()
        if row.desired == "running":
            raise Refused(
                f"Stop stream {row.id} before importing a checkpoint",
                why=f"the stream is {row.state}: {row.why}",
                next=f"lakeward streams stop {row.id} --wait",
                code="LW-2025",
            )
        found = sink_position.in_lake(self.context, spec_of(self.generation(row.generation)), "import")
        return self._undo_plan(found) if self.request.undo else self._seed_plan(found)

    def apply(self, plan: ImportPlan, held: HeldLocks) -> Outcome:
        with self.context.connect() as connection:
            kept = self.row().generation
            newest = changes.newest(connection, "stream", self.stream)
        found = sink_position.in_lake(self.context, spec_of(self.generation(kept)), "import")
        if plan.moved is None:
            self._undo_plan(found)  # again: a batch may have landed since the plan
            made = next((item for item in newest if item.change == "import"), None)
            before = expect_type(made.detail.get("before", {}) if made else {}, dict, "before of an import")
            wap = before.get(WAP)
            position_store.remove_position(found.lake, found.name, self.stream, str(found.raw), {WAP: wap})
            with self.context.connect() as connection:
                self.changed(connection, {"end": found.position.end if found.position else None}, {"end": None})
            return self.done(f"the import is undone; {found.name} has no position of it and is as it was")
        if found.raw is not None:
            raise self._refused(f"{found.name} has a position of the stream since the plan was made")
        wap = found.table.properties.get(WAP)
        with found.table.transaction() as change:
            change.set_properties({WAP: "true"})
        ids = sink_position.topic_ids(self.context, found.spec)
        moved = found.write(plan.moved.model_copy(update={"topic_ids": ids}))
        with self.context.connect() as connection:
            self.changed(connection, {"end": None, WAP: wap}, {"end": moved.end, "seq": moved.seq})
        return self.done(
            f"the position is seq {moved.seq} of {found.name}; the next start goes on there with a new checkpoint"
        )

    def _undo_plan(self, found: IcebergSinkPosition) -> ImportPlan:
        if found.position is None or not found.position.attempt.startswith(_ATTEMPT):
            raise Refused(
                f"Stream {self.stream} has no import to undo",
                why="its position was moved or batches have landed since the import"
                if found.position
                else f"{found.name} has no position of the stream",
                next=f"lakeward streams status {self.stream}",
                code="LW-2026",
            )
        return ImportPlan(f"take the import back: {found.name} loses its position, its rows stay")

    def _seed_plan(self, found: IcebergSinkPosition) -> ImportPlan:
        folder = self.request.folder
        if not folder:
            raise SpecError(
                "Missing option --checkpoint",
                why=f"it names the checkpoint folder of the query that stream {self.stream} continues",
                next=f"lakeward streams import {self.stream} --checkpoint FOLDER --dry-run",
                code="LW-2027",
            )
        if found.position is not None:
            raise self._refused(f"{found.name} already has a position of the stream (seq {found.position.seq})")
        query = checkpoint_batch.read(self.context.runtime, folder, 0).query_id
        if not query:
            raise self._refused(f"{folder}/metadata is absent or holds no query id")
        batch = self._newest_batch(found, query)
        files = checkpoint_batch.read(self.context.runtime, folder, batch)
        if files.ends is None or not files.finished:
            raise self._refused(f"batch {batch} is in {found.name}, but {folder} does not call it finished")
        if files.followed:
            raise self._refused(f"{folder}/offsets/{batch + 1} exists: a later batch was begun and may have landed")
        first = checkpoint_batch.first(self.context.runtime, folder, len(files.ends))
        moved = Position(
            seq=1,
            query_id="",
            batch=-1,
            end=by_source(found.spec, files.ends),
            begin={} if first is None else by_source(found.spec, first),
            attempt=f"{_ATTEMPT}{query}/{batch}",
            at=now(),
        )
        moved, proof = self._verified(found, moved)
        lines = (
            f"proved: batch {batch} is the newest of query {query} in {found.name}, and its checkpoint's last",
            proof,
            "not proved: that the old query is stopped for good; if it runs again, its records land twice",
        )
        return ImportPlan(
            f"seed the position of {found.name} after batch {batch} of query {query}",
            lines,
            {"query_id": query, "batch": batch, "end": moved.end, "equality": proof},
            str(moved.end),
            moved,
        )

    def _verified(self, found: IcebergSinkPosition, moved: Position) -> tuple[Position, str]:
        """The position with its totals, and whether every record is in the table exactly once."""
        columns = {column.name for column in found.table.schema().fields}
        if not moved.begin:
            return moved, "not proved: that every record is in the table once; where the query began is not known"
        if not set(IDENTITY_COLUMNS["kafka"]) <= columns:
            return moved, "not proved: that every record is in the table once; it has no position columns"
        counted = audit.audit(found.table, self.stream, moved)
        if counted.missing or counted.duplicates or counted.beyond:
            raise self._refused(
                f"of {counted.consumed:,} records {counted.missing:,} are missing, {counted.duplicates:,} are there "
                f"twice and {counted.beyond:,} lie beyond the checkpoint"
            )
        totals = Totals(consumed=counted.consumed, landed=counted.landed)
        proof = f"proved: all {counted.consumed:,} records since the query began are in the table, each once"
        return moved.model_copy(update={"totals": totals}), proof

    def _newest_batch(self, found: IcebergSinkPosition, query: str) -> int:
        epochs = [
            int(snapshot.summary[_EPOCH] or -1)
            for snapshot in found.table.snapshots()
            if snapshot.summary is not None and snapshot.summary.get(_QUERY) == query and snapshot.summary.get(_EPOCH)
        ]
        if not epochs:
            raise self._refused(
                f"no snapshot of {found.name} is of query {query}: it wrote elsewhere, or they have expired"
            )
        return max(epochs)

    def _refused(self, why: str) -> Refused:
        return Refused(
            f"Cannot import a checkpoint into stream {self.stream}; nothing was changed",
            why=why,
            next="stop the old query between two batches and repeat the command, or give the stream a table of its own",
            code="LW-2024",
        )
