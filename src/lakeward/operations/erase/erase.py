"""erase: set the writers aside, take the rows out of every file, let go of all snapshots before, and prove it.

Every step finds by itself what is left of it, so a kill needs no cure but the same command. What was counted stands in
a marker on each table from the commit that takes the rows out until all is recorded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lakeward.connectors.commit_protocol import ancestry, erased, position
from lakeward.connectors.commit_protocol.replay import of as replay_of
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.iceberg import quarantine, rename
from lakeward.connectors.iceberg.pyiceberg_table import link_of
from lakeward.connectors.kafka.position import parse as offsets_of
from lakeward.operations import operation_lock, sink_position
from lakeward.operations.context import Site
from lakeward.operations.erase import plan as planning
from lakeward.operations.erase.plan import WORD, ErasePlan, Scope, Target
from lakeward.operations.request import Approval
from lakeward.platform.errors import DependencyDown, LakewardError, Refused, SpecError, Unhealthy
from lakeward.platform.text import count
from lakeward.quality.results import data_docs, incident
from lakeward.registry import changes, events, incidents, maintenance, verifications
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS
from lakeward.tables.erase import files
from lakeward.tables.guard.actor import Actor, actor
from lakeward.tables.maintain import take_over
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

MARKER = "lakeward.erase"
"""Table property: rows erased so far, from the first commit until all is recorded."""
YOUNG = timedelta(hours=72)
"""A file that nothing names and that is younger may be a commit of somebody else's on its way."""


@dataclass(frozen=True)
class Ask:
    """One erase. `comment` is kept with the change: it must name no value."""

    scope: Scope
    comment: str = ""
    approval: Approval | None = None
    kill: bool = False


