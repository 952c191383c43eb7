"""erase: drain the writers, take the rows out of every file, let go of all snapshots before, and prove it.

Every step finds by itself what is left of it, so a kill needs no cure but the same command. What was counted stands in
a marker on each table from the commit that takes the rows out until all is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import ancestry, erased, position
from lakeward.connectors.commit_protocol.replay import of as replay_of
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.iceberg import quarantine, rename
from lakeward.connectors.iceberg.pyiceberg_table import link_of
from lakeward.connectors.kafka.position import parse as offsets_of
from lakeward.operations import sink_position
from lakeward.operations.context import Context
from lakeward.operations.erase import plan as planning
from lakeward.operations.erase.plan import WORD, ErasePlan, Scope, Target
from lakeward.operations.operation import Held, Lock, Operation
from lakeward.operations.request import Outcome, Request
from lakeward.platform.errors import LakewardError, Refused, Unhealthy
from lakeward.platform.text import count
from lakeward.quality.results import data_docs, incident
from lakeward.registry import events, incidents, verifications
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS
from lakeward.tables.erase import files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

MARKER = "lakeward.erase"
"""Table property: rows erased so far, from the first commit until all is recorded."""
YOUNG = timedelta(hours=72)
"""A file that nothing names and that is younger may be a commit of somebody else's on its way."""


class Erase(Operation[ErasePlan]):
    """From one table, the quarantine of its streams and the stored samples. The comment must name no value."""

    name = WORD
    kind = "table"
    lock = Lock.TABLE
    needs_comment = True
    needs_approval = True
    clears_block = False

    def __init__(self, context: Context, request: Request, scope: Scope) -> None:
        super().__init__(context, request)
        self.scope = scope

    def plan(self) -> ErasePlan:
        return planning.plan(self.context, self.scope)

    def ledger(self, plan: ErasePlan) -> Mapping[str, Any]:
        return {"records": plan.data["rows"], "files": plan.data["files"]}

    def failure(self, error: BaseException) -> str:
        """Never what it quotes: that may be a value."""
        return error.what if isinstance(error, LakewardError) else type(error).__name__

    def apply(self, plan: ErasePlan, held: Held) -> Outcome:
        """Every step finds by itself what is left of it.

        Raises:
            Unhealthy: a file that nothing names may hold such rows and cannot be taken yet.
            Refused: a tag or branch that holds them was made meanwhile.
        """
        access = FileAccess(self.context.runtime.lake)
        self._forget(plan)
        for target in plan.targets:
            held.check()
            self._from(target, access)
        self._forget(plan)  # of a check that ran meanwhile
        totals = {each.table: self._counted(each.table) for each in plan.targets}
        data = {**plan.data, "rows": totals[self.subject], "by_table": totals, "files": 0}
        rest = sum(totals.values()) - totals[self.subject]
        detail = (
            f"{count(totals[self.subject], 'row')} of {self.subject} and {rest:,} beside it are erased: no file that "
            "a table reaches, or that lies below one, holds any"
        )
        with self.context.connect() as connection:
            self.record_change(connection, {"at": datetime.now(UTC).isoformat(timespec="seconds"), **data})
            text = f"{detail} (by {self.context.author})"
            events.record(connection, "table", self.subject, WORD, text, comment=self.request.comment)
        for each in plan.targets:
            rename.amend(sink_position.lake_of(self.context.runtime), each.table, lambda _: {MARKER: None}, {})
        return self.done(detail, data)

    def _forget(self, plan: ErasePlan) -> None:
        """What checks kept of the table's rows, what incidents say of them, and the pages that show both."""

        def goes(line: str) -> bool:
            return line.startswith(incident.ROW) or plan.names(line)

        with self.context.connect() as connection:
            verifications.forget_values(connection, self.subject, plan.names)
            incidents.forget_lines(connection, incident.KIND, self.subject, goes)
        data_docs.remove(self.context.runtime.data_docs)

    def _from(self, target: Target, access: FileAccess) -> None:
        """All steps on one table, and the proof."""
        catalog = sink_position.lake_of(self.context.runtime)

        def load() -> Table:
            return catalog.load_table(target.table)

        if files.held(load(), target.match):
            beside = target.table != self.subject
            columns = (
                (quarantine.STREAM, quarantine.REPLAYED_AT, quarantine.REPLAY, quarantine.BECAME) if beside else ()
            )
            files.rewrite(
                load,
                target.match,
                lambda found, rows: self._properties(found, rows, catalog.load_table(self.subject)),
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
                    code="LW-2017",
                )
            files.forget(load, drop, _stands, access)
        files.delete(load(), access)
        self._strays(load(), target, access)
        if files.held(load(), target.match):
            raise Unhealthy(
                f"Rows of {target.table} were not all erased",
                why="others committed such rows meanwhile",
                next="the same command again",
                code="LW-2015",
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
                code="LW-2016",
            )

    def _counted(self, table: str) -> int:
        """Rows that this erase took from a table, also before it was killed."""
        return int(sink_position.lake_of(self.context.runtime).load_table(table).properties.get(MARKER, "0"))

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
