"""rebuild: fill, stop, land the rest, prove, swap, start again. Run again after a kill, it goes on where it came to.

The order is what makes a kill harmless. Until the swap the stream's own table has its position and the stream may run
on at any time. The new generation is accepted just before the swap, so no old transform ever lands in the new table; a
kill between the two is an upgrade. The swap is one transaction, and the new table's position, written before it, goes
on at exactly the batch the running checkpoint has next.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import structlog
from pyiceberg.exceptions import NoSuchTableError

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg import rename
from lakeward.connectors.iceberg.rename import Moved
from lakeward.operations import operation_lock, sink_position
from lakeward.operations.context import Site
from lakeward.operations.generation import again
from lakeward.operations.operation import spec_of
from lakeward.operations.operation_lock import WORD
from lakeward.operations.rebuild import names
from lakeward.operations.rebuild import plan as planning
from lakeward.operations.rebuild.missing_rows import lost
from lakeward.operations.rebuild.names import HandOver
from lakeward.operations.rebuild.plan import Ask, RebuildPlan, between
from lakeward.operations.rebuild.verification import Proof, contiguous, prove
from lakeward.operations.waiting import Waiting
from lakeward.platform.errors import DependencyDown, Refused, Transient, expect
from lakeward.registry import changes, generations, streams
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

log = structlog.get_logger(__name__)

SMALL = 1000
"""So few records are left for when the stream is stopped, or one batch of its own if that is more."""
_TRIES = 3


class Work(Protocol):
    """What needs Spark; see `lakeward.operations.rebuild.fill`."""

    def begin(self) -> None:
        """Before the first batch of a new table."""

    def fill(self, end: str) -> None:
        """Land up to `end`."""

    def settle(self, before: str, end: str, at: str, *, rows: bool) -> None:
        """Give the fill's rows in quarantine to the stream."""


