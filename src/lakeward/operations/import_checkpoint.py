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
        sink = sink_position.in_lake(self.context, spec_of(self.generation(row.generation)), "import")
        return self._undo_plan(sink) if self.request.undo else self._seed_plan(sink)

    def apply(self, plan: ImportPlan, held: HeldLocks) -> Outcome:
        with self.context.connect() as connection:
            generation = self.row().generation
            newest = changes.newest(connection, "stream", self.stream)
        sink = sink_position.in_lake(self.context, spec_of(self.generation(generation)), "import")
        if plan.moved is None:
            self._undo_plan(sink)  # again: a batch may have landed since the plan
            made = next((item for item in newest if item.change == "import"), None)
            before = expect_type(made.detail.get("before", {}) if made else {}, dict, "before of an import")
            wap = before.get(WAP)
            position_store.remove_position(sink.lake, sink.name, self.stream, str(sink.raw), {WAP: wap})
            with self.context.connect() as connection:
                self.changed(connection, {"end": sink.position.end if sink.position else None}, {"end": None})
            return self.done(f"the import is undone; {sink.name} has no position of it and is as it was")
        if sink.raw is not None:
            raise self._refused(f"{sink.name} has a position of the stream since the plan was made")
        wap = sink.table.properties.get(WAP)
        with sink.table.transaction() as change:
            change.set_properties({WAP: "true"})
        ids = sink_position.topic_ids(self.context, sink.spec)
        moved = sink.write(plan.moved.model_copy(update={"topic_ids": ids}))
        with self.context.connect() as connection:
            self.changed(connection, {"end": None, WAP: wap}, {"end": moved.end, "seq": moved.seq})
        return self.done(
            f"the position is seq {moved.seq} of {sink.name}; the next start goes on there with a new checkpoint"
        )

    def _undo_plan(self, sink: IcebergSinkPosition) -> ImportPlan:
        if sink.position is None or not sink.position.attempt.startswith(_ATTEMPT):
            raise Refused(
                f"Stream {self.stream} has no import to undo",
                why="its position was moved or batches have landed since the import"
                if sink.position
                else f"{sink.name} has no position of the stream",
                next=f"lakeward streams status {self.stream}",
                code="LW-2026",
            )
        return ImportPlan(f"take the import back: {sink.name} loses its position, its rows stay")

    def _seed_plan(self, sink: IcebergSinkPosition) -> ImportPlan:
        folder = self.request.folder
        if not folder:
            raise SpecError(
                "Missing option --checkpoint",
                why=f"it names the checkpoint folder of the query that stream {self.stream} continues",
                next=f"lakeward streams import {self.stream} --checkpoint FOLDER --dry-run",
                code="LW-2027",
            )
        if sink.position is not None:
            raise self._refused(f"{sink.name} already has a position of the stream (seq {sink.position.seq})")
        query = checkpoint_batch.read(self.context.runtime, folder, 0).query_id
        if not query:
            raise self._refused(f"{folder}/metadata is absent or holds no query id")
        batch = self._newest_batch(sink, query)
        files = checkpoint_batch.read(self.context.runtime, folder, batch)
        if files.ends is None or not files.finished:
            raise self._refused(f"batch {batch} is in {sink.name}, but {folder} does not call it finished")
        if files.followed:
            raise self._refused(f"{folder}/offsets/{batch + 1} exists: a later batch was begun and may have landed")
        first = checkpoint_batch.first(self.context.runtime, folder, len(files.ends))
        moved = Position(
            seq=1,
            query_id="",
            batch=-1,
            end=by_source(sink.spec, files.ends),
            begin={} if first is None else by_source(sink.spec, first),
            attempt=f"{_ATTEMPT}{query}/{batch}",
            at=now(),
        )
        moved, proof = self._verified(sink, moved)
        lines = (
            f"proved: batch {batch} is the newest of query {query} in {sink.name}, and its checkpoint's last",
            proof,
            "not proved: that the old query is stopped for good; if it runs again, its records land twice",
        )
        return ImportPlan(
            f"seed the position of {sink.name} after batch {batch} of query {query}",
            lines,
            {"query_id": query, "batch": batch, "end": moved.end, "equality": proof},
            str(moved.end),
            moved,
        )

    def _verified(self, sink: IcebergSinkPosition, moved: Position) -> tuple[Position, str]:
        """The position with its totals, and whether every record is in the table exactly once."""
        columns = {column.name for column in sink.table.schema().fields}
        if not moved.begin:
            return moved, "not proved: that every record is in the table once; where the query began is not known"
        if not set(IDENTITY_COLUMNS["kafka"]) <= columns:
            return moved, "not proved: that every record is in the table once; it has no position columns"
        counted = audit.audit(sink.table, self.stream, moved)
        if counted.missing or counted.duplicates or counted.beyond:
            raise self._refused(
                f"of {counted.consumed:,} records {counted.missing:,} are missing, {counted.duplicates:,} are there "
                f"twice and {counted.beyond:,} lie beyond the checkpoint"
            )
        totals = Totals(consumed=counted.consumed, landed=counted.landed)
        proof = f"proved: all {counted.consumed:,} records since the query began are in the table, each once"
        return moved.model_copy(update={"totals": totals}), proof

    def _newest_batch(self, sink: IcebergSinkPosition, query: str) -> int:
        epochs = [
            int(snapshot.summary[_EPOCH] or -1)
            for snapshot in sink.table.snapshots()
            if snapshot.summary is not None and snapshot.summary.get(_QUERY) == query and snapshot.summary.get(_EPOCH)
        ]
        if not epochs:
            raise self._refused(
                f"no snapshot of {sink.name} is of query {query}: it wrote elsewhere, or they have expired"
            )
        return max(epochs)

    def _refused(self, why: str) -> Refused:
        return Refused(
            f"Cannot import a checkpoint into stream {self.stream}; nothing was changed",
            why=why,
            next="stop the old query between two batches and repeat the command, or give the stream a table of its own",
            code="LW-2024",
        )
