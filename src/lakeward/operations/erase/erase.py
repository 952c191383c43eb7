"""erase operation: drain the writers, remove rows from every file, expire all earlier snapshots, verify.

Every step determines by itself what remains to do, so after a kill the same command continues. The counts are kept in a
marker on each table, from the commit that removes the rows until everything is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lakeward.connectors.commit_protocol import ancestry, erased, position
from lakeward.connectors.commit_protocol.replay import of as replay_of
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.iceberg import fence, quarantine, rename
from lakeward.connectors.iceberg.file_io import files_of
from lakeward.connectors.iceberg.pyiceberg_table import link_of
from lakeward.connectors.kafka.position import parse as offsets_of
from lakeward.operations import sink_position
from lakeward.operations.context import Context
from lakeward.operations.erase import plan as planning
from lakeward.operations.erase.plan import WORD, ErasePlan, Scope, Target
from lakeward.operations.operation import HeldLocks, Lock, Operation
from lakeward.operations.request import Outcome, Request
from lakeward.platform.boundary import worded
from lakeward.platform.errors import DependencyDown, LakewardError, Refused, Unhealthy
from lakeward.platform.text import count, word
from lakeward.quality.results import data_docs, incident
from lakeward.registry import events, incidents, verifications
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS
from lakeward.spec.sql.names import dotted, name_parts
from lakeward.tables.erase import files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

T = TypeVar("T")
MARKER = "lakeward.erase"
"""Table property: rows erased so far, from the first commit until everything is recorded."""
YOUNG = timedelta(hours=72)
"""An unreferenced file that is younger may belong to a commit in progress."""


class Erase(Operation[ErasePlan]):
    """Erases from a table, its streams' quarantine and stored samples. The comment must name no value."""

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
        """The error without its details, which may quote a value."""
        return error.what if isinstance(error, LakewardError) else type(error).__name__

    def apply(self, plan: ErasePlan, held: HeldLocks) -> Outcome:
        """Run all steps; each determines by itself what remains to do.

        Raises:
            Unhealthy: an unreferenced file may hold such rows and cannot be removed yet.
            Refused: a tag or branch that holds them was created since.
            DependencyDown: the registry, the catalog or the store does not answer.
        """
        self._remove_stored_values(plan)
        for target in plan.targets:
            held.check()
            self._on(target.table, partial(self._erase_from, target))
        self._remove_stored_values(plan)  # again: a check may have run meanwhile
        totals = {target.table: self._on(target.table, partial(self._counted, target.table)) for target in plan.targets}
        data = {**plan.data, "rows": totals[self.subject], "by_table": totals, "files": 0}
        rest = sum(totals.values()) - totals[self.subject]
        detail = (
            f"{count(totals[self.subject], 'row')} of {self.subject} and {rest:,} in other tables are erased: "
            "no file that a table references or that lies in its folder holds any"
        )
        with self.context.connect() as connection:
            self.record_change(connection, {"at": datetime.now(UTC).isoformat(timespec="seconds"), **data})
            text = f"{detail} (by {self.context.author})"
            events.record(connection, "table", self.subject, WORD, text, comment=self.request.comment)
        for target in plan.targets:
            self._on(target.table, partial(self._unmark, target.table))
        return self.done(detail, data)

    @staticmethod
    def _on(table: str, step: Callable[[], T]) -> T:
        """The result of a step on one table.

        Raises:
            DependencyDown: the catalog or the store does not answer; the same command goes on with what remains.
        """
        try:
            return worded(f"table {table}", step, next="repeat the command")
        except DependencyDown as error:
            raise DependencyDown(
                f"The erase from {table} is not complete",
                why=f"{error.what}: {error.why}",
                next="check the service that does not answer, then repeat the command: it goes on with what remains",
                code="LW-3440",
            ) from error

    def _unmark(self, table: str) -> None:
        rename.amend(sink_position.lake_of(self.context.runtime), table, lambda _: {MARKER: None}, {})

    def _remove_stored_values(self, plan: ErasePlan) -> None:
        """Remove the values from stored check samples, incidents and Data Docs."""

        def goes(line: str) -> bool:
            return line.startswith(incident.ROW) or plan.names(line)

        with self.context.connect() as connection:
            verifications.forget_values(connection, self.subject, plan.names)
            incidents.forget_lines(connection, incident.KIND, self.subject, goes)
        data_docs.remove(self.context.runtime.data_docs)

    def _erase_from(self, target: Target) -> None:
        """Erase from one table and verify it."""
        catalog = sink_position.lake_of(self.context.runtime)

        def load() -> Table:
            return catalog.load_table(name_parts(target.table))

        self._check_alone(load())  # since the plan was made
        access = files_of(self.context.runtime.lake, load())
        if files.held(load(), target.match):
            other_table = target.table != self.subject
            columns = (
                (quarantine.STREAM, quarantine.REPLAYED_AT, quarantine.REPLAY, quarantine.BECAME) if other_table else ()
            )
            files.rewrite(
                load,
                target.match,
                lambda table, rows: self._properties(table, rows, catalog.load_table(name_parts(self.subject))),
                (*columns, IDENTITY_COLUMNS["kafka"][0]),
                access,
            )
            now = load()
            held = files.held(now, target.match)
            refs = now.metadata.refs.keys() - {files.MAIN, *fence.tags_of(now)}
            drop = {ref for ref in refs if files.holding(now, now.metadata.refs[ref].snapshot_id, held)}
            if not drop <= target.drop:
                raise Refused(
                    f"Some rows of {target.table} were not erased: {', '.join(sorted(drop - target.drop))} holds them",
                    why="that tag or branch was created since the plan was made",
                    next="the same command with --dry-run   shows the new plan",
                    code="LW-2017",
                )
            files.forget(load, drop, _positions_on_head, access)
        self._check_alone(load())  # the files that go may have been taken in by another table meanwhile
        files.delete(load(), access)
        files.forget_summaries(load(), access)
        self._remove_unreferenced(load(), target, access)
        if why := files.remains(load(), target.match):
            raise Unhealthy(
                f"Some rows of {target.table} were not erased", why=why, next="repeat the command", code="LW-2015"
            )

    def _check_alone(self, table: Table) -> None:
        """Check that no file of the table is another table's too.

        Raises:
            Refused: another table has one, or may have.
        """
        why = planning.shared(self.context, table)
        if why:
            name = dotted(table.name())
            raise Refused(
                f"Rows of {name} were not erased", why=why, next=f"lakeward tables why {word(name)}", code="LW-2100"
            )

    def _remove_unreferenced(self, table: Table, target: Target, access: FileAccess) -> None:
        """Remove unreferenced files that hold such rows.

        Raises:
            Unhealthy: such a file is too young to be removed, or cannot be read.
        """
        remaining = []
        for path, written, readable in files.strays(table, target.match, access):
            trashed = "/.lakeward_orphans/" in path
            if readable and (trashed or datetime.now(UTC) - written > YOUNG):
                access.remove(path)
            elif readable or not trashed:
                remaining.append((path, written, readable))
        if remaining:
            path, written, readable = remaining[0]
            until = written + YOUNG
            raise Unhealthy(
                f"{count(len(remaining), 'unreferenced file')} of {target.table} may hold rows that must be erased",
                why=f"{path} "
                + ("is younger than 3 days and may belong to a commit in progress" if readable else "cannot be read"),
                next=f"repeat the command after {until:%Y-%m-%d %H:%M} UTC, or remove the file by hand first",
                code="LW-2016",
            )

    def _counted(self, table: str) -> int:
        """Rows that this erase removed from a table, including those before a kill."""
        return int(
            sink_position.lake_of(self.context.runtime).load_table(name_parts(table)).properties.get(MARKER, "0")
        )

    def _properties(self, table: Table, rows: pa.Table, sink: Table) -> dict[str, str]:
        """Properties of a commit: the total count, and counts by stream for the audit."""
        properties = {MARKER: str(int(table.properties.get(MARKER, "0")) + rows.num_rows)}
        name = dotted(table.name())
        sums = _of_quarantine(rows, sink) if quarantine.REPLAYED_AT in rows.column_names else _of_sink(rows, table)
        for stream, more in sums.items():
            properties[erased.key(stream)] = str(erased.of(table.properties, stream, name) + more)
        return properties


