"""reset: move a stream to other offsets of its source. Skipped and repeated records are counted before."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from pyiceberg.exceptions import NoSuchTableError

from lakeward.connectors.commit_protocol import audit as counting
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg import audit
from lakeward.connectors.kafka import position as kafka_position
from lakeward.operations import reset_target, sink_position
from lakeward.operations.generation import accept_again, next_checkpoint
from lakeward.operations.operation import HeldLocks
from lakeward.operations.request import Outcome, Plan, StreamOperation
from lakeward.operations.sink_position import SinkPosition
from lakeward.operations.skip_batch import without_record
from lakeward.operations.stream import OnStream, spec_of
from lakeward.platform.errors import Refused, SpecError
from lakeward.platform.text import count
from lakeward.registry.generations import Generation
from lakeward.spec.sql.names import name_parts

Place = tuple[str, int]
"""(topic, partition)"""


@dataclass(frozen=True)
class ResetPlan(Plan):
    """Moves the position to `end`, by source.

    Attributes:
        duplicates: rows of the table that would land a second time.
        unfiltered: records that the transform had dropped and that will be read again.
        skipped: records that are skipped.
        sink: the position that moves, as it was when the plan was made.
    """

    end: dict[str, str] = field(default_factory=dict)
    duplicates: int = 0
    unfiltered: int = 0
    skipped: int = 0
    sink: SinkPosition = field(kw_only=True, repr=False)


class Reset(OnStream[ResetPlan]):
    """Drains the stream, moves its position by compare-and-set, and starts it with a new checkpoint."""

    name = StreamOperation.RESET.value
    needs_comment = True
    needs_approval = True

    def plan(self) -> ResetPlan:
        row = self.row()
        if not self.request.to:
            raise SpecError(
                "Missing option --to",
                why=f"it names where stream {row.id} continues",
                next=f"lakeward streams reset {row.id} --to earliest|latest|available|TIME|FILE --dry-run",
                code="LW-2051",
            )
        plan = self._plan(sink_position.of(self.context, spec_of(self.generation(row.generation)), "reset"))
        if plan.duplicates and not self.request.dry_run:
            if row.desired == "running" and row.blocked is None:
                raise Refused(
                    f"Stop stream {row.id} before accepting duplicate rows",
                    why=f"{count(plan.duplicates, 'row')} would land a second time now; the number is final only when "
                    "the stream is stopped",
                    next=f"lakeward streams stop {row.id} --wait",
                    code="LW-2052",
                )
            self._check_accepted(plan)
        return plan

    def drained_plan(self, plan: ResetPlan) -> ResetPlan:
        """The plan with exact counts: no batch lands any more."""
        generation = self.generation(self.row().generation)
        now = self._plan(sink_position.of(self.context, spec_of(generation), "reset"))
        self._check_accepted(now)
        return now

    def apply(self, plan: ResetPlan, held: HeldLocks) -> Outcome:
        generation, sink = self.generation(self.row().generation), plan.sink
        held.check()
        moved = sink.write(self._new_position(sink, plan, generation))
        checkpoint = next_checkpoint(generation.checkpoint, self.stream)
        with self.context.connect() as connection:
            number = accept_again(connection, generation, checkpoint, self.context.author)
            before = sink.position
            self.changed(
                connection,
                {
                    "end": before.end if before else None,
                    "seq": before.seq if before else 0,
                    "checkpoint": generation.checkpoint,
                    "generation": generation.generation,
                },
                {"end": moved.end, "seq": moved.seq, "checkpoint": checkpoint, "generation": number},
            )
        moves = f" ({'; '.join(plan.lines)})" if plan.lines else ""
        detail = f"the position is seq {moved.seq}{moves}, with checkpoint {checkpoint}"
        return self.done(detail, plan.data)

    def _plan(self, sink: SinkPosition) -> ResetPlan:
        sink_position.check_topics(self.context, sink, "reset")
        spec, at = sink.spec, sink.position
        now = sink_position.with_new_partitions(self.context, spec, at.end) if at is not None else {}
        approval = self.request.approval
        # The approved offsets count, also if `latest` has moved since.
        end = (
            json.loads(approval.key)
            if approval
            else reset_target.target_offsets(self.context, spec, str(self.request.to), now)
        )
        here, there = _places(now), _places(end)
        forward = sink_position.records_between(self.context, spec, now, end)
        back = sink_position.records_between(self.context, spec, end, now)
        lines = []
        skips = rereads = 0
        for place in sorted(there):
            before, after = here.get(place), there[place]
            if before is None or before == after:
                continue
            name = f"{place[0]}/{place[1]}"
            if after > before:
                number = forward.get(place, after - before)
                skips += number
                holes = without_record(after - before - number)
                lines.append(f"{name}: {count(number, 'record')} skipped ({before} to {after - 1}{holes})")
            else:
                number = back.get(place, before - after)
                rereads += number
                holes = without_record(before - after - number)
                lines.append(f"{name}: {count(number, 'record')} read again ({after} to {before - 1}{holes})")
        doubled, unfiltered = self._duplicates(sink, there, here, rereads)
        if doubled:
            lines.append(f"{count(doubled, 'row')} of {sink.name} would land a second time")
        if at is None:
            lines.append(f"{sink.name} has no position of the stream yet: the stream begins at these offsets")
        stays = "" if lines else " (the position is there already)"
        return ResetPlan(
            f"go on from {self.request.to}{stays}: {skips:,} records skipped, {rereads:,} read again",
            tuple(lines),
            {"skipped": skips, "read_again": rereads, "duplicates": doubled, "to": end},
            json.dumps(end, sort_keys=True),
            end,
            doubled,
            unfiltered,
            skips,
            sink=sink,
            drains=(self.stream,),
        )

    def _duplicates(
        self, sink: SinkPosition, there: dict[Place, int], here: dict[Place, int], rereads: int
    ) -> tuple[int, int]:
        """Rows that would land twice, and filtered records among those that are read again."""
        if not rereads or sink.position is None:
            return 0, 0
        landed = counting.rows_between(sink.rows, there, here)
        rows, records = (sum(counts[index] for counts in landed.values()) for index in (0, 1))
        filtered = sink.position.totals.filtered
        if not filtered or sink.spec.quarantine is None:
            return rows, min(filtered, rereads - records)
        try:
            quarantine_table = sink_position.lake_of(self.context.runtime).load_table(
                name_parts(sink.spec.quarantine.table)
            )
        except NoSuchTableError:
            return rows, min(filtered, rereads - records)
        quarantined_rows = sum(
            counts[1] for counts in audit.quarantined_between(quarantine_table, there, here).values()
        )
        return rows, max(0, min(filtered, rereads - records - quarantined_rows))

    def _check_accepted(self, plan: ResetPlan) -> None:
        """Check the accepted number of duplicate rows.

        Raises:
            Refused: the accepted number is not the number of the plan.
        """
        if plan.duplicates == self.request.duplicates:
            return
        raise Refused(
            f"A reset of stream {self.stream} to {self.request.to} would land {count(plan.duplicates, 'row')} a second "
            "time",
            why=f"the sink only appends; --accept-duplicates is {self.request.duplicates:,}",
            next=f"delete these rows first, or accept them: --accept-duplicates {plan.duplicates}",
            code="LW-2050",
        )

    def _new_position(self, sink: SinkPosition, plan: ResetPlan, generation: Generation) -> Position:
        ids = sink_position.topic_ids(self.context, sink.spec)
        before = sink.position
        if before is None:
            return Position.before_first(generation.generation, plan.end).moved(
                "reset", self.context.author, topic_ids=ids
            )
        from_ = before.model_copy(
            update={"end": sink_position.with_new_partitions(self.context, sink.spec, before.end)}
        )
        skips, offsets = sink_position.skipped(from_, plan.end)
        only_appended = skips[: len(before.skips)] == before.skips
        # Offsets are not records; where an earlier skip is partly read again, its offsets are what is known.
        number = (
            before.totals.skipped + plan.skipped
            if only_appended
            else min(offsets, before.totals.skipped + plan.skipped)
        )
        totals = before.totals.model_copy(
            update={
                "skipped": number,
                "filtered": before.totals.filtered - plan.unfiltered,
                "consumed": before.totals.consumed - plan.unfiltered,
            }
        )
        return before.moved(
            "reset",
            self.context.author,
            end=plan.end,
            begin=_begin(before, from_, plan.end),
            skips=skips,
            topic_ids=ids,
            totals=totals,
        )


def _begin(before: Position, known: Position, end: dict[str, str]) -> dict[str, str]:
    """Where the stream's records begin after the reset: earlier than before where the reset goes further back."""
    first, landed, there = _places(before.begin), _places(before.end), _places(known.end)
    begin: dict[str, str] = {}
    for source, text in end.items():
        parts = {
            (topic, part): min(at, first.get((topic, part), there.get((topic, part), at)))
            for topic, parts in kafka_position.parse(text).items()
            for part, at in parts.items()
            if (topic, part) in first
            or (topic, part) not in landed  # else the partition appeared later and began at its first record
        }
        offsets: dict[str, dict[int, int]] = {}
        for (topic, part), at in parts.items():
            offsets.setdefault(topic, {})[part] = at
        begin[source] = sink_position.canonical(offsets)
    return begin


def _places(ends: dict[str, str]) -> dict[Place, int]:
    return {
        (topic, part): at
        for text in ends.values()
        for topic, parts in kafka_position.parse(text).items()
        for part, at in parts.items()
    }
