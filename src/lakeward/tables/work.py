"""Runs the actions of one table: for each one plan again, record, run, verify, record the result."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic, process_time
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import Connection

from lakeward.connectors.delta import amend
from lakeward.connectors.delta import properties as delta_properties
from lakeward.connectors.delta.state import State
from lakeward.connectors.iceberg import rename
from lakeward.platform.errors import Internal, LakewardError, expect_type
from lakeward.registry import events, maintenance
from lakeward.registry.maintenance import Figures
from lakeward.spec.model.iceberg_properties import unreadable
from lakeward.tables.act import delta as act_delta
from lakeward.tables.act import live_rows
from lakeward.tables.act.rollback import may_roll_back, roll_back
from lakeward.tables.act.server import Run, Statements, cpu_of_server
from lakeward.tables.act.spark import OnSpark, Spark
from lakeward.tables.act.statements import statements
from lakeward.tables.act.writer_pause import pause_writers
from lakeward.tables.context import CHANGES_ROWS, MaintenanceContext
from lakeward.tables.expiry import Expiry
from lakeward.tables.facts import TableFacts
from lakeward.tables.guard.actor import TableLease
from lakeward.tables.guard.positions import OffMain, block_streams, on_main
from lakeward.tables.ledger import ActionEntry, change, finish_action
from lakeward.tables.needs import RegistryState
from lakeward.tables.observation import ObservedTable, TableObservation, load_facts, observe_table
from lakeward.tables.observe.commits import moved_by
from lakeward.tables.ownership import vacuum_obstacle
from lakeward.tables.plan import Action
from lakeward.tables.plan.expire import expirable
from lakeward.tables.verify import (
    Verdict,
    between,
    verify_compact,
    verify_deletes,
    verify_expire,
    verify_manifests,
    verify_metadata,
    verify_tags,
)
from lakeward.tables.verify_delta import DeltaState, folder_state, verify_vacuum
from lakeward.tables.verify_delta import moved_by as moved_in_log
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

log = structlog.get_logger(__name__)

Engine = Callable[["SparkSession"], Statements]


@dataclass(frozen=True)
class _Ran:
    """The outcome of one action.

    Attributes:
        words: what to report beside the verdict.
        figures: for the ledger.
        on_disk: the content of a Delta table's folder before a VACUUM.
        execute: runs a statement in the session of the action; None without one.
        went: snapshots that an expiry could remove: a commit meanwhile may need some of the promised ones.
    """

    run: Run
    duration_s: float
    cpu_s: float | None
    words: str = ""
    figures: Figures = field(default_factory=Figures)
    on_disk: DeltaState | None = None
    execute: Callable[[str], list[dict[str, object]]] | None = None
    went: frozenset[int] = frozenset()


@dataclass
class Work:
    """The actions of one run.

    Attributes:
        site, table, around: the context, the table, and the state that all tables share.
        plan_id: the recorded plan the actions belong to.
        mine: the lease.
        engine: runs statements on a session.
        on: opens the Spark session of the statements.
        only: the partitions to compact; empty: all that are due.
        results: one entry for each action, the command line's JSON.
    """

    site: MaintenanceContext
    table: str
    around: RegistryState
    plan_id: str
    mine: TableLease
    engine: Engine
    on: OnSpark
    only: Collection[str] = ()
    results: list[ActionEntry] = field(default_factory=list)

    def all(self, due: list[str], selected: Collection[str], first: TableObservation) -> list[ActionEntry]:
        """Run the due actions; expiry is planned again after a compaction, which can make it due."""
        if "expire" in selected and first.problems:
            self._refuse(first.problems)
        with self.on as connected:
            for name in selected:
                if name not in due and not (name != "compact" and self._compacted()):
                    continue
                self.mine.check()
                self._one(name, connected)
                if self.results and self.results[-1]["result"] in ("failed", "timed_out"):
                    break  # no action runs after one that failed or is in doubt
        return self.results

    def _compacted(self) -> bool:
        return any(result["action"] == "compact" and result["result"] == "done" for result in self.results)

    def _one(self, name: str, connected: Callable[[], Spark]) -> None:
        seen = self._see()
        with self.site.registry() as connection:
            there = observe_table(connection, self.site, seen, self.around, [name], only=self.only)
        action = there.plan.action(name)
        if action is None:
            if name == "expire" and there.problems:
                self._refuse(there.problems)
            return
        delta = isinstance(there.seen.loaded, State)
        if name == "expire" and delta and (why := vacuum_obstacle(self.site, there.facts.location)):
            self._refused(why)
            return
        odd = delta_properties.unreadable if delta else unreadable
        mended = name == "metadata" and bool(odd(there.facts.properties))
        by_commit = mended or (name == "expire" and not delta)  # without an engine
        spark = None if by_commit else connected()
        before = _figures(there.facts) | _promise(action)
        checked = on_main(there.facts) if name == "expire" else {}
        if checked:
            before["positions"] = {stream: str(snapshot) for stream, snapshot in checked.items()}
        with self.site.registry() as connection:
            action_id = maintenance.begin_action(
                connection, plan=self.plan_id, table=self.table, action=name,
                session_id=spark.session_id if spark is not None else None, before=before,
            )  # fmt: skip
        log.info("Maintenance started", table=self.table, action=name, why=action.why)
        failpoints.hit("maintain-begun")
        if spark is not None:
            ran = self._on_server(spark, there, action)
        else:
            ran = self._mend(there, action) if mended else self._expire(there, action, checked)
        run, duration, cpu = ran.run, ran.duration_s, ran.cpu_s
        failpoints.hit("maintain-ran")
        try:
            after = self._see()
        except LakewardError as error:  # missing or unreachable: the outcome is unknown
            why = f"the table could not be read afterwards: {error.what}{f' ({error.why})' if error.why else ''}"
            entry = _unseen(name, before, duration, cpu, run, why)
            self._record(action_id, entry)
            self.results.append(entry)
            return
        verdict = self._judge(action, there, after, ran, checked)
        if ran.execute is not None:
            verdict = live_rows.verify_live_rows(ran.execute, action, there.facts, after.facts, verdict)
        result, why = _result(run, verdict)
        held = self._undo(there.facts, after, verdict) if verdict.harmed else ""
        failpoints.hit("maintain-judged")
        now = _figures(self._see().facts if held else after.facts) | verdict.figures | ran.figures
        if checked:
            now["positions"] = before["positions"]
        if run.returned:
            now["returned"] = run.returned
        entry = {
            "action": name,
            "result": result,
            "before": before,
            "after": now,
            "change": change(before, now),
            "duration_s": duration,
            "cpu_s": cpu,
            "verified": verdict.ok and result == "done",
            "why": "; ".join(part for part in (why, held, ran.words) if part),
        }
        self._record(action_id, entry)
        failpoints.hit("maintain-recorded")
        self.results.append(entry)

    def _on_server(self, spark: Spark, there: TableObservation, action: Action) -> _Ran:
        """Run the statements of an action."""
        on_disk = _on_disk(there.seen, action.action)
        running = self.engine(spark.session)
        self.mine.when_lost(running.stop)
        with pause_writers(self.site.registry, self.table, self._disturbed_by(action.action, there.facts)) as rested:
            begun = monotonic()
            with cpu_of_server(spark.runtime) as cpu:
                run = running.run(_statements(there, action), there.seen.policy.compact.max_duration.seconds)
            if run.error:
                run.error = spark.lost(run.error) or run.error
            duration = round(monotonic() - begun, 3)
        return _Ran(run, duration, cpu[0] if cpu else None, rested.words, on_disk=on_disk, execute=running.execute)

    def _expire(self, there: TableObservation, action: Action, checked: dict[str, int]) -> _Ran:
        """Expire snapshots of an Iceberg table in this process."""
        begun, used = monotonic(), process_time()
        loaded = there.seen.loaded
        if isinstance(loaded, State):
            raise Internal("An expiry of a Delta table is a VACUUM", code="LW-4101")
        work = Expiry(
            self.site, loaded, there.facts, action, there.now,
            there.seen.policy.expire, checked, self.mine, begun + there.seen.policy.compact.max_duration.seconds,
        )  # fmt: skip
        run = work.run()
        duration, cpu = round(monotonic() - begun, 3), round(process_time() - used, 3)
        return _Ran(run, duration, cpu, work.words, work.figures, went=frozenset(work.went))

    def _mend(self, there: TableObservation, action: Action) -> _Ran:
        """Set properties that cannot be read. Iceberg's and Delta's own commits would read them first, and fail."""
        begun, used, run = monotonic(), process_time(), Run()
        before = {name: there.facts.properties.get(name) for name in action.properties}
        try:
            if isinstance(there.seen.loaded, State):
                amend.amend(self.table, there.seen.loaded.folder, action.properties, before)
            else:
                rename.amend(self.site.catalog, self.table, lambda _: action.properties, before)
        except LakewardError as error:
            run.error = f"{error.what}: {error.why}"
        return _Ran(run, round(monotonic() - begun, 3), round(process_time() - used, 3))

    def _disturbed_by(self, name: str, facts: TableFacts) -> list[str]:
        """The running streams that a rewrite would conflict with: their batches change rows of existing files."""
        if name not in ("compact", "deletes") or self.around.writers.get(self.table) not in CHANGES_ROWS:
            return []
        return [stream for stream in facts.streams if stream in self.around.running]

    def _see(self) -> ObservedTable:
        return load_facts(self.site, self.table, self.around)

    def _judge(
        self,
        action: Action,
        there: TableObservation,
        after: ObservedTable,
        ran: _Ran,
        checked: dict[str, int],
    ) -> Verdict:
        run, disk = ran.run, ran.on_disk
        before, was, became = there.facts, there.seen.loaded, after.loaded
        if after.facts.uuid != before.uuid:
            return Verdict(False, f"{self.table} was dropped and recreated meanwhile")
        if isinstance(was, State) and isinstance(became, State):
            if disk is not None:
                return verify_vacuum(action, was, disk, became)
        elif isinstance(was, State) or isinstance(became, State):
            return Verdict(False, "the table was replaced by one of another format", True)
        if action.action == "manifests":
            return verify_manifests(before, after.facts)
        if action.action == "deletes":
            return verify_deletes(action, before, after.facts)
        if action.action == "metadata":
            return verify_metadata(action, before, after.facts)
        if action.action == "tags":
            return verify_tags(action, after.facts)
        if action.action == "expire":
            promised = expirable(before, action.cutoff, action.retain_last, there.now)
            promised &= ran.went or promised
            return verify_expire(action, before, after.facts, promised, checked, datetime.now(UTC))
        if isinstance(became, State):
            moved = moved_in_log(expect_type(was, State, "the table before: both are of one format"), became)
        else:
            moved = moved_by(became, [e for e in between(before, after.facts) or () if e.operation == "replace"])
        return verify_compact(
            action,
            before,
            after.facts,
            moved,
            failed_files=sum(int(str(row.get("failed_data_files_count") or 0)) for row in run.returned),
        )

    def _undo(self, before: TableFacts, after: ObservedTable, verdict: Verdict) -> str:
        """Roll back the rewrite if nothing was committed on top of it, else hold expiry for a person."""
        head = after.facts.snapshot_id
        to = before.snapshot_id
        alone = head is not None and to is not None and may_roll_back(before, after.facts, set(verdict.ours))
        # A Delta table is not rolled back: RESTORE removes no file, and its streams would have to be stopped.
        if alone and not isinstance(after.loaded, State) and roll_back(after.loaded, head or 0, to or 0):
            return f"rolled back to snapshot {to}"
        why = f"{verdict.why}; a person has to check the table before history is expired"
        with self.site.registry() as connection:
            maintenance.hold_expiry(connection, self.table, why)
        return "expiry is held until a person has checked the table"

    def _refuse(self, problems: list[OffMain]) -> None:
        """Block the streams and record the refusal once: expiry would erase the evidence of missing rows."""
        if any(result["action"] == "expire" for result in self.results):
            return
        with self.site.registry() as connection:
            block_streams(connection, problems)
        self._refused("; ".join(problem.sentence for problem in problems))

    def _refused(self, why: str) -> None:
        """An expiry that is refused."""
        log.error("Expiry refused", table=self.table, why=why)
        self.results.append(
            {
                "action": "expire", "result": "refused", "before": {}, "after": {}, "change": "",
                "duration_s": 0.0, "cpu_s": None, "verified": False, "why": why,
            }
        )  # fmt: skip

    def _record(self, action_id: int, entry: ActionEntry) -> None:
        with self.site.registry() as connection:
            finish_action(connection, action_id, entry)
            self._record_entry(connection, entry)
        report = log.info if entry["result"] in ("done", "skipped") else log.error
        report(
            "Maintenance ended",
            table=self.table,
            action=entry["action"],
            result=entry["result"],
            why=entry["why"],
            duration_s=entry["duration_s"],
        )

    def _record_entry(self, connection: Connection, entry: ActionEntry) -> None:
        text = f"{entry['action']} {entry['result']}: {entry['why']}"
        events.record(connection, "table", self.table, entry["action"], text, duration_s=entry["duration_s"])


def _statements(there: TableObservation, action: Action) -> list[str]:
    if isinstance(there.seen.loaded, State):
        return act_delta.statements(there.seen.loaded.folder, action)
    return statements(there.facts.table, action, there.seen.policy, there.facts.catalog)


def _on_disk(seen: ObservedTable, name: str) -> DeltaState | None:
    """The content of the folder before a VACUUM."""
    return folder_state(seen.loaded) if name == "expire" and isinstance(seen.loaded, State) else None


def _result(run: Run, verdict: Verdict) -> tuple[str, str]:
    if run.timed_out:
        return "timed_out", f"stopped by its timeout; {verdict.why}"
    if run.interrupted:
        return "failed", f"stopped; {verdict.why}"
    if run.error:
        return "failed", f"{run.error.rstrip('.')}; {verdict.why}"
    if verdict.ok and not verdict.changed:
        return "skipped", verdict.why
    return ("done" if verdict.ok else "failed"), verdict.why


def _unseen(name: str, before: Figures, duration: float, cpu: float | None, run: Run, why: str) -> ActionEntry:
    """The entry of an action after which the table could not be read."""
    text = f"{run.error}; {why}" if run.error else why
    return {
        "action": name, "result": "failed", "before": before, "after": {}, "change": "", "duration_s": duration,
        "cpu_s": cpu, "verified": False, "why": text,
    }  # fmt: skip


def _promise(action: Action) -> Figures:
    """The promise of an action for the ledger: files, bytes, and the partitions that get their final layout."""
    final = [name for rewrite in action.rewrites if rewrite.mode in ("final", "layout") for name in rewrite.partitions]
    promise: Figures = {
        "promised_files": action.files,
        "promised_bytes": action.size_bytes,
        "partitions": [part for part in action.partitions if part],
    }
    if final:
        promise["final"] = final
    return promise


def _figures(facts: TableFacts) -> Figures:
    profile = facts.profile
    return {
        "snapshot_id": facts.snapshot_id,
        "files": profile.files,
        "small_files": profile.small_files,
        "size_bytes": profile.bytes,
        "records": profile.records,
        "delete_files": profile.delete_files,
        "manifests": profile.manifests,
        "snapshots": len(facts.snapshots),
        "metadata_files": facts.metadata_files,
    }