def _positions_on_head(table: Table) -> dict[str, str]:
    """The positions, moved to main's head. The snapshots they name expire, and a new chain above them would look like a
    replaced table. A position whose rows were rolled back stays as it is, and blocks its stream."""
    head = table.current_snapshot()
    known = {snapshot.snapshot_id: link_of(snapshot) for snapshot in table.metadata.snapshots}
    return {
        position.key(stream): at.model_copy(
            update={"snapshot": head.snapshot_id, "snapshot_seq": head.sequence_number}
        ).to_json()
        for stream, at in position.of_properties(table.properties, dotted(table.name())).items()
        if head is not None
        and at.snapshot is not None
        and ancestry.walk(head.snapshot_id, known.get, at.snapshot, at.snapshot_seq).right
    }


def _of_sink(rows: pa.Table, table: Table) -> dict[str, int]:
    """Stream -> number of its rows, by the topics in the streams' positions."""
    topic = IDENTITY_COLUMNS["kafka"][0]
    if topic not in rows.column_names:
        return {}
    of_topic: dict[str, str] = {}
    for stream, at in sorted(position.of_properties(table.properties, dotted(table.name())).items()):
        for end in at.end.values():
            with suppress(ValueError):  # not a Kafka source
                of_topic |= dict.fromkeys(offsets_of(end), stream)
    sums: dict[str, int] = {}
    for topic_name in rows.column(topic).to_pylist():
        if topic_name in of_topic:
            sums[of_topic[topic_name]] = sums.get(of_topic[topic_name], 0) + 1
    return sums


def _of_quarantine(rows: pa.Table, sink: Table) -> dict[str, int]:
    """Stream -> number of its quarantined rows that were not landed by a replay."""
    sums: dict[str, int] = {}
    columns = (quarantine.STREAM, quarantine.REPLAYED_AT, quarantine.REPLAY, quarantine.BECAME)
    for row in rows.select(list(columns)).to_pylist():
        stream = str(row[quarantine.STREAM])
        done = replay_of(sink.properties, stream, dotted(sink.name())).done
        act = done is not None and row[quarantine.REPLAY] == done
        moved = act and row[quarantine.BECAME] == quarantine.MOVING
        if moved or (row[quarantine.REPLAYED_AT] is None and not act):
            sums[stream] = sums.get(stream, 0) + 1
    return sums
