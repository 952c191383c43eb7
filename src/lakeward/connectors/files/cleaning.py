"""Cleaning of a file source: files that have landed are deleted or moved to the archive, in place of Spark's cleaner.

Spark deletes a file of a committed batch without a question. An Iceberg or Delta table may name it (`add_files`, a
location, CONVERT): its rows would be lost. Therefore a file is cleaned here, after the owners of files were asked. It
happens when the next batch begins: by then Spark has committed the batch of the file. A killed driver repeats the
batch, and with it the cleaning. What is cleaned is remembered next to the source's log.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol
from urllib.parse import unquote

import structlog

from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files.log import SourceLog, Taken
from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import Blocked
from lakeward.spec.model.file_paths import archive_of, folder_of, local
from lakeward.spec.model.sources import FilesSource

_log = structlog.get_logger(__name__)

MARK: Final = "_cleaned"
"""File in the folder of the source's log: the number of the last entry whose files are cleaned. Spark ignores it."""
_REST: Final = 20.0  # times the duration of a look at the owners, until the next one
_SHOWN: Final = 3
_BUCKET: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://[^/]*/")


class Owners(Protocol):
    """Knows which tables name which files."""

    def below(self, folder: str) -> Mapping[str, str]:
        """The files below a folder that tables name, and why the folder is a table's -> a clause that says it."""
        ...

    def of(self, paths: Collection[str]) -> Mapping[str, str]:
        """The files among `paths` that are a table's -> a clause that says it.

        Raises:
            LakewardError: a table or a catalog cannot be read, so it is not known.
        """
        ...


@dataclass
class Cleaner:
    """Cleans the landed files of one source of one query.

    Args:
        name: the source's name.
        source: the spec; `after` is `archive` or `delete`.
        access: the file system.
        log: the source's log.
        owners: asked before any file goes.
        clock: monotonic seconds.
    """

    name: str
    source: FilesSource
    access: FileAccess
    log: SourceLog
    owners: Owners
    clock: Callable[[], float] = time.monotonic
    _done: int | None = field(default=None, init=False)
    _next: float = field(default=float("-inf"), init=False)

    def check(self, stream: str) -> None:
        """Refuse to start while tables name files of the folder.

        Raises:
            Blocked: names them.
        """
        if folder_of(self.source.path) != local(self.source.path).rstrip("/"):
            return  # a pattern: which of the files it matches is known when they have landed
        found = attempt(f"owners of the files of source {self.name}", lambda: self.owners.below(self.source.path))
        if not isinstance(found, Failure):  # what is not known now is asked again before a file is cleaned
            self._refuse(stream, found)

    def clean(self, stream: str, last: int) -> None:
        """Clean the files of the log's entries up to `last`, all of committed batches.

        Raises:
            Blocked: a table names one of them. None is cleaned.
        """
        first = self._first(last)
        if first > last or self.clock() < self._next:
            return
        files = [_path(each) for each in self.log.taken(first, last)]
        began = self.clock()
        found = attempt(f"owners of the files of source {self.name}", lambda: self.owners.of(files))
        self._next = self.clock() + (self.clock() - began) * _REST
        if isinstance(found, Failure):
            _log.warning("landed files stay until their owners are known", stream=stream, source=self.name,
                         files=len(files), why=found.words)  # fmt: skip
            return
        self._refuse(stream, found)
        for file in files:
            look = attempt(f"landed file {file}", partial(self._clean, file))
            if isinstance(look, Failure):
                _log.warning("landed file stays", stream=stream, file=file, why=look.words)
        self._done = last
        wrote = attempt(f"mark of source {self.name}", lambda: self.access.write(self._mark, str(last).encode()))
        if isinstance(wrote, Failure):  # after a restart only the files of the last batch are cleaned
            _log.warning("what is cleaned is not recorded", stream=stream, source=self.name, why=wrote.words)

    def _first(self, last: int) -> int:
        """The first entry to clean: after the mark; without one only the last, as `after` may have been `keep`."""
        if self._done is None:
            text = attempt(f"mark of source {self.name}", lambda: self.access.text(self._mark))
            known = isinstance(text, str) and text.isdigit()
            self._done = min(int(str(text)), last) if known else last - 1
        return self._done + 1

    def _clean(self, path: str) -> None:
        if self.source.after == "delete":
            self.access.remove(path)
            return
        if not self.access.exists(path):
            return
        target = archived(self.source, path)
        if self.access.exists(target) and self.access.stat(target)[0] != self.access.stat(path)[0]:
            raise FileExistsError(f"{target} exists, with another content")
        self.access.move(path, target)

    def _refuse(self, stream: str, found: Mapping[str, str]) -> None:
        if not found:
            return
        shown = "; ".join(f"{path}: {why}" for path, why in sorted(found.items())[:_SHOWN])
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        does = "deletes" if self.source.after == "delete" else "moves"
        raise Blocked(
            f"Files of source {self.name} of stream {stream} are a table's",
            why=f"after: {self.source.after} {does} a file that has landed, and the table would lose its rows: "
            f"{shown}{more}",
            next=f"set after: keep for source {self.name} in conf/streams/{stream}.yaml, then: lakeward deploy; "
            f"lakeward streams upgrade {stream} --wait; or remove the files from the table, then: "
            f"lakeward streams start {stream}",
            reason="files-of-a-table",
            code="LW-3497",
        )

    @property
    def _mark(self) -> str:
        return f"{self.log.folder}/{MARK}"


def archived(source: FilesSource, path: str) -> str:
    """Where a file goes in the archive: below it with its whole path, of an object store its key, as Spark does it."""
    return f"{archive_of(source.path)}/{_BUCKET.sub('', path).lstrip('/')}"


def _path(file: Taken) -> str:
    return local(unquote(file.path))


def forget(access: FileAccess, folder: str) -> None:
    """Forget what is cleaned: files that land while they are kept are never cleaned later."""
    attempt(f"mark in {folder}", lambda: access.remove(f"{folder}/{MARK}"))
