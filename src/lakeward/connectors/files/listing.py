"""Files named once and then read in steps: which, in what order, and whether they are still what they were.

Their order is that of their times, so that what arrives later comes last. A position counts the files from the first
on and holds a hash over path, size and time of each: a file that was changed, taken away or put in between gives
another hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lakeward.connectors.files.log import Taken
from lakeward.platform.errors import Refused, SpecError
from lakeward.spec.model.file_paths import folder_of, here, local

_DIGITS, _SHOWN = 32, 5


@dataclass(frozen=True)
class Listed:
    """One file: absolute path, bytes, time of its last change in nanoseconds since 1970."""

    path: Path
    size: int
    modified: int

    @property
    def url(self) -> str:
        """As Spark calls it."""
        return self.path.as_uri()


@dataclass(frozen=True)
class Listing:
    """The files of a pattern at one moment.

    Attributes:
        pattern: absolute, as it was asked for.
        since: files changed before this time are left out; None: none are.
        files: in order.
    """

    pattern: str
    since: datetime | None
    files: tuple[Listed, ...]

    @property
    def start(self) -> str:
        """The position before the first file. What was asked for is part of it: it tells two listings apart."""
        since = {} if self.since is None else {"since": self.since.astimezone(UTC).isoformat()}
        return _text({"files": 0, "of": self.pattern, **since})

    @property
    def end(self) -> str:
        """The position after the last file."""
        return self.at(len(self.files))

    def at(self, count: int) -> str:
        """The position after so many files."""
        return self.start if count == 0 else _text({"files": count, "hash": self._hashes[count - 1]})

    def next(self, at: str, most: int) -> str | None:
        """The position at most `most` files on; None at the end."""
        count = files_in(at)
        return None if count >= len(self.files) else self.at(min(len(self.files), count + most))

    def within(self, start: str, end: str) -> tuple[Listed, ...]:
        """The files after one position up to another."""
        return self.files[files_in(start) : files_in(end)]

    def between(self, start: str, end: str) -> list[Taken]:
        """The same, as the log of a source tells them."""
        return [Taken(each.url, each.modified // 1_000_000, 0) for each in self.within(start, end)]

    def canonical(self, offset: str) -> str:
        """A position of ours has one form only."""
        return offset

    def entry_of(self, position: str) -> int:
        """How many files a position stands for."""
        return files_in(position)

    def goes_on(self, position: str, since: str) -> None:
        """Refuse to go on after files that are not what they were when they landed.

        Args:
            position: an earlier run came so far.
            since: when (RFC 3339).

        Raises:
            Refused: names those that were changed after that.
        """
        count = files_in(position)
        if count <= len(self.files) and self.at(count) == position:
            return
        moment = datetime.fromisoformat(since).timestamp() * 1e9
        touched = [str(each.path) for each in self.files if each.modified > moment]
        raise Refused(
            f"The files of {self.pattern} are not what they were",
            why=f"{count} of them have landed, and one of those was changed, removed, or another came between them"
            + (f"; changed since {since}: {_some(touched)}" if touched else ""),
            next="put them back as they were; or land all of them into another new table",
            code="LW-3050",
        )

    @staticmethod
    def unchanged(files: Iterable[Listed]) -> None:
        """Refuse files that were changed while they were read.

        Raises:
            Refused: names them.
        """
        changed = [str(each.path) for each in files if _stat(each.path) != (each.size, each.modified)]
        if changed:
            raise Refused(
                "Files were changed or removed while they were read",
                why=_some(changed),
                next="wait until nobody writes there, then give the same command again; nothing of them has landed",
                code="LW-3053",
            )

    @cached_property
    def _hashes(self) -> list[str]:
        rolled, found = "", []
        for each in self.files:
            one = f"{rolled}\n{each.path}\n{each.size}\n{each.modified}"
            rolled = hashlib.sha256(one.encode()).hexdigest()[:_DIGITS]
            found.append(rolled)
        return found


def look(pattern: str, since: datetime | None = None, until: datetime | None = None) -> Listing:
    """List files now.

    Args:
        pattern: a file, a folder (with those below it) or a pattern such as `in/*/*.json`; `**` is any folders.
        since, until: times of their last change, from (inclusive) and to (exclusive).

    Raises:
        SpecError: it is on another machine, or there are none.
    """
    if not here(pattern):
        raise SpecError(
            f"Files at {pattern} cannot be landed from here yet",
            why="files are listed with their sizes and times on this machine only",
            next="copy them to a folder of this machine",
            code="LW-3051",
        )
    whole = str(Path(local(pattern)).expanduser().absolute())
    folder = folder_of(whole)
    named = [Path(whole)] if Path(whole).exists() else Path(folder or "/").glob(whole[len(folder) + 1 :] or "*")
    paths = {file for each in named for file in (each.rglob("*") if each.is_dir() else [each])}
    low, high = (None if each is None else each.timestamp() * 1e9 for each in (since, until))
    found = []
    for path in paths:
        if path.name.startswith((".", "_")) or not path.is_file():
            continue  # what is being written, and what other tools note beside their files
        size, modified = _stat(path)
        if size and (low is None or modified >= low) and (high is None or modified < high):
            found.append(Listed(path, size, modified))
    if not found:
        bounds = " in that range of time" if since or until else ""
        raise SpecError(
            f"There are no files at {pattern}{bounds}",
            why=f"looked for {whole}; empty ones and names that begin with . or _ do not count",
            next="give --from-files a file, a folder, or a quoted pattern such as 'archive/*/*.json'",
            code="LW-3052",
        )
    return Listing(whole, since, tuple(sorted(found, key=lambda one: (one.modified, str(one.path)))))


def files_in(position: str) -> int:
    """How many files a position of a listing counts."""
    return int(json.loads(position)["files"])


def path_of(url: str) -> Path:
    """The file of a URL."""
    return Path(unquote(urlsplit(url).path))


def _stat(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return (-1, -1)
    return (found.st_size, found.st_mtime_ns)


def _text(document: dict[str, object]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
