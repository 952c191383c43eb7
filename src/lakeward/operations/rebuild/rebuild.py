"""rebuild operation: fill a new table, stop the stream, land the rest, verify, swap, start. Resumes after a kill.

The order makes a kill harmless. Until the swap the stream's own table has its position, and the stream may continue at
any time. The new generation is accepted just before the swap, so the old transform never lands in the new table; a kill
between the two amounts to an upgrade. The swap is one transaction. The new table's position is written before it and
continues at exactly the next batch of the running checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog
from pyiceberg.exceptions import NoSuchTableError

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg import rename
from lakeward.connectors.iceberg.rename import Moved
from lakeward.operations import sink_position
from lakeward.operations.context import Context
from lakeward.operations.generation import accept_again
from lakeward.operations.operation import HeldLocks, Lock, Operation
from lakeward.operations.rebuild import names
from lakeward.operations.rebuild import plan as planning
from lakeward.operations.rebuild.fill import Fill
from lakeward.operations.rebuild.missing_rows import MissingRows, missing_rows
from lakeward.operations.rebuild.names import HandOver
from lakeward.operations.rebuild.plan import Options, RebuildPlan, between
from lakeward.operations.rebuild.verification import Proof, contiguous, prove
from lakeward.operations.request import Outcome, Request
from lakeward.operations.stream import spec_of
from lakeward.platform.errors import DependencyDown, Refused, Transient, expect
from lakeward.registry import changes, generations, streams
from lakeward.spec.sql.catalogs import prefix_in
from lakeward.spec.sql.names import name_parts
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

log = structlog.get_logger(__name__)

WORD = "rebuild"
SMALL = 1000
"""Records that may remain when the stream is stopped; one batch of the stream if that is more."""
_TRIES = 3


class Rebuild(Operation[RebuildPlan]):
    """Rebuilds one stream's table. The stream is locked only for the last records and the swap.

    Args:
        spark: opens the Spark part for a plan.
    """

    name = WORD
    lock = Lock.REBUILD
    needs_comment = True

    def __init__(
        self,
        context: Context,
        request: Request,
        options: Options,
        spark: Callable[[RebuildPlan], AbstractContextManager[Fill]],
    ) -> None:
        super().__init__(context, request)
        self.options = options
        self.spark = spark
        self._work: Fill | None = None

    @property
    def work(self) -> Fill:
        """The Spark part, while the resources are open."""
        if self._work is None:
            raise RuntimeError("a rebuild needs its resources open")
        return self._work

    def plan(self) -> RebuildPlan:
        plan = planning.plan(self.context, self.subject, self.options)
        if plan.swapped is None and not self.request.dry_run:
            self._check_accepted(plan, plan.missing_rows)
        return plan

    def drained_plan(self, plan: RebuildPlan) -> RebuildPlan:
        """The same plan: both tables are verified on exactly the metadata that is swapped."""
        return plan

    @contextmanager
    def resources(self, plan: RebuildPlan) -> Iterator[None]:
        with self.spark(plan) as self._work:
            yield

    def prepare(self, plan: RebuildPlan) -> None:
        if plan.swapped is None:
            self._fill(plan, self.work)
            failpoints.hit("rebuild-filled")

    def apply(self, plan: RebuildPlan, held: HeldLocks) -> Outcome:
        """Land the rest, verify, swap, and settle.

        Raises:
            Refused: more rows would be missing than accepted, or the stream was deployed since.
            Unhealthy: the new table fails verification; nothing was swapped.
        """
        if plan.swapped is None:
            return self._hand_over(plan, self.work, held)
        outcome = self._settle(plan, plan.swapped, self.work, "finished an interrupted rebuild")
        with self.context.connect() as connection:  # the desired state from before the kill
            if streams.get(connection, plan.stream).desired == "running":
                held.drained.append(plan.stream)
                return outcome
        return replace(outcome, detail=f"{outcome.detail}; the stream stays stopped")

    def _fill(self, plan: RebuildPlan, work: Fill) -> None:
        """Fill beside the running stream, in rounds, until few records remain or their number no longer shrinks."""
        if plan.at is None:
            work.begin()
        kafka = plan.spec.source.kafka
        few = max(SMALL, (kafka and kafka.max_offsets_per_trigger) or 0)
        end, remaining = plan.end, plan.records
        while True:
            work.fill(end)
            now = planning.position_of(self._load(plan.table), plan.stream).end[plan.source]
            new_records = between(end, now)
            log.info("rebuild round filled", stream=plan.stream, table=plan.made, upto=end, new_records=new_records)
            if new_records <= few or new_records >= remaining:
                return
            end, remaining = now, new_records

    def _hand_over(self, plan: RebuildPlan, work: Fill, held: HeldLocks) -> Outcome:
        before = plan.running.generation
        accepted: int | None = None
        try:
            for _ in range(_TRIES):
                old, new, proof, over = self._prepare_swap(plan, work, held)
                if accepted is None:
                    accepted = self._accept(plan)
                held.check()
                failpoints.hit("rebuild-before-swap")
                with suppress(Moved):
                    rename.swap(self._lake, old, new, plan.before)
                    break
                log.warning("swap retried, a table changed", stream=plan.stream, table=plan.table, new_table=plan.made)
            else:
                raise Transient(
                    f"Cannot swap the tables of stream {plan.stream}: they kept changing",
                    why=f"{_TRIES} times another writer committed to {plan.table} or {plan.made} before the swap",
                    next=f"stop the other writer, then: lakeward streams rebuild {plan.stream} "
                    '--comment "without other writers"',
                    code="LW-2042",
                )
        except (Exception, KeyboardInterrupt):
            if accepted is not None:
                self._undo_accept(plan, accepted, before)
            raise
        failpoints.hit("rebuild-swapped")
        if held.drained:  # it need not wait for the last steps; a block concerned the old table
            with self.context.connect() as connection:
                streams.set_desired(connection, held.drained, "running")
        return self._settle(plan, over, work, "; ".join(proof.lines), proof)

    def _prepare_swap(self, plan: RebuildPlan, work: Fill, held: HeldLocks) -> tuple[Table, Table, Proof, HandOver]:
        """Both tables ready for the swap, verified on exactly the metadata that is swapped."""
        old = self._load(plan.table)
        live = planning.position_of(old, plan.stream)
        end = live.end[plan.source]
        work.fill(end)
        failpoints.hit("rebuild-landed")
        held.check()
        new = self._load(plan.made)
        at = position.parse(new.properties[position.key(plan.fill)], plan.fill, plan.made)
        contiguous(plan.stream, plan.made, plan.source, at, live, prefix_in(self.context.runtime.lake, plan.made))
        proof = prove(
            plan.stream, old, new, plan.fill, at, plan.source, self._quarantine(plan), rows=plan.spec.lineage == "rows"
        )
        missing = missing_rows(old, live.begin.get(plan.source, position.NO_DATA), plan.start, end)
        self._check_accepted(plan, missing)
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        over = HandOver(
            number=plan.number,
            before=plan.before,
            fill=plan.fill,
            generation=plan.target.generation,
            source=plan.source,
            end=end,
            quarantined=at.totals.quarantined,
            at=now,
            told={
                "table": plan.table, "before": plan.before, "from": plan.start, "to": end,
                "generation": plan.target.generation, "consumed": at.totals.consumed, "landed": at.totals.landed,
                "quarantined": at.totals.quarantined, "lost": missing.number, "seq": live.seq + 1,
            },
        )  # fmt: skip
        head = new.metadata.current_snapshot_id
        key, filled = position.key(plan.stream), position.key(plan.fill)

        def change(table: Table) -> dict[str, str | None]:
            return {key: _new_position(plan, live, at, table, self.context.author, now).to_json(),
                    names.marker(plan.stream): planning.marker_json(over)}  # fmt: skip

        expected = {filled: new.properties[filled], key: new.properties.get(key)}
        new = rename.amend(self._lake, plan.made, change, expected)
        if new.metadata.current_snapshot_id != head:
            return self._prepare_swap(plan, work, held)  # another writer committed rows: verify them too
        return old, new, proof, over

    def _settle(
        self, plan: RebuildPlan, over: HandOver, work: Fill, how: str, proof: Proof | None = None
    ) -> Outcome:  # fmt: skip
        """The steps after the swap. Each is idempotent."""
        work.settle(f"{plan.stream}@before-{over.number}", over.end, over.at, rows=over.quarantined > 0)
        failpoints.hit("rebuild-relabelled")
        self._retire(plan.stream, over)
        with self.context.connect() as connection:
            known = changes.newest(connection, "stream", plan.stream)
            if not any(change.change == WORD and (change.detail or {}).get("at") == over.at for change in known):
                self.record_change(connection, {"at": over.at, **over.told})
        rename.amend(
            self._lake,
            plan.table,
            lambda table: {names.marker(plan.stream): None, position.key(over.fill): None},
            {},
        )
        detail = f"{plan.table} is rebuilt by generation {over.generation}; the old table is {over.before}; {how}"
        data = {**plan.data, "to": over.end, "generation": over.generation, "seq": over.told.get("seq")}
        if proof is not None:
            data.update(proof.data)
        return self.done(detail, data, plan.notes)

    def _retire(self, stream: str, over: HandOver) -> None:
        """Store the old table's position under a name that drivers do not read."""
        key = position.key(stream)
        try:
            raw = self._lake.load_table(name_parts(over.before)).properties.get(key)
            if raw is not None:
                rename.amend(self._lake, over.before, lambda _: {names.retired(stream): raw, key: None}, {key: raw})
        except NoSuchTableError:
            log.warning("old table is missing", table=over.before)

    def _accept(self, plan: RebuildPlan) -> int:
        """Accept the new generation before its table gets the live name."""
        running, chosen = plan.running, plan.target
        with self.context.connect() as connection:
            row = streams.get(connection, plan.stream)
            if (row.generation, row.pending_generation or row.generation) != (running.generation, chosen.generation):
                raise Refused(
                    f"Cannot swap the tables of stream {plan.stream}: it was deployed since the plan was made",
                    why=f"generation {row.pending_generation or row.generation} is the newest now, but "
                    f"{plan.made} has rows of generation {chosen.generation}",
                    next=f"lakeward streams rebuild {plan.stream} --dry-run",
                    code="LW-2043",
                )
            if chosen.generation == running.generation:
                return running.generation
            if chosen.checkpoint != running.checkpoint:
                return accept_again(connection, chosen, running.checkpoint, self.context.author)
            streams.accept(connection, plan.stream, generation=chosen.generation, driver=spec_of(chosen).driver)
        return chosen.generation

    def _undo_accept(self, plan: RebuildPlan, accepted: int, before: int) -> None:
        """Undo the acceptance if the swap failed: the old generation continues, the new one is pending again."""
        if accepted == before:
            return
        with suppress(DependencyDown), self.context.connect() as connection:
            if generations.restore(connection, plan.stream, before, before=accepted):
                streams.set_pending(connection, plan.stream, accepted)

    def _check_accepted(self, plan: RebuildPlan, missing: MissingRows) -> None:
        """Check the accepted number of missing rows.

        Raises:
            Refused: the accepted number differs.
        """
        if missing.number == self.options.accept_lost:
            return
        raise Refused(
            f"{missing.words} of {plan.table} would be missing in the rebuilt table",
            why="\n        ".join((*missing.lines, f"--accept-lost is {self.options.accept_lost:,}")),
            next=f"accept this (the rows stay in {plan.before}): --accept-lost {missing.number}",
            code="LW-2041",
        )

    def _load(self, table: str) -> Table:
        return planning.loaded(self._lake, self.subject, table)

    @property
    def _lake(self) -> Catalog:
        return sink_position.lake_of(self.context.runtime)

    def _quarantine(self, plan: RebuildPlan) -> Table | None:
        if plan.spec.quarantine is None:
            return None
        with suppress(NoSuchTableError):
            return self._lake.load_table(name_parts(plan.spec.quarantine.table))
        return None


def _new_position(plan: RebuildPlan, live: Position, at: Position, table: Table, author: str, now: str) -> Position:
    """The stream's position in the new table: totals of the fill, end offsets of the stream."""
    head = table.current_snapshot()
    sink = expect(plan.spec.sink.iceberg, "a sink `iceberg`")
    return live.model_copy(
        update={
            "seq": live.seq + 1,
            "generation": plan.target.generation,
            "begin": dict(at.begin),
            "skips": (),
            "topic_ids": {**live.topic_ids, **at.topic_ids},
            "snapshot": None if head is None else head.snapshot_id,
            "snapshot_seq": 0 if head is None else head.sequence_number or 0,
            "totals": at.totals,
            "attempt": f"{WORD}/{live.seq + 1}/{author}",
            "added": {},
            "mode": sink.mode,
            "at": now,
        }
    )