@dataclass(frozen=True)
class Rebuilt:
    """How it ended."""

    plan: RebuildPlan
    detail: str
    data: dict[str, Any] = field(default_factory=dict)
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rebuild:
    """One rebuild of one stream.

    Attributes:
        spark: makes what needs Spark, for a plan.
        kill: end the driver's process when the stream does not stop in time.
    """

    site: Site
    ask: Ask
    spark: Callable[[RebuildPlan], AbstractContextManager[Work]]
    kill: bool = False

    def run(self) -> Rebuilt:
        """Do it.

        Raises:
            Refused: it cannot be done, or would lose rows that nobody accepted.
            Unhealthy: the new table is not what it should be; nothing was swapped.
            LakewardError: it was tried and did not succeed; the stream goes on as before, and so can this.
        """
        with operation_lock.alone(self.site, self.ask.stream):
            plan = planning.plan(self.site, self.ask)
            if plan.swapped is None:
                self._accepted(plan)
            with self.spark(plan) as work:
                if plan.swapped is None:
                    self._fill(plan, work)
                    failpoints.hit("rebuild-filled")
                with operation_lock.operating(self.site, self.ask.stream, self.ask.comment) as waiting:
                    if plan.swapped is None:
                        return self._hand_over(plan, work, waiting)
                    again = self._running_on(plan.stream)
                    return self._settle(plan, plan.swapped, work, "finished what an earlier run began", started=again)

    def _fill(self, plan: RebuildPlan, work: Work) -> None:
        """Beside the running stream, in rounds, until what is left is small or gets no smaller."""
        if plan.at is None:
            work.begin()
        kafka = plan.spec.source.kafka
        small = max(SMALL, (kafka and kafka.max_offsets_per_trigger) or 0)
        end, left = plan.end, plan.records
        while True:
            work.fill(end)
            now = planning.position_of(self._load(plan.table), plan.stream).end[plan.source]
            come = between(end, now)
            log.info(f"Stream {plan.stream}: {plan.made} is filled up to {end}; {come:,} records came meanwhile")
            if come <= small or come >= left:
                return
            end, left = now, come

    def _hand_over(self, plan: RebuildPlan, work: Work, waiting: Waiting) -> Rebuilt:
        """Stop the stream, land the rest, prove, swap, start."""
        before = plan.kept.generation
        accepted: int | None = None
        with self.site.connect() as connection:
            was = streams.get(connection, plan.stream).desired == "running"
        try:
            waiting.aside(kill=self.kill)
            failpoints.hit("rebuild-stopped")
            for _ in range(_TRIES):
                old, new, proof, over = self._ready(plan, work, waiting)
                if accepted is None:
                    accepted = self._accept(plan)
                waiting.keep()
                failpoints.hit("rebuild-before-swap")
                with suppress(Moved):
                    rename.swap(self._lake, old, new, plan.before)
                    break
                log.warning(f"Stream {plan.stream}: a table changed before the swap; looking at both again")
            else:
                raise Transient(
                    f"Stream {plan.stream} was not swapped: its tables kept changing",
                    why=f"{_TRIES} times somebody committed to {plan.table} or {plan.made} in between",
                    next=f"look for other writers, then: lakeward streams rebuild {plan.stream}",
                )
        except (Exception, KeyboardInterrupt):
            if accepted is not None:
                self._take_back(plan, accepted, before)
            if was:
                waiting.as_before()
            raise
        failpoints.hit("rebuild-swapped")
        if was:
            self._run_on(plan.stream)
        return self._settle(plan, over, work, "; ".join(proof.lines), proof, started=was)

    def _run_on(self, stream: str) -> None:
        """Want it running; whatever blocked it was about the old table."""
        with self.site.connect() as connection:
            streams.set_desired(connection, [stream], "running")

    def _running_on(self, stream: str) -> bool:
        """Whether it is to run, as whoever was killed had found it; then it is not blocked any more."""
        with self.site.connect() as connection:
            wanted = streams.get(connection, stream).desired == "running"
        if wanted:
            self._run_on(stream)
        return wanted

    def _ready(self, plan: RebuildPlan, work: Work, waiting: Waiting) -> tuple[Table, Table, Proof, HandOver]:
        """Both tables as they can be swapped, proved on exactly the metadata that is."""
        old = self._load(plan.table)
        live = planning.position_of(old, plan.stream)
        end = live.end[plan.source]
        work.fill(end)
        failpoints.hit("rebuild-landed")
        waiting.keep()
        new = self._load(plan.made)
        at = position.parse(new.properties[position.key(plan.fill)], plan.fill, plan.made)
        contiguous(plan.stream, plan.made, plan.source, at, live)
        proof = prove(
            plan.stream, old, new, plan.fill, at, plan.source, self._aside(plan), rows=plan.spec.lineage == "rows"
        )
        gone = lost(old, live.begin.get(plan.source, position.NO_DATA), plan.start, end)
        self._accepted(replace(plan, lost=gone))
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
                "quarantined": at.totals.quarantined, "lost": gone.number, "seq": live.seq + 1,
            },
        )  # fmt: skip
        head = new.metadata.current_snapshot_id
        key, filled = position.key(plan.stream), position.key(plan.fill)

        def change(table: Table) -> dict[str, str | None]:
            return {key: _moved(plan, live, at, table, self.site.author, now).to_json(),
                    names.marker(plan.stream): planning.told(over)}  # fmt: skip

        expected = {filled: new.properties[filled], key: new.properties.get(key)}
        new = rename.amend(self._lake, plan.made, change, expected)
        if new.metadata.current_snapshot_id != head:
            return self._ready(plan, work, waiting)  # somebody committed rows: they are proved too
        return old, new, proof, over

    def _settle(
        self, plan: RebuildPlan, over: HandOver, work: Work, how: str, proof: Proof | None = None, *, started: bool
    ) -> Rebuilt:
        """After the swap. Each step may be done again."""
        work.settle(f"{plan.stream}@before-{over.number}", over.end, over.at, rows=over.quarantined > 0)
        failpoints.hit("rebuild-relabelled")
        self._retire(plan.stream, over)
        with self.site.connect() as connection:
            known = changes.newest(connection, "stream", plan.stream)
            if not any(each["change"] == WORD and (each["detail"] or {}).get("at") == over.at for each in known):
                changes.record(
                    connection, "stream", plan.stream, WORD, author=self.site.author, comment=self.ask.comment,
                    at=over.at, **over.told,
                )  # fmt: skip
        rename.amend(
            self._lake,
            plan.table,
            lambda table: {names.marker(plan.stream): None, position.key(over.fill): None},
            {},
        )
        detail = f"{plan.table} is rebuilt by generation {over.generation}; the old table is {over.before}; {how}"
        lines = proof.lines if proof is not None else ()
        data = plan.data | {"to": over.end, "generation": over.generation, "seq": over.told.get("seq")}
        data |= proof.data if proof is not None else {}
        if not started:
            return Rebuilt(plan, f"{detail}; the stream stays stopped, its next start goes on there", data, lines)
        self.site.reconcile()
        return Rebuilt(plan, f"{detail}; asked to run again", data, lines)

    def _retire(self, stream: str, over: HandOver) -> None:
        """The old table keeps its position under a name no driver reads."""
        key = position.key(stream)
        try:
            raw = self._lake.load_table(over.before).properties.get(key)
            if raw is not None:
                rename.amend(self._lake, over.before, lambda _: {names.retired(stream): raw, key: None}, {key: raw})
        except NoSuchTableError:
            log.warning(f"{over.before} is gone already")

    def _accept(self, plan: RebuildPlan) -> int:
        """Make the new generation the one to run, before its table has the name."""
        kept, chosen = plan.kept, plan.target
        with self.site.connect() as connection:
            row = streams.get(connection, plan.stream)
            if (row.generation, row.pending_generation or row.generation) != (kept.generation, chosen.generation):
                raise Refused(
                    f"Stream {plan.stream} was deployed anew meanwhile; nothing was swapped",
                    why=f"generation {row.pending_generation or row.generation} is the newest now, "
                    f"{plan.made} has rows of {chosen.generation}",
                    next=f"lakeward streams rebuild {plan.stream} --dry-run",
                )
            if chosen.generation == kept.generation:
                return kept.generation
            if chosen.checkpoint != kept.checkpoint:
                return again(connection, chosen, kept.checkpoint, self.site.author)
            streams.accept(connection, plan.stream, generation=chosen.generation, driver=spec_of(chosen).driver)
        return chosen.generation

    def _take_back(self, plan: RebuildPlan, accepted: int, before: int) -> None:
        """It was not swapped: the old generation goes on, and the new one waits as before."""
        if accepted == before:
            return
        with suppress(DependencyDown), self.site.connect() as connection:
            if generations.restore(connection, plan.stream, before, before=accepted):
                streams.set_pending(connection, plan.stream, accepted)

    def _accepted(self, plan: RebuildPlan) -> None:
        """Whether rows may be missing in the new table: only as many as were named.

        Raises:
            Refused: another number was named, or none.
        """
        if plan.lost.number == self.ask.accept_lost:
            return
        raise Refused(
            f"{plan.lost.words} of {plan.table} would not be in the rebuilt table",
            why="\n        ".join((*plan.lost.lines, f"accepted were {self.ask.accept_lost:,}")),
            next=f"accept that (they stay in {plan.before}): --accept-lost {plan.lost.number}",
        )

    def _load(self, table: str) -> Table:
        return planning.loaded(self._lake, self.ask.stream, table)

    @property
    def _lake(self) -> Catalog:
        return sink_position.lake_of(self.site.runtime)

    def _aside(self, plan: RebuildPlan) -> Table | None:
        if plan.spec.quarantine is None:
            return None
        with suppress(NoSuchTableError):
            return self._lake.load_table(str(plan.spec.quarantine.table))
        return None


def _moved(plan: RebuildPlan, live: Position, at: Position, table: Table, author: str, now: str) -> Position:
    """The stream's position in the new table: what it landed is the fill's, where it goes on is its own."""
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
