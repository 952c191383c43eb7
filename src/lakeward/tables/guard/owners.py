"""Owners of files: which other tables name a file, and which lie at or above it. Asked before a file is deleted.

A table owns the files below its location that no other table names. For each table of the catalog, and each Delta
table of the warehouse, the files it names outside of its own location are kept in an SQLite file: of most tables none.
Manifests never change, so each is read once; a table whose catalog entry is unchanged is not even loaded. Tables of
catalogs with another name in the same database count too. Tables of catalogs elsewhere cannot be read:
`gc.enabled=false` on a table protects its files from every deletion.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from lakeward.connectors.delta import location as delta_location
from lakeward.connectors.delta.delta_log import LOG, DeltaLog
from lakeward.connectors.delta.folder import Folder
from lakeward.connectors.iceberg import paths_only
from lakeward.platform.boundary import Failure, attempt
from lakeward.spec.sql.names import dotted
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.guard.locations import canonical, nested, real, relative
from lakeward.tables.observe.named import paths_in_log, paths_of, statistics_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

log = structlog.get_logger(__name__)

FILE: Final = "file-owners.sqlite"
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
_DEPTH: Final = 3  # folders below the warehouse in which Delta tables without a name are found
_LOCKED_S: Final = 30.0
_STATISTICS: Final = "statistics"  # in place of a manifest: the metadata file itself names them
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS tables (name TEXT PRIMARY KEY, pointer TEXT, location TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lists (name TEXT, path TEXT, seq INT, PRIMARY KEY (name, path)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS manifests (name TEXT, path TEXT, seq INT, PRIMARY KEY (name, path)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (key TEXT, name TEXT, path TEXT, manifest TEXT, PRIMARY KEY (key, name, manifest))
WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS files_by_manifest ON files (name, manifest);
"""


def key(path: str) -> str:
    """What two spellings of one file have in common: its path without scheme, bucket and host, links resolved.

    Files in two buckets may have one key, so a match only ever keeps a file.
    """
    bare = "/" + _URL.sub("", path, count=1).lstrip("/") if _URL.match(path) else path
    bare = re.sub("/+", "/", bare)
    if "://" in canonical(path):
        return os.path.normpath(bare)
    folder, _, name = bare.rpartition("/")
    found = f"{real(folder)}{name}"
    return os.path.realpath(found) if name in (".", "..") or Path(found).is_symlink() else found


def inside(path: str, location: str) -> bool:
    """Whether a file certainly lies below a location: same scheme and bucket, and no link leads elsewhere."""
    below = relative(path, location)
    if below is None:
        return False
    return ".." not in below.split("/") if "://" in canonical(path) else key(path).startswith(real(location))


@dataclass(frozen=True)
class Others:
    """The other tables at one moment.

    Attributes:
        locations: table -> its location.
        unreadable: table -> why it cannot be read: the files it names are unknown.
    """

    locations: Mapping[str, str]
    unreadable: Mapping[str, str]
    _db: sqlite3.Connection

    @property
    def unknown(self) -> str:
        """Why it is unknown which files other tables name, as a clause; empty if it is known."""
        if not self.unreadable:
            return ""
        name, why = min(self.unreadable.items())
        more = f" and {len(self.unreadable) - 1} more" if len(self.unreadable) > 1 else ""
        return f"table {name}{more} cannot be read ({why}), and may name them"

    def overlap(self, location: str) -> str:
        """Why a folder is not one table's alone, as a clause; empty if it is."""
        return self.sharing(location) or (self.unknown and f"whose its files are is unknown: {self.unknown}")

    def sharing(self, location: str) -> str:
        """Which table that could be read lies in a folder, below or above it, as a clause; empty for none."""
        for name, other in sorted(self.locations.items()):
            if nested(other, location) or nested(location, other):
                return f"table {name} is in {other}, below, above or at its location"
        return ""

    def claim(self, path: str, own: str) -> str:
        """Which other table the file belongs to, as a clause; empty for none.

        Args:
            path: of a file of the table at `own`.
            own: the table's location. A file elsewhere counts as another table's by its path in any bucket.
        """
        bare = key(path)
        for (name,) in self._db.execute("SELECT name FROM files WHERE key = ?", (bare,)):
            if name in self.locations:
                return f"table {name} names it"
        spellings = [canonical(path).rstrip("/")]
        if "://" not in spellings[0] or not inside(path, own):
            spellings.append(bare)
        for spelled in spellings:
            for folder in _folders(spelled):
                if folder in self._folders:
                    return f"it lies below the location of table {self._folders[folder]}"
        return ""

    @cached_property
    def _folders(self) -> dict[str, str]:
        """Spelling of a location, with a slash at the end -> its table."""
        return {
            spelled: name
            for name, location in self.locations.items()
            for spelled in (canonical(location), f"{key(location.rstrip('/'))}/")
        }

    def named_below(self, location: str) -> Iterator[tuple[str, str]]:
        """The files below a location that other tables name: (its path below the location, table)."""
        start = f"{key(location.rstrip('/') + '/any').rpartition('/')[0]}/"
        rows = self._db.execute(
            "SELECT key, name FROM files WHERE key >= ? AND key < ? ORDER BY key", (start, start[:-1] + "0")
        )
        with closing(rows):
            for found, name in rows:
                if name in self.locations:
                    yield found.removeprefix(start), name


