"""The files below a table's location, compared with the files its metadata references.

They are stored in an SQLite file, not in memory, so that a table of two million files needs no more memory than one of
ten.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from lakeward.connectors.file_access import Folder
from lakeward.tables.guard.locations import mismatch, relative
from lakeward.tables.observe.references import Reference
from lakeward.tables.plan.orphans import SAMPLE, Survey

TRASH_FOLDER: Final = ".lakeward_orphans"
"""Trash folder below a table's location: one folder a run, named by its time, with the files it removed."""

_TABLES = """
CREATE TABLE files (path TEXT PRIMARY KEY, size INT, at REAL, hidden INT, used INT DEFAULT 0) WITHOUT ROWID;
CREATE TABLE trashed (path TEXT, run TEXT, size INT, PRIMARY KEY (path, run)) WITHOUT ROWID;
CREATE TABLE lost (path TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE VIEW unnamed AS SELECT path, size, at FROM files WHERE used = 0 AND NOT hidden;
"""
_USED = 1  # value of `used` for a file that a table names
_REMOVED = 2  # value of `used` for a removed file


class Listing:
    """One listing of one table. Paths are relative to its location.

    Args:
        location: the table's folder.
        file: the SQLite file; in memory without it.
    """

    def __init__(self, location: str, file: Path | None = None) -> None:
        self.location = location
        self._db = sqlite3.connect(file or ":memory:", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.executescript(_TABLES)
        self.strangers: list[str] = []
        self.mismatched: list[str] = []
        self.elsewhere = 0
        self.spared: Counter[str] = Counter()
        """Other table -> files that it names and this table does not."""

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def add(self, folder: Folder) -> None:
        """Add one listed folder."""
        top, _, rest = folder.path.partition("/")
        if top == TRASH_FOLDER:
            run, _, inside = rest.partition("/")
            rows = [(_join(inside, file.name), run, file.size) for file in folder.files]
            self._db.executemany("INSERT OR REPLACE INTO trashed VALUES (?, ?, ?)", rows)
            return
        stranger = _stranger(folder)
        if stranger:
            self.strangers.append(stranger)
        held = [(_join(folder.path, file.name), file) for file in folder.files]
        self._db.executemany(
            "INSERT OR REPLACE INTO files (path, size, at, hidden) VALUES (?, ?, ?, ?)",
            [(path, each.size, each.modified.timestamp(), _hidden(path)) for path, each in held],
        )

    def refer(self, named: Iterable[Reference], fresh: set[int] | None = None) -> list[str]:
        """Mark the referenced files; returns those among them that this run has already removed.

        Args:
            named: files the table references.
            fresh: snapshots committed since the listing began, whose files may be missing in it. None: all snapshots.
        """
        back = []
        for each in named:
            path = relative(each.path, self.location)
            if path is None:
                self.elsewhere += 1
                if mismatch(each.path, self.location) and len(self.mismatched) < SAMPLE:
                    self.mismatched.append(each.path)
                continue
            row = self._db.execute("SELECT used FROM files WHERE path = ?", (path,)).fetchone()
            if row is None:
                if each.must and fresh is not None and each.by not in fresh:
                    self._db.execute("INSERT OR IGNORE INTO lost VALUES (?)", (path,))
                continue
            if row[0] == _REMOVED:
                back.append(path)
            self._db.execute("UPDATE files SET used = ? WHERE path = ?", (_USED, path))
        return back

    def spare(self, named: Iterable[tuple[str, str]]) -> list[str]:
        """Keep the files that other tables name; returns those among them that this run has already removed.

        A file in the trash folder counts as lost, so that it is restored.

        Args:
            named: (path, table).
        """
        back = []
        for path, table in named:
            row = self._db.execute("SELECT used FROM files WHERE path = ?", (path,)).fetchone()
            if row is None:
                self._db.execute("INSERT OR IGNORE INTO lost SELECT path FROM trashed WHERE path = ?", (path,))
                continue
            if row[0] == _REMOVED:
                back.append(path)
            if row[0] != _USED:
                self.spared[table] += 1
                self._db.execute("UPDATE files SET used = ? WHERE path = ?", (_USED, path))
        return back

    def survey(self, before: datetime) -> Survey:
        """The result; only files written before this moment count as orphans."""
        at = before.timestamp()
        listed, size = self._one("SELECT count(*), total(size) FROM files")
        orphans, waste = self._one("SELECT count(*), total(size) FROM unnamed WHERE at < ?", at)
        young, _ = self._one("SELECT count(*), 0 FROM unnamed WHERE at >= ?", at)
        trashed, held = self._one("SELECT count(*), total(size) FROM trashed")
        lost, _ = self._one("SELECT count(*), 0 FROM lost")
        return Survey(
            listed=listed, listed_bytes=size, orphans=orphans, orphan_bytes=waste, young=young,
            trashed=trashed, trashed_bytes=held, lost=lost, elsewhere=self.elsewhere,
            strangers=tuple(self.strangers[:SAMPLE]), mismatched=tuple(self.mismatched),
            lost_sample=tuple(self.lost(SAMPLE)), sample=tuple(path for path, _ in self.orphans(before, SAMPLE)),
        )  # fmt: skip

    def orphans(self, before: datetime, most: int, after: str = "") -> list[tuple[str, int]]:
        """The next orphans by path, each with its size in bytes."""
        return self._db.execute(
            "SELECT path, size FROM unnamed WHERE at < ? AND path > ? ORDER BY path LIMIT ?",
            (before.timestamp(), after, most),
        ).fetchall()

    def taken(self, path: str) -> None:
        """Record that a file was removed."""
        self._db.execute("UPDATE files SET used = ? WHERE path = ?", (_REMOVED, path))

    def lost(self, most: int = -1) -> list[str]:
        """Referenced files that were not listed."""
        return [row[0] for row in self._db.execute("SELECT path FROM lost ORDER BY path LIMIT ?", (most,))]

    def trashed_but_required(self) -> Iterator[tuple[str, str]]:
        """Referenced files that were not listed and are in the trash folder: (path, run)."""
        with closing(
            self._db.execute("SELECT path, max(run) FROM trashed JOIN lost USING (path) GROUP BY path")
        ) as rows:
            yield from rows

    def runs(self) -> dict[str, tuple[int, int]]:
        """Run -> number and bytes of its files in the trash folder."""
        rows = self._db.execute("SELECT run, count(*), total(size) FROM trashed GROUP BY run")
        return {run: (count, int(size)) for run, count, size in rows}

    def _one(self, statement: str, *values: float) -> tuple[int, int]:
        count, size = self._db.execute(statement, values).fetchone()
        return int(count), int(size)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _hidden(path: str) -> bool:
    """Whether Spark and Iceberg ignore a file: names that begin with a dot or an underscore do not belong to the table.

    A partition folder of a column with such a name is not ignored.
    """
    *folders, name = path.split("/")
    return name[0] in "._" or any(folder[0] in "._" and "=" not in folder for folder in folders)


def strangers_of_delta(folders: Iterable[Folder]) -> Iterator[str]:
    """Foreign files in the folder of a Delta table that a VACUUM would delete (phrases). It skips hidden folders."""
    for folder in folders:
        if folder.path and _hidden(f"{folder.path}/file"):
            continue
        of_others = folder if folder.path else replace(folder, folders=tuple(set(folder.folders) - {"_delta_log"}))
        if stranger := _stranger(of_others):
            yield stranger


def _stranger(folder: Folder) -> str:
    """Foreign content of a folder, as a phrase; empty for none."""
    at = folder.path or "the location itself"
    if {"offsets", "commits"} <= set(folder.folders):
        return f"a checkpoint at {at}"
    if "_delta_log" in folder.folders:
        return f"a Delta table at {at}"
    parent, _, name = folder.path.rpartition("/")
    if parent and name == "metadata" and any(file.name.endswith(".metadata.json") for file in folder.files):
        return f"an Iceberg table at {parent}"
    return ""
