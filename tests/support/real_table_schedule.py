"""The schedules of `table_schedule.py` on a real Iceberg table: PyIceberg, a catalog in memory, files on this disk.

Every commit, ref, expiry and removal happens on the table, numbered like the model's snapshots; expiry and orphans are
decided from the table's own metadata and a real listing. Only the clock is the model's: a file's time is set to it.
After every step `wrong` reads the table itself: each file any snapshot names, and the rows of whatever is held.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.table.snapshots import Summary
from pyiceberg.table.update import RemoveSnapshotsUpdate
from table_schedule import WAP_ID, Schedule

from lakeward.connectors.file_access import FileAccess, Folder
from lakeward.platform.runtime import Lake
from lakeward.tables.facts import Ref, TableFacts
from lakeward.tables.observe.references import Reference, references

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

NAME = "model.table"


@dataclass
class RealSchedule(Schedule):
    """One schedule and its table, in a folder of its own.

    Args:
        root: an empty folder; the table stays there for whoever wants to look.
    """

    root: Path = Path()
    _rows: dict[str, int] = field(default_factory=dict)  # file -> the number in its only row
    _entries: dict[str, DataFile] = field(default_factory=dict)
    _seen: set[Path] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.catalog = InMemoryCatalog(f"seed{self.seed}", warehouse=str(self.root))
        self.catalog.create_namespace("model")
        names = {"schema.name-mapping.default": '[{"field-id": 1, "names": ["id"]}]'}  # our files carry no field ids
        made = self.catalog.create_table(NAME, pa.schema([("id", pa.int64())]), properties=names)
        self.here = made.location().rstrip("/").removeprefix("file://")
        Path(self.here, "data").mkdir(exist_ok=True)
        self.disk = FileAccess(Lake(warehouse=str(self.root)))

    def facts(self) -> TableFacts:
        """What the table's own metadata says, at the model's times."""
        self._mirror()
        metadata = self._load().metadata
        known = {each.snapshot_id: each for each in metadata.snapshots}
        snapshots = [
            replace(each, parent=known[each.id].parent_snapshot_id, summary=_wap(known[each.id].summary))
            for each in self.snapshots.values()
            if each.id in known
        ]
        refs = {
            name: Ref("tag" if str(ref.snapshot_ref_type) == "tag" else "branch", ref.snapshot_id)
            for name, ref in metadata.refs.items()
        }
        return replace(super().facts(), snapshots=tuple(snapshots), refs=refs)

    def wrong(self) -> str:
        """What the model misses, and what the table does."""
        self._mirror()
        self._age_files()
        return self._unreadable() or super().wrong()

    def _unreadable(self) -> str:
        table = self._load()
        for each in references(table, set()):
            if each.must and not Path(each.path.removeprefix("file://")).exists():
                return f"{each.path} is gone and snapshot {each.by} names it"
        for at in {self.head, self.staged, *self.reading.values(), *(ref.snapshot_id for ref in self.refs.values())}:
            if at is None or at not in self.held:
                continue
            found = sorted(table.scan(snapshot_id=at).to_arrow()["id"].to_pylist())
            if found != sorted(self._rows[each] for each in self.held[at]):
                return f"snapshot {at} reads as {found}"
        return ""

    # What happens to the table ---------------------------------------------------------------------------------------

    def _load(self) -> Table:
        return self.catalog.load_table(NAME)

    def _write(self, most: int = 3) -> set[str]:
        made = super()._write(most)
        for each in sorted(made):
            self._rows[each] = len(self._rows)
            pq.write_table(pa.table({"id": pa.array([self._rows[each]], pa.int64())}), f"{self.here}/{each}")
        self._age_files()
        return made

    def _entry(self, table: Table, name: str) -> DataFile:
        if name not in self._entries:
            made = parquet_file_to_data_file(table.io, table.metadata, f"{self.here}/{name}")
            made.spec_id = table.metadata.default_spec_id  # taking it out again asks for it
            self._entries[name] = made
        return self._entries[name]

    def _snapshot(self, operation: str, names: frozenset[str] | set[str], summary: dict[str, str] | None = None) -> int:
        had = self._files(self.head)
        self._mirror()
        made = super()._snapshot(operation, names, summary)
        table = self._load()
        with table.transaction() as transaction:
            update = transaction.update_snapshot(summary or {}, branch=None if summary else "main")
            producer = update.overwrite() if had - names else update.fast_append()
            producer._snapshot_id = made  # numbered like the model's, so that one schedule is the same in both
            for each in sorted(names - had):
                producer.append_data_file(self._entry(table, each))
            for each in sorted(had - names):
                producer.delete_data_file(self._entry(table, each))
            producer.commit()
        self._age_files()
        return made

    def _mirror(self) -> None:
        """Refs of the table as the model has them."""
        table = self._load()
        if (
            self.head is not None
            and table.metadata.current_snapshot_id not in (None, self.head)
            and (self.head in {each.snapshot_id for each in table.metadata.snapshots})
        ):
            table.manage_snapshots().set_current_snapshot(snapshot_id=self.head).commit()
            table = self._load()
        moved = {
            name
            for name, ref in table.metadata.refs.items()
            if name != "main" and (name not in self.refs or self.refs[name].snapshot_id != ref.snapshot_id)
        }
        for name in sorted(moved):
            change = table.manage_snapshots()
            tag = str(table.metadata.refs[name].snapshot_ref_type) == "tag"
            (change.remove_tag(name) if tag else change.remove_branch(name)).commit()
            table = self._load()
        held = {each.snapshot_id for each in table.metadata.snapshots}
        for name in sorted(self.refs.keys() - table.metadata.refs.keys()):
            ref, change = self.refs[name], self._load().manage_snapshots()
            if ref.snapshot_id in held:
                make = change.create_tag if ref.kind == "tag" else change.create_branch
                make(ref.snapshot_id, name).commit()

    def _expired(self, expired: set[int]) -> None:
        """Out of the metadata, whatever PyIceberg's own guard would say: it is ours that is on trial."""
        if expired:
            with self._load().transaction() as transaction:
                transaction._apply((RemoveSnapshotsUpdate(snapshot_ids=sorted(expired)),))

    def _remove(self, path: str) -> None:
        super()._remove(path)
        Path(self.here, path).unlink(missing_ok=True)

    def _folders(self) -> Iterator[Folder]:
        self._age_files()
        yield from self.disk.walk(self.here)

    def _references(self) -> Iterator[Reference]:
        table = self._load()
        if self.planted == "main only":
            main = [each for each in table.metadata.snapshots if each.snapshot_id == self.head]
            table.metadata = table.metadata.model_copy(update={"snapshots": main})
        yield from references(table, set())

    def _age_files(self) -> None:
        """Give what was written since the last time the model's time: the real clock is another."""
        at = self.now.timestamp()
        for path in Path(self.here).rglob("*"):
            if path not in self._seen and path.is_file():
                self._seen.add(path)
                os.utime(path, (at, at))


def _wap(summary: Summary | None) -> dict[str, str]:
    held = summary.additional_properties.get(WAP_ID) if summary is not None else None
    return {WAP_ID: held} if held else {}
