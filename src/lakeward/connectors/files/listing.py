"""File listing of a backfill: the files of a pattern, their order, and a check that they did not change.

Files are ordered by modification time, so that files that arrive later come last. A position is the number of files
from the first one and a hash over their paths, sizes and times: a file that was changed, removed or added in between
gives another hash.
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
    """One file: absolute path, size in bytes, modification time in nanoseconds since 1970."""

    path: Path
    size: int
    modified: int

    @property
    def url(self) -> str:
        """The file's URL, as Spark writes it."""
        return self.path.as_uri()


@dataclass(frozen=True)
class Listing:
    """The files of a pattern at one moment.

    Attributes:
        pattern: the absolute pattern of the request.
        since: files changed before this time are excluded; None: no limit.
        files: in order.
    """

    pattern: str
    since: datetime | None
    files: tuple[Listed, ...]

    @property
    def start(self) -> str:
        """The position before the first file. It contains the pattern, which distinguishes two listings."""
        since = {} if self.since is None else {"since": self.since.astimezone(UTC).isoformat()}
        return _text({"files": 0, "of": self.pattern, **since})

    @property
    def end(self) -> str:
        """The position after the last file."""
        return self.at(len(self.files))

    def at(self, count: int) -> str:
        """The position after `count` files."""
        return self.start if count == 0 else _text({"files": count, "hash": self._hashes[count - 1]})

    def next(self, at: str, most: int) -> str | None:
        """The position at most `most` files later; None at the end."""
        count = files_in(at)
        return None if count >= len(self.files) else self.at(min(len(self.files), count + most))

    def within(self, start: str, end: str) -> tuple[Listed, ...]:
        """The files after one position up to another."""
        return self.files[files_in(start) : files_in(end)]

    def between(self, start: str, end: str) -> list[Taken]:
        """The same files, in the form of a source log."""
        return [Taken(file.url, file.modified // 1_000_000, 0) for file in self.within(start, end)]

    def canonical(self, offset: str) -> str:
        """The position itself: it has one form only."""
        return offset

    def entry_of(self, position: str) -> int:
        """The number of files that a position counts."""
        return files_in(position)

    def goes_on(self, position: str, since: str) -> None:
        """Refuse to continue after landed files that have changed since.

        Args:
            position: the position that an earlier run reached.
            since: the time of that run (RFC 3339).

        Raises:
            Refused: names the files that changed after that time.
        """
        count = files_in(position)
        if count <= len(self.files) and self.at(count) == position:
            return
        moment = datetime.fromisoformat(since).timestamp() * 1e9
        changed = [str(file.path) for file in self.files if file.modified > moment]
        raise Refused(
            f"Cannot continue the backfill from {self.pattern}: landed files changed",
            why=f"{count} files have landed; one of them was changed or removed, or another file was added between them"
            + (f"; changed since {since}: {_some(changed)}" if changed else ""),
            next="restore these files, or land all files into another new table",
            code="LW-3050",
        )

    @staticmethod
    def unchanged(files: Iterable[Listed]) -> None:
        """Refuse files that changed while they were read.

        Raises:
            Refused: names them.
        """
        changed = [str(file.path) for file in files if _stat(file.path) != (file.size, file.modified)]
        if changed:
            raise Refused(
                "Files were changed or removed while they were read",
                why=_some(changed),
                next="wait until no process writes there, then repeat the command; nothing of these files has landed",
                code="LW-3053",
            )

    @cached_property
    def _hashes(self) -> list[str]:
        rolled, hashes = "", []
        for file in self.files:
            text = f"{rolled}\n{file.path}\n{file.size}\n{file.modified}"
            rolled = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
            hashes.append(rolled)
        return hashes


def list_files(pattern: str, since: datetime | None = None, until: datetime | None = None) -> Listing:
    """List the files of a pattern now.

    Args:
        pattern: a file, a folder (with its subfolders) or a pattern such as `in/*/*.json`; `**` matches any folders.
        since, until: limits of the modification time, from (inclusive) and to (exclusive).

    Raises:
        SpecError: the pattern is on another machine, or matches no file.
    """
    if not here(pattern):
        raise SpecError(
            f"Cannot land files at {pattern} yet",
            why="files can be listed with size and time on the local file system only",
            next="copy them to a local folder and name that folder",
            code="LW-3051",
        )
    whole = str(Path(local(pattern)).expanduser().absolute())
    folder = folder_of(whole)
    named = [Path(whole)] if Path(whole).exists() else Path(folder or "/").glob(whole[len(folder) + 1 :] or "*")
    paths = {file for path in named for file in (path.rglob("*") if path.is_dir() else [path])}
    low, high = (None if limit is None else limit.timestamp() * 1e9 for limit in (since, until))
    files = []
    for path in paths:
        if path.name.startswith((".", "_")) or not path.is_file():
            continue  # files that are still being written, and metadata of other tools
        size, modified = _stat(path)
        if size and (low is None or modified >= low) and (high is None or modified < high):
            files.append(Listed(path, size, modified))
    if not files:
        bounds = " in that range of time" if since or until else ""
        raise SpecError(
            f"There are no files at {pattern}{bounds}",
            why=f"no file matches {whole}; empty files and names that begin with . or _ are excluded",
            next="give --from-files a file, a folder, or a quoted pattern such as 'archive/*/*.json'",
            code="LW-3052",
        )
    return Listing(whole, since, tuple(sorted(files, key=lambda file: (file.modified, str(file.path)))))


def files_in(position: str) -> int:
    """The number of files that a position of a listing counts."""
    return int(json.loads(position)["files"])


def path_of(url: str) -> Path:
    """The file of a URL."""
    return Path(unquote(urlsplit(url).path))


def _stat(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return (-1, -1)
    return (status.st_size, status.st_mtime_ns)


def _text(document: dict[str, object]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
