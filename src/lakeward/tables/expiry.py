"""Expiry of an Iceberg table: one commit removes the snapshots, then the files that only they named are deleted.

A file is deleted only if it is this table's alone: below its location, named by no other table, below no other table's
location, and not what `version-hint.text` leads readers without the catalog to. Iceberg's own procedure deletes
whatever a snapshot named, also files that `add_files` took in from elsewhere. A process that dies after the commit
leaves unreferenced files, which orphan removal deletes with the same care.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

import structlog

from lakeward.connectors.iceberg.expire import expire_snapshots, lost_refs
from lakeward.connectors.iceberg.file_io import files_of
from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import LakewardError, Refused
from lakeward.platform.text import count, listed, word
from lakeward.registry.maintenance import Figures
from lakeward.tables.act.server import Run
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.facts import TableFacts, gc_disabled
from lakeward.tables.guard.locations import canonical
from lakeward.tables.guard.owners import Others, Owners, inside, key
from lakeward.tables.guard.positions import off_main
from lakeward.tables.observe import iceberg
from lakeward.tables.observe.named import paths_of, statistics_of
from lakeward.tables.observe.references import hinted
from lakeward.tables.plan.expire import expirable
from lakeward.tables.plan.model import Action
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from datetime import datetime

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from lakeward.spec.model.policy import Expire
    from lakeward.tables.guard.actor import TableLease

log = structlog.get_logger(__name__)

TRIES: Final = 10
"""Commits of an expiry: a busy stream commits between two of them."""
SAMPLE: Final = 20
_PAUSE_S: Final = 0.1
_AT_ONCE: Final = 16  # files deleted in parallel on an object store
_CHECKED: Final = 500  # files between two looks at the lease and the time
_KINDS: Final = {
    "data": "deleted_data_files_count",  # data and delete files
    "manifest": "deleted_manifest_files_count",
    "list": "deleted_manifest_lists_count",
    "statistics": "deleted_statistics_files_count",
}


class Unreachable:
    """The files that only the snapshots that go name: path -> kind.

    Manifests of the snapshots that go are read once, those of the others as they appear; a file that once left the set
    never comes back, so a commit in between costs only its own manifests.
    """

    def __init__(self, table: Table, going: Collection[int]) -> None:
        metadata, io = table.metadata, table.io
        expired = [each for each in metadata.snapshots if each.snapshot_id in going]
        stay = [each for each in metadata.snapshots if each.snapshot_id not in going]
        self._referenced: set[str] = set()
        self._lists: set[str] = set()
        still_referenced = {each.manifest_path for snapshot in stay for each in snapshot.manifests(io)}
        dropped = {each.manifest_path for snapshot in expired for each in snapshot.manifests(io)} - still_referenced
        self.files: dict[str, str] = {}
        for path in dropped:
            self.files[path] = "manifest"
            self.files |= dict.fromkeys(paths_of(path, io), "data")
        self.files |= {each.manifest_list: "list" for each in expired}
        self.files |= dict.fromkeys(_statistics(metadata, going), "statistics")
        self.keep(table, going)

    def keep(self, table: Table, going: Collection[int]) -> None:
        """Take out what the snapshots other than `going` name in this version of the table."""
        metadata, io = table.metadata, table.io
        for path in statistics_of(metadata) - _statistics(metadata, going):
            self.files.pop(path, None)
        for snapshot in metadata.snapshots:
            if snapshot.snapshot_id in going or snapshot.manifest_list in self._lists:
                continue
            for manifest in snapshot.manifests(io):
                self._keep(manifest, table)
            self._lists.add(snapshot.manifest_list)
            self.files.pop(snapshot.manifest_list, None)

    def _keep(self, manifest: ManifestFile, table: Table) -> None:
        path = manifest.manifest_path
        if path in self._referenced:
            return
        self._referenced.add(path)
        self.files.pop(path, None)
        if self.files:
            for named in paths_of(path, table.io):
                self.files.pop(named, None)


def _statistics(metadata: TableMetadata, of: Collection[int]) -> set[str]:
    every = (*metadata.statistics, *metadata.partition_statistics)
    going = {each.statistics_path for each in every if each.snapshot_id in of}
    return going - {each.statistics_path for each in every if each.snapshot_id not in of}


def outside(owners: Owners, table: Table, going: Collection[int]) -> list[str]:
    """The files outside of the table's location that only the snapshots that go name, sorted.

    Costs little on a table that names none: its manifests are known.
    """
    suspects = owners.outside(table)
    if not suspects:
        return []
    found = Unreachable(table, going)
    return sorted(path for path in found.files if path in suspects and not inside(path, table.metadata.location))


@dataclass
class Expiry:
    """One expiry of one table.

    Attributes:
        table: as it was loaded for the plan.
        facts: of that version.
        action: the planned action.
        now: the moment the plan was made for.
        policy: of the table.
        checked: stream -> the snapshot of its position that the plan found on main.
        mine: the lease.
        until: when it has to end, by the monotonic clock.
        figures: for the ledger.
        words: what it left in place and why.
        went: the snapshots it removed.
    """

    site: MaintenanceContext
    table: Table
    facts: TableFacts
    action: Action
    now: datetime
    policy: Expire
    checked: dict[str, int]
    mine: TableLease
    until: float
    figures: Figures = field(default_factory=Figures)
    words: str = ""
    went: set[int] = field(default_factory=set)

    def run(self) -> Run:
        """Commit, then delete; an error is in the result."""
        run = Run()
        done = attempt(f"expiry of table {self.facts.table}", self._carried_out)  # judged by the metadata, as an engine
        if isinstance(done, Failure):
            self.mine.check()
            run.error = done.words
        else:
            run.returned = done
        run.timed_out = bool(run.error) and monotonic() >= self.until
        return run

    def _carried_out(self) -> list[dict[str, object]]:
        promised = expirable(self.facts, self.action.cutoff, self.action.retain_last, self.now)
        unreachable = Unreachable(self.table, promised)
        failpoints.hit("expire-read")
        after = self._commit(promised, unreachable)
        failpoints.hit("expire-committed")
        unreachable.keep(after, ())
        return self._deleted(unreachable.files, after)

    def _commit(self, promised: set[int], unreachable: Unreachable) -> Table:
        """Remove the promised snapshots that may still go; returns the table after it.

        Raises:
            Refused: the table was replaced, a position is off main, or others committed each time.
        """
        from pyiceberg.exceptions import CommitFailedException

        for _ in range(TRIES):
            self._go_on()
            now = self._load()
            facts = iceberg.table_facts(
                now,
                lambda *_: self.facts.profile.thresholds,
                replace(self.facts.profile, snapshot_id=now.metadata.current_snapshot_id),  # no manifest is read
            )
            if not facts.continues(self.facts):
                raise self._stopped("main was moved back, or its content replaced, since it was planned")
            problems = off_main(facts, self.checked)
            if problems:
                raise self._stopped(problems[0].sentence)
            if gc_disabled(facts.properties):
                raise self._stopped("gc.enabled is false now: its files may belong to another table")
            if dangling := facts.dangling():
                raise self._stopped(dangling)
            going = expirable(facts, self.action.cutoff, self.action.retain_last, self.now) & promised
            dropped = facts.outlived(self.now) & self.facts.outlived(self.now)
            if not promised & facts.by_id().keys() and not dropped:
                raise self._stopped("another writer expired every snapshot that was to go")
            if not going and not dropped:
                raise self._stopped("other commits need every snapshot that was to go")
            unreachable.keep(now, going)
            try:
                expire_snapshots(self.site.catalog, now, going, dropped)
            except CommitFailedException:
                sleep(_PAUSE_S)
                continue
            self.went = going
            after = self._load()
            self._nothing_lost(lost_refs(self.site.catalog, now, after), now)
            return after
        raise self._stopped(f"other commits came first {TRIES} times")

    def _nothing_lost(self, lost: dict[str, int], before: Table) -> None:
        """Raise before any file is deleted if the commit took refs along that another process had just set."""
        if not lost:
            return
        name = self.facts.table
        raise LakewardError(
            f"Expiry of {name} removed {listed(sorted(lost))}, which was set at the same time",
            why="the catalog compares only the refs of the request. No file was deleted, and snapshot "
            f"{listed(sorted({str(each) for each in lost.values()}))} is still in {before.metadata_location}",
            next=f"lakeward tables hold {word(name)} --until TIME, so that orphan removal leaves the files; then "
            "register that metadata file as a table of its own",
            code="LW-4252",
        )

    def _load(self) -> Table:
        now = self.site.load(self.facts.table)
        was = self.table.metadata
        if now.metadata.table_uuid != was.table_uuid or now.metadata.location != was.location:
            raise self._stopped("the table was replaced or moved")
        return now

    def _go_on(self) -> None:
        self.mine.check()
        if monotonic() >= self.until:
            raise self._stopped("its time was over")

    def _stopped(self, why: str) -> Refused:
        name = self.facts.table
        return Refused(
            f"Expiry of {name} stopped", why=f"{why}.", next=f"lakeward tables plan {word(name)}", code="LW-4100"
        )

    def _deleted(self, files: dict[str, str], after: Table) -> list[dict[str, object]]:
        """The snapshots are expired: a failure from here on leaves files, which orphan removal deletes."""
        done = attempt(f"files of table {self.facts.table}", lambda: self._delete(files, after))
        if not isinstance(done, Failure):
            return [done]
        self.mine.check()
        self.words = f"its files are left to orphan removal: {done.what if done.foreseen else done.why}"
        return []

    def _delete(self, files: dict[str, str], after: Table) -> dict[str, object]:
        """Delete the files that are this table's alone; returns how many by kind, as Iceberg's procedure does."""
        location = after.metadata.location
        name = self.facts.table
        read = {key(each.path) for each in hinted(after, files_of(self.site.runtime.lake, after).content)}
        with Owners.of(self.site) as owners:
            others = owners.others(after.name())
            spared = {path: why for path in files if (why := self._spared(path, location, others, read))}
        self.figures |= {"spared_files": len(spared)}
        if spared:
            reasons = Counter(spared.values())
            self.figures |= {"spared": dict(reasons), "sample": sorted(spared)[:SAMPLE]}
            listed_reasons = [f"{number} ({why})" for why, number in reasons.most_common(3)]
            self.words = f"{count(len(spared), 'file')} spared: {listed(listed_reasons)}, e.g. {min(spared)}"
            log.warning("Files spared by expiry", table=name, files=len(spared), reasons=dict(reasons))
        going = [path for path in files if path not in spared]
        deleted = self._remove(going, after)
        self.figures |= {"deleted_files": len(deleted)}
        if len(deleted) < len(going):
            rest = count(len(going) - len(deleted), "file")
            self.words = "; ".join(part for part in (self.words, f"{rest} left to orphan removal") if part)
        kinds = Counter(files[path] for path in deleted)
        return {column: kinds[kind] for kind, column in _KINDS.items()}

    def _spared(self, path: str, location: str, others: Others, read: set[str]) -> str:
        """Why a file is not deleted, as a clause; empty if it is. `read`: keys of what readers need."""
        if read and key(path) in read:
            return "version-hint.text leads readers to it"
        claim = others.claim(path, location)
        if claim:
            return claim
        if not inside(path, location) and self.policy.outside_files != "delete":
            return "it lies outside of the table's location, and expire.outside_files is not delete"
        return others.unknown

    def _remove(self, going: list[str], table: Table) -> list[str]:
        """Delete files, as far as the time and the lease allow; returns those that no longer exist."""
        deleted: list[str] = []
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for start in range(0, len(going), _CHECKED):
                if self.mine.lost.is_set() or monotonic() >= self.until:
                    break
                chunk = going[start : start + _CHECKED]
                failpoints.hit("expire-files")
                done = pool.map(lambda path: _removed(path, table), chunk)
                deleted += [path for path, there in zip(chunk, done, strict=True) if there]
        return deleted


def _removed(path: str, table: Table) -> bool:
    """Delete one file, on a disk with the checksum that Hadoop keeps beside it; False if it could not be deleted."""
    local = canonical(path).rstrip("/")
    try:
        if "://" in local:
            table.io.delete(path)
        else:
            Path(local).unlink(missing_ok=True)
            Path(local).with_name(f".{Path(local).name}.crc").unlink(missing_ok=True)
    except FileNotFoundError:
        return True
    except (OSError, ValueError) as error:
        log.warning("File not deleted; orphan removal repeats it", file=path, error=str(error).splitlines()[0])
        return False
    return True
