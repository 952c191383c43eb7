"""recover: give a stream a new checkpoint that begins where the table's position ends.

For a checkpoint that is lost, damaged, an older copy, or of another query. Possible only if the position alone defines
where to continue: the source has stable offsets (Kafka) or a log that is copied beside the table (files), and the
transform keeps no state.

A position that was removed from an Iceberg table, or that cannot be read, is put back from an earlier metadata file
instead; the checkpoint stays, so that is possible for every shape of a stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.connectors.iceberg import put_back
from lakeward.connectors.iceberg.put_back import Earlier
from lakeward.operations import sink_position
from lakeward.operations.generation import accept_again, next_checkpoint
from lakeward.operations.operation import HeldLocks
from lakeward.operations.request import Outcome, Plan, StreamOperation
from lakeward.operations.stream import OnStream, set_desired, spec_of
from lakeward.platform.errors import Refused
from lakeward.registry import streams
from lakeward.registry.streams import Stream
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.decide.remedy import PUT_BACK


@dataclass(frozen=True)
class RecoverPlan(Plan):
    """The new checkpoint begins at `end`. `earlier`: the position that is put back instead, with the old checkpoint."""

    seq: int = 0
    end: dict[str, str] = field(default_factory=dict)
    checkpoint: str = ""
    earlier: Earlier | None = None


class Recover(OnStream[RecoverPlan]):
    """Recovers a stream that is stopped or blocked."""

    name = StreamOperation.RECOVER.value

    def plan(self) -> RecoverPlan:
        row = self.row()
        if row.desired == "running" and row.blocked is None:
            raise Refused(
                f"Stop stream {row.id} before recovering it",
                why=f"the stream is {row.state}: {row.why}",
                next=f"lakeward streams stop {row.id} --wait",
                code="LW-2045",
            )
        generation = self.generation(row.generation)
        spec = spec_of(generation)
        if (row.blocked or {}).get("reason") in PUT_BACK and spec.sink.iceberg is not None:
            table = str(spec.sink.iceberg.table)
            found = put_back.earlier(sink_position.table_of(self.context.runtime, table), table, row.id)
            if found is not None:
                return RecoverPlan(
                    f"put the position of seq {found.position.seq} back into {table}, as {found.file} has it, and "
                    "start with the same checkpoint",
                    (),
                    {"seq": found.position.seq, "metadata_file": found.file},
                    found.raw,
                    found.position.seq + 1,
                    dict(found.position.end),
                    earlier=found,
                )
        sink = sink_position.of(self.context, spec, sink_position.RECOVER)
        if sink.position is None:
            raise Refused(
                f"Stream {row.id} has nothing to recover",
                why=f"{sink.name} has no position of the stream: no batch has landed",
                next=f"lakeward streams start {row.id}",
                code="LW-2046",
            )
        sink_position.check_topics(self.context, sink, sink_position.RECOVER)
        sink_position.check_logs(sink, self.context.runtime.lake)
        end = sink_position.with_new_partitions(self.context, sink.spec, sink.position.end)
        checkpoint = next_checkpoint(generation.checkpoint, row.id)
        where = ", ".join(f"{source} {at}" for source, at in sorted(end.items()))
        return RecoverPlan(
            f"go on after seq {sink.position.seq} of {sink.name}, at {where}, with checkpoint {checkpoint}",
            (),
            {"seq": sink.position.seq, "checkpoint": checkpoint},
            f"{sink.raw}",
            sink.position.seq + 1,
            end,
            checkpoint,
        )

    def apply(self, plan: RecoverPlan, held: HeldLocks) -> Outcome:
        with self.context.connect() as connection:
            row = streams.get(connection, self.stream)
        generation = self.generation(row.generation)
        if plan.earlier is not None:
            done = self._put_back(row, spec_of(generation), plan.earlier)
            return self._started(done, held)
        sink = sink_position.of(self.context, spec_of(generation), sink_position.RECOVER)
        if sink.position is None or f"{sink.raw}" != plan.key:
            raise Refused(
                f"Cannot recover stream {self.stream}; its position moved since the plan was made",
                why="another driver landed a batch, or another operation moved the position; nothing was changed",
                next=f"lakeward streams recover {self.stream} --dry-run   shows the new plan",
                code="LW-2047",
            )
        held.check()
        sink.write(sink.position.moved("recover", self.context.author, end=plan.end))
        with self.context.connect() as connection:
            number = accept_again(connection, generation, plan.checkpoint, self.context.author)
            set_desired(connection, row, "running")
            self.changed(
                connection,
                {"generation": generation.generation, "checkpoint": generation.checkpoint, "end": sink.position.end},
                {"generation": number, "checkpoint": plan.checkpoint, "end": plan.end, "seq": plan.seq},
            )
        return self._started(
            f"it goes on after seq {plan.seq - 1} of {sink.name} with checkpoint {plan.checkpoint}", held
        )

    def _put_back(self, row: Stream, spec: StreamSpec, found: Earlier) -> str:
        """Put the earlier position back, and let the stream run."""
        table = str(spec.sink.table)
        if not put_back.put_back(sink_position.lake_of(self.context.runtime), table, row.id, found):
            raise Refused(
                f"Cannot put the position of stream {row.id} back",
                why=f"{table} has changed since the plan was made, and has other batches than the position counts",
                next=f"lakeward streams recover {row.id} --dry-run   shows the new plan",
                code="LW-2170",
            )
        with self.context.connect() as connection:
            set_desired(connection, row, "running")
            self.changed(connection, {"position": found.present}, {"position": found.raw, "metadata_file": found.file})
        return f"the position of seq {found.position.seq} is back in {table}, as {found.file} has it"

    def _started(self, done: str, held: HeldLocks) -> Outcome:
        if not self.request.wait:
            return self.done(f"{done}; asked to run{self.context.reconcile()}")
        return self.done(f"{done}; {held.streams[self.stream].started()}")
