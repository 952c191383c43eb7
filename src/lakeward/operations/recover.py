"""recover: a new checkpoint, beginning where the table's position ends.

For a checkpoint that is gone, damaged, an older copy or another query's. Right only where the position alone says
where to go on: sources whose offsets stand by themselves (Kafka) or whose log is copied beside the table (files), and
transforms that keep no state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.operations import sink_position
from lakeward.operations.generation import again, next_checkpoint
from lakeward.operations.operation import Held
from lakeward.operations.request import Outcome, Plan, StreamOperation
from lakeward.operations.stream import OnStream, spec_of, want
from lakeward.platform.errors import Refused
from lakeward.registry import streams


@dataclass(frozen=True)
class RecoverPlan(Plan):
    """The position goes on from `end` under a new checkpoint."""

    seq: int = 0
    end: dict[str, str] = field(default_factory=dict)
    checkpoint: str = ""


class Recover(OnStream[RecoverPlan]):
    """Of a stream that does not run."""

    name = StreamOperation.RECOVER.value

    def plan(self) -> RecoverPlan:
        row = self.row()
        if row.desired == "running" and row.blocked is None:
            raise Refused(
                f"Stream {row.id} is not recovered while it is to run",
                why=f"it is {row.state}: {row.why}",
                next=f"lakeward streams stop {row.id} --wait",
                code="LW-2045",
            )
        kept = self.generation(row.generation)
        found = sink_position.of(self.context, spec_of(kept), sink_position.RECOVER)
        if found.position is None:
            raise Refused(
                f"Stream {row.id} has nothing to recover",
                why=f"{found.name} has no position of it: nothing was landed",
                next=f"lakeward streams start {row.id}",
                code="LW-2046",
            )
        sink_position.check_logs(found, self.context.runtime.lake)
        end = sink_position.with_new_partitions(self.context, found.spec, found.position.end)
        checkpoint = next_checkpoint(kept.checkpoint, row.id)
        where = ", ".join(f"{source} {at}" for source, at in sorted(end.items()))
        return RecoverPlan(
            f"go on after seq {found.position.seq} of {found.name}, at {where}, with checkpoint {checkpoint}",
            (),
            {"seq": found.position.seq, "checkpoint": checkpoint},
            f"{found.raw}",
            found.position.seq + 1,
            end,
            checkpoint,
        )

    def apply(self, plan: RecoverPlan, held: Held) -> Outcome:
        with self.context.connect() as connection:
            row = streams.get(connection, self.stream)
        kept = self.generation(row.generation)
        found = sink_position.of(self.context, spec_of(kept), sink_position.RECOVER)
        if found.position is None or f"{found.raw}" != plan.key:
            raise Refused(
                f"Stream {self.stream} is not recovered: its position moved meanwhile",
                why="a driver nobody knew of landed a batch, or somebody moved it; nothing was changed",
                next=f"lakeward streams recover {self.stream} --dry-run   shows where it goes on now",
                code="LW-2047",
            )
        held.check()
        found.write(found.position.moved("recover", self.context.author, end=plan.end))
        with self.context.connect() as connection:
            number = again(connection, kept, plan.checkpoint, self.context.author)
            want(connection, row, "running")
            self.changed(
                connection,
                {"generation": kept.generation, "checkpoint": kept.checkpoint, "end": found.position.end},
                {"generation": number, "checkpoint": plan.checkpoint, "end": plan.end, "seq": plan.seq},
            )
        done = f"it goes on after seq {plan.seq - 1} of {found.name} with checkpoint {plan.checkpoint}"
        if not self.request.wait:
            self.context.reconcile()
            return self.done(f"{done}; asked to run")
        return self.done(f"{done}; {held.streams[self.stream].started()}")