@dataclass(frozen=True)
class Erased:
    """How it ended. `detail` is a sentence."""

    detail: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Erase:
    """Carries it out."""

    site: Site
    ask: Ask

    def run(self) -> Erased:
        """Do it, or go on with what was begun.

        Raises:
            SpecError: there is no such table, the condition is none, or nobody says why.
            Refused: something keeps the rows, or nobody approved exactly this.
            Unhealthy: a file that nothing names may hold such rows and cannot be taken yet.
            LakewardError: it was tried and did not succeed; the streams go on, and so can this.
        """
        name = self.ask.scope.table
        if not self.ask.comment.strip():
            raise SpecError(
                f"An erase from {name} needs a comment",
                why="whoever reads it later must know on whose order rows went",
                next="say it with --comment TEXT; name no value that is erased",
            )
        with ExitStack() as stack:
            mine = [stack.enter_context(actor(self.site.connect, name, self.site.holder))]
            take_over(self.site.connect, self.site.runtime, name)
            planned = planning.plan(self.site, self.ask.scope)
            self._permit(planned)
            for each in planned.targets[1:]:
                mine.append(stack.enter_context(actor(self.site.connect, each.table, self.site.holder)))
            with self._aside(planned):
                return self._recorded(mine)

    def _permit(self, planned: ErasePlan) -> None:
        """Raises:
        Refused: nobody said yes, or to something else.
        """
        approval, name = self.ask.approval, self.ask.scope.table
        if approval is None:
            raise Refused(
                f"An erase from {name} needs a person's approval: approval missing",
                why=f"it would {planned.text}, for good",
                next="answer the question at a terminal, or in a script: --yes --comment TEXT",
            )
        if approval.key != planned.key:
            raise Refused(
                f"The erase from {name} is not what {approval.by} approved",
                why=f"things have moved; now it would {planned.text}",
                next="the same command with --dry-run   shows it anew",
            )

    @contextmanager
    def _aside(self, planned: ErasePlan) -> Iterator[None]:
        """With no stream landing in the table. Each runs again afterwards, however it ends."""
        approved_by = self.ask.approval.by if self.ask.approval else None
        with ExitStack() as stack:
            turns = {
                stream: stack.enter_context(
                    operation_lock.operating(
                        self.site, stream, self.ask.comment, WORD, f"{planned.table}: erased", approved_by
                    )
                )
                for stream in planned.writers
            }
            stopped: list[str] = []
            try:
                for stream, waiting in turns.items():
                    if waiting.aside(kill=self.ask.kill):
                        stopped.append(stream)
                failpoints.hit("erase-stopped")
                yield
            finally:
                for stream in stopped:
                    with suppress(DependencyDown):  # else it counts as abandoned, and is started by the next to come
                        turns[stream].as_before()
        if stopped:
            self.site.reconcile()

    def _recorded(self, mine: list[Actor]) -> Erased:
        """Every step, with its row in the table's ledger."""
        name, begun = self.ask.scope.table, time.monotonic()
        planned = planning.plan(self.site, self.ask.scope)  # what landed until the streams stood still is in it
        self._permit(planned)
        before = {"records": planned.data["rows"], "files": planned.data["files"]}
        with self.site.connect() as connection:
            action = maintenance.begin_action(
                connection, plan=uuid4().hex, table=name, action=WORD, session_id=None, before=before
            )
        try:
            done = self._erase(planned, mine)
        except (Exception, KeyboardInterrupt) as error:
            why = error.what if isinstance(error, LakewardError) else type(error).__name__  # never what it quotes
            self._end(action, begun, result="failed", verified=False, why=why)
            raise
        self._end(action, begun, result="done", verified=True, why=self.ask.comment, after=dict(done.data))
        return done

    def _end(self, action: int, begun: float, **values: Any) -> None:
        with suppress(DependencyDown), self.site.connect() as connection:
            maintenance.finish_action(connection, action, duration_s=round(time.monotonic() - begun, 3), **values)

    def _erase(self, planned: ErasePlan, mine: list[Actor]) -> Erased:
        access = FileAccess(self.site.runtime.lake)
        self._forget(planned)
        for target in planned.targets:
            for held in mine:
                held.check()
            self._from(target, planned.table, access)
        self._forget(planned)  # of a check that ran meanwhile
        totals = {each.table: self._counted(each.table) for each in planned.targets}
        data = {**planned.data, "rows": totals[planned.table], "by_table": totals, "files": 0}
        rest = sum(totals.values()) - totals[planned.table]
        detail = (
            f"{count(totals[planned.table], 'row')} of {planned.table} and {rest:,} beside it are erased: no file that "
            "a table reaches, or that lies below one, holds any"
        )
        by = {"approved_by": self.ask.approval.by} if self.ask.approval else {}
        with self.site.connect() as connection:
            changes.record(
                connection, "table", planned.table, WORD, author=self.site.author, comment=self.ask.comment,
                at=datetime.now(UTC).isoformat(timespec="seconds"), **data, **by,
            )  # fmt: skip
            events.record(
                connection, "table", planned.table, WORD, f"{detail} (by {self.site.author})", comment=self.ask.comment
            )
        for each in planned.targets:
            rename.amend(sink_position.lake_of(self.site.runtime), each.table, lambda _: {MARKER: None}, {})
        return Erased(detail, data)

    def _forget(self, planned: ErasePlan) -> None:
        """What checks kept of the table's rows, what incidents say of them, and the pages that show both."""

        def goes(line: str) -> bool:
            return line.startswith(incident.ROW) or planned.told(line)

        with self.site.connect() as connection:
            verifications.forget_values(connection, planned.table, planned.told)
            incidents.forget_lines(connection, incident.KIND, planned.table, goes)
        data_docs.remove(self.site.runtime.data_docs)

    def _from(self, target: Target, table: str, access: FileAccess) -> None:
        """All steps on one table, and the proof."""
        catalog = sink_position.lake_of(self.site.runtime)

        def load() -> Table:
            return catalog.load_table(target.table)

        if files.held(load(), target.match):
            aside = target.table != table
            columns = (quarantine.STREAM, quarantine.REPLAYED_AT, quarantine.REPLAY, quarantine.BECAME) if aside else ()
            files.rewrite(
                load,
                target.match,
                lambda found, rows: self._properties(found, rows, catalog.load_table(table)),
                (*columns, IDENTITY_COLUMNS["kafka"][0]),
                access,
            )
            now = load()
            held = files.held(now, target.match)
            refs = {ref for ref, at in now.metadata.refs.items() if ref != files.MAIN}
            drop = {ref for ref in refs if files.holding(now, now.metadata.refs[ref].snapshot_id, held)}
            if not drop <= target.drop:
                raise Refused(
                    f"Rows of {target.table} were not all erased: {', '.join(sorted(drop - target.drop))} holds them",
                    why="it was made meanwhile",
                    next="the same command with --dry-run   shows it anew",
                )
            files.forget(load, drop, _stands, access)
        files.delete(load(), access)
        self._strays(load(), target, access)
        if files.held(load(), target.match):
            raise Unhealthy(
                f"Rows of {target.table} were not all erased",
                why="others committed such rows meanwhile",
                next="the same command again",
            )

    def _strays(self, table: Table, target: Target, access: FileAccess) -> None:
        """Raises:
        Unhealthy: a file that nothing names holds such rows, or cannot be read, and is too young to be taken.
        """
        left = []
        for path, written, readable in files.strays(table, target.match, access):
            aside = "/.lakeward_orphans/" in path
            if readable and (aside or datetime.now(UTC) - written > YOUNG):
                access.remove(path)
            elif readable or not aside:
                left.append((path, written, readable))
        if left:
            path, written, readable = left[0]
            until = written + YOUNG
            raise Unhealthy(
                f"{count(len(left), 'file')} below {target.table} that nothing names may hold rows that are to go",
                why=f"{path} "
                + ("is younger than 3 days: it may be a commit on its way" if readable else "cannot be read"),
                next=f"the same command after {until:%Y-%m-%d %H:%M} UTC, or once it is removed by hand",
            )

    def _counted(self, table: str) -> int:
        """Rows that this erase took from a table, also before it was killed."""
        return int(sink_position.lake_of(self.site.runtime).load_table(table).properties.get(MARKER, "0"))

    def _properties(self, found: Table, rows: pa.Table, sink: Table) -> dict[str, str]:
        """The counts of a commit: for the record, and by stream for the audit."""
        kept = {MARKER: str(int(found.properties.get(MARKER, "0")) + rows.num_rows)}
        name = ".".join(found.name())
        sums = _of_quarantine(rows, sink) if quarantine.REPLAYED_AT in rows.column_names else _of_sink(rows, found)
        for stream, more in sums.items():
            kept[erased.key(stream)] = str(erased.of(found.properties, stream, name) + more)
        return kept