def _folders(path: str) -> Iterator[str]:
    """Every folder above a file, with a slash at the end."""
    at = path.rfind("/")
    while at > 0:
        yield path[: at + 1]
        at = path.rfind("/", 0, at)


@dataclass
class Owners:
    """Reads the tables of a deployment and remembers the files they name elsewhere.

    Use as `with Owners.of(site) as owners`.
    """

    site: MaintenanceContext
    _db: sqlite3.Connection = field(repr=False)

    @classmethod
    def of(cls, site: MaintenanceContext) -> Owners:
        """Opens the file of the deployment; without one that can be used, everything is read."""
        file = site.runtime.drivers.parent / FILE
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            return cls(site, _opened(str(file)))
        except (sqlite3.Error, OSError) as error:
            log.warning("Known owners of files not readable; every manifest is read", file=str(file), error=str(error))
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                with suppress(OSError):  # a damaged file is replaced by the next run
                    file.unlink()
            return cls(site, _opened(":memory:"))

    def __enter__(self) -> Owners:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def others(self, table: str | tuple[str, ...]) -> Others:
        """Every other table as it is now.

        Args:
            table: the name of a Delta table, the identifier of an Iceberg table.

        Raises:
            DependencyDown: the catalog does not answer.
        """
        locations: dict[str, str] = {}
        unreadable: dict[str, str] = {}
        own = table if isinstance(table, str) else dotted(table)
        pointers = {dotted(identifier): (identifier, at) for identifier, at in self.site.pointers().items()}
        deltas = {
            str(folder) if name in pointers else name: folder for name, folder in _delta_tables(self.site).items()
        }
        for name, (identifier, pointer) in pointers.items():
            if name == own:
                continue
            look = partial(self._location, name, identifier, pointer)
            location = attempt(f"files of table {name}", look)
            if isinstance(location, Failure):
                unreadable[name] = location.words
            elif location is not None:
                locations[name] = location
        for identifier, at in self.site.neighbours().items():
            name = f"{dotted(identifier[1:])} of catalog {identifier[0]}"
            location = attempt(f"files of table {name}", partial(self._neighbour, name, identifier, at))
            if isinstance(location, Failure):
                unreadable[name] = location.words
            elif location is not None:
                locations[name] = location
        for name, folder in deltas.items():
            if name == own:
                continue
            locations[name] = str(folder)
            read = attempt(f"files of Delta table {name}", partial(self._delta, name, folder))
            if isinstance(read, Failure):
                unreadable[name] = read.words
        return Others(locations, unreadable, self._db)

    def outside(self, table: Table) -> set[str]:
        """The files that a table names outside of its location, by any snapshot and perhaps by a few expired ones."""
        name = dotted(table.name())
        self._read(name, table)
        return {path for (path,) in self._db.execute("SELECT path FROM files WHERE name = ?", (name,))}

    def _known(self, name: str, pointer: str | None) -> str:
        """The location of a table that was read at this state of the catalog; empty if it has to be read."""
        row = self._db.execute("SELECT pointer, location FROM tables WHERE name = ?", (name,)).fetchone()
        return row[1] if row is not None and pointer is not None and row[0] == pointer else ""

    def _location(self, name: str, identifier: tuple[str, ...], pointer: str | None) -> str | None:
        """The location of a table whose files are known now; None if it was dropped meanwhile."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._known(name, pointer) or self._iceberg(name, identifier)
        except NoSuchTableError:
            return None

    def _iceberg(self, name: str, identifier: tuple[str, ...]) -> str:
        table = paths_only.load(self.site.catalog, identifier)
        try:
            self._read(name, table)
        except FileNotFoundError:  # a manifest that an expiry of that table deleted meanwhile
            table = paths_only.load(self.site.catalog, identifier)
            self._read(name, table)
        return table.metadata.location

    def _neighbour(self, name: str, identifier: tuple[str, ...], pointer: str) -> str | None:
        """The location of a table of another catalog, whose files are known now; None if it was dropped meanwhile."""
        if found := self._known(name, pointer):
            return found
        try:
            table = paths_only.static(pointer, self.site.catalog)
            self._read(name, table)
        except FileNotFoundError:
            now = self.site.neighbours().get(identifier)
            if now is None:
                return None
            if now == pointer:
                raise
            table = paths_only.static(now, self.site.catalog)
            self._read(name, table)
        return table.metadata.location

    def _read(self, name: str, table: Table) -> None:
        """Read the manifests that are not known, and forget those that no retained snapshot can have."""
        metadata = table.metadata
        known = self._db.execute("SELECT location FROM tables WHERE name = ?", (name,)).fetchone()
        moved = known is not None and known[0] != metadata.location
        lists = set() if moved else self._paths("lists", name)
        manifests = set() if moved else self._paths("manifests", name)
        seq = self._db.execute("SELECT coalesce(max(seq), 0) + 1 FROM lists WHERE name = ?", (name,)).fetchone()[0]
        current = {snapshot.manifest_list: snapshot for snapshot in metadata.snapshots}
        seen: set[str] = set()
        found: list[tuple[str, str, str, str]] = []
        for path in current.keys() - lists:
            # The lists themselves may lie elsewhere (`write.metadata.path`, a registered copy).
            found += self._elsewhere(name, metadata.location, path, [path])
            for manifest in current[path].manifests(table.io):
                at = manifest.manifest_path
                if at not in manifests and at not in seen:
                    named = [at, *paths_of(at, table.io)]
                    found += self._elsewhere(name, metadata.location, at, named)
                seen.add(at)
        of_itself = {*statistics_of(metadata), table.metadata_location}  # `write.metadata.path`, a registered copy
        statistics = self._elsewhere(name, metadata.location, _STATISTICS, of_itself)
        dropped = lists - current.keys()
        exact = bool(dropped) and self._db.execute("SELECT 1 FROM files WHERE name = ? LIMIT 1", (name,)).fetchone()
        if exact:  # rare: what this table still names decides whether files of others go
            seen |= {
                each.manifest_path for path in current.keys() & lists for each in current[path].manifests(table.io)
            }
        with self._transaction():
            if moved:
                for kind in ("lists", "manifests", "files"):
                    self._db.execute(f"DELETE FROM {kind} WHERE name = ?", (name,))  # noqa: S608  a constant
            self._db.executemany("INSERT OR IGNORE INTO lists VALUES (?, ?, ?)", [(name, p, seq) for p in current])
            self._db.executemany("INSERT OR REPLACE INTO manifests VALUES (?, ?, ?)", [(name, p, seq) for p in seen])
            self._db.execute("DELETE FROM files WHERE name = ? AND manifest = ?", (name, _STATISTICS))
            self._db.executemany("INSERT OR IGNORE INTO files VALUES (?, ?, ?, ?)", [*found, *statistics])
            self._db.executemany("DELETE FROM lists WHERE name = ? AND path = ?", [(name, p) for p in dropped])
            if exact:
                unseen = [(name, path) for path in manifests - seen]
                self._db.executemany("DELETE FROM manifests WHERE name = ? AND path = ?", unseen)
            self._forget(name)
            self._db.execute(
                "INSERT OR REPLACE INTO tables VALUES (?, ?, ?)", (name, table.metadata_location, metadata.location)
            )

    def _forget(self, name: str) -> None:
        """Forget manifests that were last seen in a list before the oldest remaining one: no list has them."""
        oldest = "SELECT coalesce(min(seq), 1 << 62) FROM lists WHERE name = :name"
        named = {"name": name}
        self._db.execute(f"DELETE FROM manifests WHERE name = :name AND seq < ({oldest})", named)  # noqa: S608  a constant
        self._db.execute(
            "DELETE FROM files WHERE name = :name AND manifest NOT IN "
            "(SELECT path FROM manifests WHERE name = :name UNION ALL SELECT path FROM lists WHERE name = :name) "
            "AND manifest <> :statistics",
            {**named, "statistics": _STATISTICS},
        )

    def _elsewhere(
        self, name: str, location: str, manifest: str, paths: Collection[str]
    ) -> list[tuple[str, str, str, str]]:
        return [(key(path), name, path, manifest) for path in paths if not inside(path, location)]

    def _delta(self, name: str, folder: Folder) -> None:
        log = DeltaLog(folder)
        listing = log.listing()
        span = f"{listing.checkpoint()} {min(listing.versions, default=-1)} {max(listing.versions, default=-1)}"
        pointer = f"{span} {log.made(listing)}"  # a table that was made again has the same versions
        if self._known(name, pointer) == str(folder):
            return
        found = self._elsewhere(name, str(folder), LOG, paths_in_log(folder))
        with self._transaction():
            for kind in ("lists", "manifests", "files"):
                self._db.execute(f"DELETE FROM {kind} WHERE name = ?", (name,))  # noqa: S608  a constant
            self._db.executemany("INSERT OR IGNORE INTO files VALUES (?, ?, ?, ?)", found)
            self._db.execute("INSERT OR REPLACE INTO tables VALUES (?, ?, ?)", (name, pointer, str(folder)))

    def _paths(self, kind: str, name: str) -> set[str]:
        return {path for (path,) in self._db.execute(f"SELECT path FROM {kind} WHERE name = ?", (name,))}  # noqa: S608  a constant

    def _transaction(self) -> _Transaction:
        return _Transaction(self._db)


@dataclass(frozen=True)
class _Transaction:
    """One transaction that excludes other writers from its start."""

    db: sqlite3.Connection

    def __enter__(self) -> None:
        self.db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        self.db.execute("COMMIT" if kind is None else "ROLLBACK")


def _opened(file: str) -> sqlite3.Connection:
    db = sqlite3.connect(file, isolation_level=None, timeout=_LOCKED_S)
    try:
        db.executescript(_TABLES)
        [(found,)] = db.execute("PRAGMA quick_check(1)")
        if found != "ok":
            raise sqlite3.DatabaseError(found)
    except sqlite3.Error:
        db.close()
        raise
    return db


def _delta_tables(site: MaintenanceContext) -> dict[str, Folder]:
    """The Delta tables of the warehouse: by name, and by path where they have none."""
    lake = site.runtime.lake
    named = {name: delta_location.folder_of(lake, name) for name in delta_location.tables_of(lake)}
    root = delta_location.warehouse(lake)
    known = set(named.values())
    top = root.parent if isinstance(root, Path) else None  # no search through all objects of a store
    if top is None or not top.is_dir():
        return named
    for depth in range(1, _DEPTH + 1):
        for found in top.glob(f"{'*/' * depth}{LOG}"):
            if found.parent not in known:
                named[str(found.parent)] = found.parent
    return named
