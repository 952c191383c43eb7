"""Orphan removal: moves files that no metadata references to a trash folder, and deletes them after a week.

The location is listed before the metadata is read: a file committed in between is referenced, not missing. Before
every thousand files, and once at the end, the table is reloaded and new commits are read too. After a kill nothing is
half done: a file is in its place or in the trash folder, and the next run starts with a listing.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import structlog
from sqlalchemy import func, select

from lakeward.connectors.aws import store
from lakeward.connectors.iceberg.file_io import files_of
from lakeward.platform.errors import LakewardError, Refused
from lakeward.platform.text import count, listed, size, span, word
from lakeward.registry import events, maintenance
from lakeward.registry.maintenance import Figures
from lakeward.spec.model.policy import Orphans
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.guard.actor import TTL, TableLease, hold_lease
from lakeward.tables.guard.location_overlap import overlap_in_catalog
from lakeward.tables.guard.locations import canonical
from lakeward.tables.guard.owners import Owners
from lakeward.tables.ledger import ActionEntry, finish_action
from lakeward.tables.maintain import MaintainDocument, take_over
from lakeward.tables.needs import longest_batch, needs_of, read_registry
from lakeward.tables.observation import load_facts, register, summary
from lakeward.tables.observe.listing import TRASH_FOLDER, Listing
from lakeward.tables.observe.references import hinted, references
from lakeward.tables.plan.model import Action, NotPlanned, Plan, PlanDocument
from lakeward.tables.plan.orphans import ACTION, Survey, judge, not_listed_because, oldest_removable, rules, shown
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyiceberg.table import Table

log = structlog.get_logger(__name__)

AT_ONCE: Final = 1000  # files between two reloads of the table
LIMIT_S: Final = 3600.0  # of one run; the next run continues
_STAMP: Final = "%Y%m%dT%H%M%SZ"  # name of a run's folder


_UNDECIDED = (LakewardError, OSError, ValueError, sqlite3.Error)
"""Errors that end a run as failed. ValueError: a manifest cannot be read; sqlite3: the listing or the known owners."""


def remove_orphans(
    site: MaintenanceContext,
    table: str,
    holder: str | None = None,
    *,
    dry_run: bool = False,
    ttl: timedelta = TTL,
    limit_s: float = LIMIT_S,
) -> MaintainDocument:
    """Remove the orphans of one table; the JSON of `run.maintain`. A first run with new thresholds only shows them.

    Args:
        site: the maintenance context.
        table: `namespace.table`.
        holder: the name of the lease's holder.
        dry_run: show the orphans and remove none; also when it is not due.
        ttl: how long the lease lasts without a heartbeat.
        limit_s: seconds after which it stops.

    Raises:
        Refused: another run maintains the table, or took it over.
    """
    if site.delta(table) is not None:
        not_planned = NotPlanned(ACTION, "a Delta table has no orphans apart from what its expiry (VACUUM) deletes")
        return {
            "table": table,
            "told": f"{table} is a Delta table",
            "plan": _plan(table, not_planned),
            "actions": [],
            "advice": [],
        }
    first = site.load(table)  # a wrong name is reported before the lease is taken
    with hold_lease(site.registry, table, holder, ttl) as lease:
        take_over(site.registry, site.runtime, table)
        with site.registry() as connection:
            around = read_registry(connection)
        seen = load_facts(site, table, around)
        facts, policy = seen.facts, seen.policy.orphans
        with site.registry() as connection:
            register(connection, around, facts, external=site.external(table))
            now = connection.execute(select(func.now())).scalar_one()
            roots = (site.runtime.checkpoints,)
            needs, _ = needs_of(
                connection, facts, around, now, has_suite=site.has_suite(table), roots=roots, there=site.is_at
            )
            ledger = maintenance.newest_actions(connection, table, action=ACTION)
            before = oldest_removable(policy, longest_batch(connection, facts), now)
        last = next((row["started_at"] for row in ledger if row["result"] == "done"), None)
        with Owners.of(site) as owners:
            intruder = overlap_in_catalog(site, table, facts.location) or owners.others(first.name()).overlap(
                facts.location
            )
        stop = not_listed_because(policy, needs, None if dry_run else last, now, intruder)
        if stop is None and not seen.policy.maintain:
            stop = NotPlanned(ACTION, "only observed (maintain: false)")
        if stop is not None:
            refused = [_entry("refused", {}, {}, 0.0, stop.why)] if stop.refused else []
            return {
                "table": table,
                "told": summary(facts),
                "plan": _plan(table, stop),
                "actions": refused,
                "advice": [],
            }
        planned_rules = rules(policy, facts.location)
        with site.registry() as connection:
            begun: Figures = {"rules": planned_rules, "written_before": before.isoformat(), "dry_run": dry_run}
            action_id = maintenance.begin_action(
                connection, plan=uuid4().hex, table=table, action=ACTION, session_id=None, before=begun
            )
        once = monotonic()
        with _listing(facts.location) as listing, Owners.of(site) as owners:
            work = _Sweep(site, table, lease, policy, listing, owners, first, before, once + limit_s)
            try:
                dry = "asked for" if dry_run else "" if shown(planned_rules, ledger) else "first"
                decided, result, why = work.run(dry)
            except _UNDECIDED as error:
                if lease.lost.is_set():
                    raise  # the successor has closed the action
                decided, result, why = NotPlanned(ACTION, "could not be decided"), "failed", _words(error)
        entry = _entry(result, begun, work.figures, round(monotonic() - once, 3), why)
        with site.registry() as connection:
            finish_action(connection, action_id, entry)
            if work.harmed:
                maintenance.hold_expiry(
                    connection, table, f"{why}; a person has to check the table before more is removed"
                )
            events.record(connection, "table", table, ACTION, f"{ACTION} {result}: {why}")
        report = log.info if result in ("done", "skipped") else log.error
        report("Orphan removal ended", table=table, result=result, why=why, duration_s=entry["duration_s"])
        return {"table": table, "told": summary(facts), "plan": _plan(table, decided), "actions": [entry], "advice": []}


@dataclass
class _Sweep:
    """One run over one table."""

    site: MaintenanceContext
    table: str
    mine: TableLease
    policy: Orphans
    listing: Listing
    owners: Owners
    first: Table  # as it was before the listing began
    before: datetime
    until: float
    figures: Figures = field(default_factory=Figures)
    harmed: bool = False
    _trouble: str = ""
    _read: set[str] = field(default_factory=set)
    _taken: int = 0
    _taken_bytes: int = 0
    _missing: int = 0

    def __post_init__(self) -> None:
        self.files = files_of(self.site.runtime.lake, self.first)
        self.location = canonical(self.first.metadata.location).rstrip("/")
        self.trash = f"{self.location}/{TRASH_FOLDER}/{datetime.now(UTC):{_STAMP}}"

    def run(self, dry: str) -> tuple[Action | NotPlanned, str, str]:
        """List and remove; returns the decision, the result, and why. `dry`: why no file may be removed, or empty."""
        found = self._look()
        self.figures |= found.figures()
        decided = judge(found, self.policy)
        if found.lost:
            restored = self._put_back_lost()
            if restored:
                return decided, "failed", f"{decided.why}; {restored}"
        if isinstance(decided, NotPlanned) and decided.refused:
            return decided, "refused", decided.why
        if dry:
            words = "dry run" if dry == "asked for" else "first run with these thresholds, so nothing was removed"
            return decided, "skipped", "; ".join(each for each in (f"{words}: {decided.why}", self._spared()) if each)
        late = isinstance(decided, Action) and not self._take()
        trouble = self._trouble or self._look_again()
        if trouble:
            return decided, "failed", trouble
        purged = "" if late else self._purge()
        why = "; ".join(each for each in (self._summary(decided, found), self._spared(), purged) if each)
        return decided, "timed_out" if late else "done", why

    def _look(self) -> Survey:
        begun = monotonic()
        for folder in self.files.walk(self.location):
            self.mine.check()
            self._in_time()
            self.listing.add(folder)
        failpoints.hit("orphans-listed")
        loaded = self._load()
        old = {snapshot.snapshot_id for snapshot in self.first.metadata.snapshots}
        fresh = {snapshot.snapshot_id for snapshot in loaded.metadata.snapshots} - old
        self.listing.refer(references(loaded, self._read), fresh)
        self.listing.refer(hinted(loaded, self.files.content), fresh)
        self._spare()
        found = self.listing.survey(self.before)
        log.info(
            "Files compared with the table's metadata", table=self.table, files=found.listed,
            size_bytes=found.listed_bytes, orphans=found.orphans, young=found.young, snapshots=len(old | fresh),
            duration_s=round(monotonic() - begun, 3),
        )  # fmt: skip
        return found

    def _spare(self) -> list[str]:
        """Ask the other tables which files below the location they name; returns those that were just removed."""
        others = self.owners.others(self.first.name())
        intruder = others.overlap(self.location)
        if intruder:
            raise Refused(
                f"Orphan removal of {self.table} stopped",
                why=f"Since it began, {intruder}.",
                next=f"lakeward tables maintain {word(self.table)} --actions orphans --dry-run",
                code="LW-4103",
            )
        back = self.listing.spare(others.named_below(self.location))
        spared = self.listing.spared
        if spared:
            reasons = {f"table {table} names it": number for table, number in sorted(spared.items())}
            self.figures |= {"spared_files": spared.total(), "spared": reasons}
        return back

    def _take(self) -> bool:
        """Remove every orphan; False when the time limit was reached."""
        after = ""
        while self.listing.orphans(self.before, 1, after):
            self.mine.check()
            self._trouble = self._look_again()
            if self._trouble or monotonic() >= self.until:
                return False
            chunk = self.listing.orphans(self.before, AT_ONCE, after)
            for path, length in chunk:
                failpoints.hit("orphans-file")
                if self._one(path):
                    self._taken, self._taken_bytes = self._taken + 1, self._taken_bytes + length
                else:
                    self._missing += 1
                self.listing.taken(path)
                after = path
            self.figures |= {"taken_files": self._taken, "taken_bytes": self._taken_bytes}
            log.info("Orphans removed", table=self.table, files=self._taken, size_bytes=self._taken_bytes)
        return True

    def _one(self, path: str) -> bool:
        """Remove one file, and the checksum Hadoop keeps beside it on a disk; False if it is missing."""
        folder, _, name = path.rpartition("/")
        checksum = f"{folder}/.{name}.crc".lstrip("/")
        paths = [path]
        if not store.on_s3(self.location) and self.files.exists(f"{self.location}/{checksum}"):
            paths.append(checksum)
        for each in paths:
            try:
                if self.policy.quarantine:
                    self.files.move(f"{self.location}/{each}", f"{self.trash}/{each}")
                else:
                    self.files.remove(f"{self.location}/{each}")
            except FileNotFoundError:
                return False
        return True

    def _look_again(self) -> str:
        """Read new commits. If one references a file that was just removed, the file is restored at once.

        Returns: the outcome as a sentence, empty if no file had to be restored.
        """
        restored = self.listing.refer(references(self._load(), self._read)) + self._spare()
        if not restored:
            return ""
        self.harmed = True
        if not self.policy.quarantine:
            return f"{count(len(restored), 'deleted file')} became referenced during the run: {', '.join(restored[:3])}"
        missing = [path for path in restored if not self._put_back(f"{self.trash}/{path}", path)]
        there = [path for path in restored if path not in missing]
        words = [f"{count(len(restored), 'file')} became referenced during the run"]
        words += [f"restored: {', '.join(there[:3])}"] if there else []
        words += [f"removed by somebody else: {', '.join(missing[:3])}"] if missing else []
        return "; ".join(words)

    def _put_back(self, source: str, path: str) -> bool:
        """Move one file back to its place; False if it is missing, which must not keep the others from theirs."""
        try:
            self.files.move(source, f"{self.location}/{path}")
        except FileNotFoundError:
            return False
        return True

    def _put_back_lost(self) -> str:
        restored = []
        for path, run in list(self.listing.trashed_but_required()):
            if self._put_back(f"{self.location}/{TRASH_FOLDER}/{run}/{path}", path):
                restored.append(path)
        if not restored:
            return ""
        self.harmed = True
        self.figures["put_back"] = len(restored)
        return f"{count(len(restored), 'file')} restored from the trash folder: {', '.join(restored[:3])}"

    def _purge(self) -> str:
        """Delete runs of the trash folder that are older than its retention."""
        files = length = 0
        for run, (deleted, held) in self.listing.runs().items():
            try:
                at = datetime.strptime(run, _STAMP).replace(tzinfo=UTC)
            except ValueError:
                continue  # not a folder of Lakeward
            if at < datetime.now(UTC) - self.policy.keep.timedelta:
                self.mine.check()
                self.files.remove_folder(f"{self.location}/{TRASH_FOLDER}/{run}")
                files, length = files + deleted, length + held
        self.figures |= {"deleted_files": files, "deleted_bytes": length}
        return f"{count(files, 'file')} of {size(length)} were deleted from the trash folder" if files else ""

    def _load(self) -> Table:
        loaded = self.site.load(self.table)
        was = self.first.metadata
        if loaded.metadata.table_uuid != was.table_uuid or loaded.metadata.location != was.location:
            raise Refused(
                f"Orphan removal of {self.table} stopped: the table was replaced or moved",
                why=f"It was {was.table_uuid} at {was.location}, "
                f"it is {loaded.metadata.table_uuid} at {loaded.metadata.location}.",
                next=f"lakeward tables maintain {word(self.table)} --actions orphans --dry-run",
                code="LW-4015",
            )
        return loaded

    def _in_time(self) -> None:
        if monotonic() >= self.until:
            raise Refused(
                f"Orphan removal of {self.table} stopped: listing its location timed out",
                why=f"Listing {self.location} did not end within the time limit of a run.",
                next=f"lakeward tables maintain {word(self.table)} --actions orphans",
                code="LW-4016",
            )

    def _spared(self) -> str:
        spared = self.listing.spared
        tables = listed(sorted(spared))
        return f"{count(spared.total(), 'file')} spared, which {tables} names" if spared else ""

    def _summary(self, decided: Action | NotPlanned, found: Survey) -> str:
        if isinstance(decided, NotPlanned):
            return decided.why
        where = f"moved to {self.trash} for {span(self.policy.keep.timedelta)}"
        done = where if self.policy.quarantine else "deleted"
        rest = (
            ""
            if self._taken + self._missing == found.orphans
            else f" of {found.orphans}; the next run removes the rest"
        )
        others = f"; {count(self._missing, 'file')} removed by somebody else meanwhile" if self._missing else ""
        return f"{count(self._taken, 'orphan file')} of {size(self._taken_bytes)} {done}{rest}{others}"


@contextmanager
def _listing(location: str) -> Iterator[Listing]:
    with (
        tempfile.TemporaryDirectory(prefix="lakeward-orphans-") as folder,
        closing(Listing(location, Path(folder) / "listing.sqlite")) as made,
    ):
        yield made


def _entry(result: str, before: Figures, after: Figures, duration: float, why: str) -> ActionEntry:
    return {
        "action": ACTION, "result": result, "before": before, "after": after, "change": "",
        "duration_s": duration, "cpu_s": None, "verified": result == "done", "why": why,
    }  # fmt: skip


def _plan(table: str, decided: Action | NotPlanned) -> PlanDocument:
    actions, not_planned = ((decided,), ()) if isinstance(decided, Action) else ((), (decided,))
    return Plan(table, None, actions, not_planned).document()


def _words(error: Exception) -> str:
    if isinstance(error, LakewardError):
        return f"{error.what} ({error.why})" if error.why else error.what
    return f"{type(error).__name__}: {error}"
