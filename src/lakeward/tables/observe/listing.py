"""The files below a table's location, held against what its metadata names.

They stand in a file of SQLite, not in memory: a table of two million files is looked at like one of ten.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final

from lakeward.connectors.file_access import Folder
from lakeward.tables.guard.locations import mismatch, relative
from lakeward.tables.observe.references import Reference
from lakeward.tables.plan.orphans import SAMPLE, Survey

ASIDE: Final = ".lakeward_orphans"
"""Folder below a table's location; in it one folder a run, named by its time, with the files it put aside."""

_TABLES = """
CREATE TABLE files (path TEXT PRIMARY KEY, size INT, at REAL, hidden INT, used INT DEFAULT 0) WITHOUT ROWID;
CREATE TABLE aside (path TEXT, run TEXT, size INT, PRIMARY KEY (path, run)) WITHOUT ROWID;
CREATE TABLE lost (path TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE VIEW unnamed AS SELECT path, size, at FROM files WHERE used = 0 AND NOT hidden;
"""
_GONE = 2  # `used` of a file that was taken


class Listing:
    """One look at one table. Paths are relative to its location.

    Args:
        location: the table's folder.
        file: where it is kept; in memory without.
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

    def close(self) -> None:
        """Let the file go."""
        self._db.close()

    def add(self, folder: Folder) -> None:
        """One folder as it was listed."""
        top, _, rest = folder.path.partition("/")
        if top == ASIDE:
            run, _, inside = rest.partition("/")
            rows = [(_join(inside, each.name), run, each.size) for each in folder.files]
            self._db.executemany("INSERT OR REPLACE INTO aside VALUES (?, ?, ?)", rows)
            return
        stranger = _stranger(folder)
        if stranger:
            self.strangers.append(stranger)
        held = [(_join(folder.path, each.name), each) for each in folder.files]
        self._db.executemany(
            "INSERT OR REPLACE INTO files (path, size, at, hidden) VALUES (?, ?, ?, ?)",
            [(path, each.size, each.modified.timestamp(), _hidden(path)) for path, each in held],
        )

    def refer(self, named: Iterable[Reference], fresh: set[int] | None = None) -> list[str]:
        """Mark what the metadata names; the paths among it that were taken before.

        Args:
            named: files the table needs.
            fresh: snapshots committed since the listing began: their files need not be in it. None: all are.
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
            if row[0] == _GONE:
                back.append(path)
            self._db.execute("UPDATE files SET used = 1 WHERE path = ?", (path,))
        return back

    def survey(self, before: datetime) -> Survey:
        """What was found; only files written before this moment count as orphans."""
        at = before.timestamp()
        listed, size = self._one("SELECT count(*), total(size) FROM files")
        orphans, waste = self._one("SELECT count(*), total(size) FROM unnamed WHERE at < ?", at)
        young, _ = self._one("SELECT count(*), 0 FROM unnamed WHERE at >= ?", at)
        aside, held = self._one("SELECT count(*), total(size) FROM aside")
        lost, _ = self._one("SELECT count(*), 0 FROM lost")
        return Survey(
            listed=listed, listed_bytes=size, orphans=orphans, orphan_bytes=waste, young=young,
            aside=aside, aside_bytes=held, lost=lost, elsewhere=self.elsewhere,
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
        """Remember that a file was taken."""
        self._db.execute("UPDATE files SET used = ? WHERE path = ?", (_GONE, path))

    def lost(self, most: int = -1) -> list[str]:
        """Files the table needs and that were not listed."""
        return [row[0] for row in self._db.execute("SELECT path FROM lost ORDER BY path LIMIT ?", (most,))]

    def put_aside(self) -> Iterator[tuple[str, str]]:
        """Of the files the table needs and that were not listed, those an earlier run put aside: (path, its run)."""
        with closing(self._db.execute("SELECT path, max(run) FROM aside JOIN lost USING (path) GROUP BY path")) as rows:
            yield from rows

    def runs(self) -> dict[str, tuple[int, int]]:
        """Run -> files and bytes it put aside that are still there."""
        rows = self._db.execute("SELECT run, count(*), total(size) FROM aside GROUP BY run")
        return {run: (count, int(size)) for run, count, size in rows}

    def _one(self, statement: str, *values: float) -> tuple[int, int]:
        count, size = self._db.execute(statement, values).fetchone()
        return int(count), int(size)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _hidden(path: str) -> bool:
    """Whether Spark and Iceberg would not see a file: what begins with a dot or a low line is not the table's own.

    A partition by a column whose name begins so is seen.
    """
    *folders, name = path.split("/")
    return name[0] in "._" or any(each[0] in "._" and "=" not in each for each in folders)


def _stranger(folder: Folder) -> str:
    """What stands here that is not this table's; empty for nothing."""
    at = folder.path or "the location itself"
    if {"offsets", "commits"} <= set(folder.folders):
        return f"a checkpoint at {at}"
    if "_delta_log" in folder.folders:
        return f"a Delta table at {at}"
    parent, _, name = folder.path.rpartition("/")
    if parent and name == "metadata" and any(each.name.endswith(".metadata.json") for each in folder.files):
        return f"an Iceberg table at {parent}"
    return ""