def _stands(table: Table) -> dict[str, str]:
    """The positions, on main's head: the snapshots they name go, and a chain that begins anew above them would read
    as a table that was replaced. A position whose rows somebody took back stays as it is, and blocks its stream."""
    head = table.current_snapshot()
    known = {each.snapshot_id: link_of(each) for each in table.metadata.snapshots}
    return {
        position.key(stream): at.model_copy(
            update={"snapshot": head.snapshot_id, "snapshot_seq": head.sequence_number}
        ).to_json()
        for stream, at in position.of_properties(table.properties, ".".join(table.name())).items()
        if head is not None
        and at.snapshot is not None
        and ancestry.walk(head.snapshot_id, known.get, at.snapshot, at.snapshot_seq).right
    }


def _of_sink(rows: pa.Table, table: Table) -> dict[str, int]:
    """Stream -> rows of it, by the topic a stream's position names."""
    topic = IDENTITY_COLUMNS["kafka"][0]
    if topic not in rows.column_names:
        return {}
    of_topic: dict[str, str] = {}
    for stream, at in sorted(position.of_properties(table.properties, ".".join(table.name())).items()):
        for end in at.end.values():
            with suppress(ValueError):  # of another kind of source
                of_topic |= dict.fromkeys(offsets_of(end), stream)
    sums: dict[str, int] = {}
    for each in rows.column(topic).to_pylist():
        if each in of_topic:
            sums[of_topic[each]] = sums.get(of_topic[each], 0) + 1
    return sums


def _of_quarantine(rows: pa.Table, sink: Table) -> dict[str, int]:
    """Stream -> rows of it that counted there: not those that have landed after all."""
    sums: dict[str, int] = {}
    wanted = (quarantine.STREAM, quarantine.REPLAYED_AT, quarantine.REPLAY, quarantine.BECAME)
    for row in rows.select(list(wanted)).to_pylist():
        stream = str(row[quarantine.STREAM])
        done = replay_of(sink.properties, stream, ".".join(sink.name())).done
        act = done is not None and row[quarantine.REPLAY] == done
        moved = act and row[quarantine.BECAME] == quarantine.MOVING
        if moved or (row[quarantine.REPLAYED_AT] is None and not act):
            sums[stream] = sums.get(stream, 0) + 1
    return sums
