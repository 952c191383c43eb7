"""The folder of a Delta table: a `Path` on a disk, a `StorePath` on an object store."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote, urlparse

from lakeward.connectors.aws import store
from lakeward.connectors.file_access import FileAccess
from lakeward.platform.runtime import Lake

SINGLE_REQUESTS = 50
"""Up to so many files are looked for by a request each; more are looked for in a listing of the folder."""


class Stat(NamedTuple):
    """Size in bytes, and time of the last change in seconds since 1970."""

    st_size: int
    st_mtime: float


@dataclass(frozen=True)
class StorePath:
    """A file or folder of an object store, with the methods of `Path` that reading a Delta table needs.

    Attributes:
        url: `s3a://bucket/key`, not encoded, as Spark names it.
        lake: has the login of the store.
        known: from a listing; None: ask the store.

    Raises:
        SpecError: the store refuses access.
        DependencyDown: the store does not answer.
    """

    url: str
    lake: Lake = field(compare=False, repr=False)
    known: Stat | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str | PurePosixPath) -> StorePath:
        below = str(name).strip("/")  # empty: this folder, as of a `Path`
        return StorePath(f"{self.url}/{below}", self.lake) if below else self

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> StorePath:
        return StorePath(self.url.rpartition("/")[0], self.lake)

    def iterdir(self) -> Iterator[StorePath]:
        """The files and folders in this folder; none if it does not exist."""
        here = next(self._access.walk(self.url))
        for name in here.folders:
            yield self / name
        for entry in here.files:
            yield StorePath(f"{self.url}/{entry.name}", self.lake, Stat(entry.size, entry.modified.timestamp()))

    def below(self) -> set[StorePath]:
        """Every file below this folder, at any depth."""
        return {self / name for name in self._access.below(self.url)}

    def is_dir(self) -> bool:
        return self.known is None and self._access.is_folder(self.url)

    def exists(self) -> bool:
        """Whether it is a file that exists, or a folder with a file in it."""
        return self._access.exists(self.url) or self.is_dir()

    def stat(self) -> Stat:
        """Of a file.

        Raises:
            FileNotFoundError: it does not exist.
        """
        return self.known or Stat(*self._access.stat(self.url))

    def open(self, mode: str = "r", encoding: str | None = None) -> Any:
        """Open a file to read: `r` its whole text, `rb` its bytes, which are read as they are needed.

        Raises:
            FileNotFoundError: it does not exist.
        """
        opened = self._access.open(self.url)
        if mode == "rb":
            return opened
        with opened:
            return io.TextIOWrapper(io.BytesIO(opened.read()), encoding=encoding)

    @property
    def _access(self) -> FileAccess:
        return FileAccess(self.lake)


Folder = Path | StorePath


def plain(uri: str) -> str:
    """The path of a file, not encoded: without a scheme on a disk, with it on an object store.

    Args:
        uri: an encoded URI, as the log and Spark's `_metadata.file_path` have it.
    """
    parsed = urlparse(uri)
    path = unquote(parsed.path)
    return f"s3a://{parsed.netloc}{path}" if store.on_s3(uri) else path


def at(folder: Folder, place: str) -> Folder:
    """A place in the same store as a table.

    Args:
        place: as `plain` returns it, or relative to the table.
    """
    if isinstance(folder, Path):
        return folder / place
    return StorePath(place, folder.lake) if store.on_s3(place) else folder / place


def existing(folder: Folder, files: Collection[Folder]) -> set[Folder]:
    """Those of a table's files that exist; no file is opened.

    Args:
        folder: the table's. Files elsewhere in its store are known too.
    """
    listed: set[StorePath] = set()
    if isinstance(folder, StorePath) and len(files) > SINGLE_REQUESTS:
        listed = folder.below()
        inside = f"{folder}/"
        files = [file for file in files if file in listed or not str(file).startswith(inside)]
    return {file for file in files if file in listed or file.exists()}


def parquet(file: Folder) -> Any:
    """A Parquet file, for `pyarrow.parquet`.

    Raises:
        FileNotFoundError: it does not exist.
    """
    import pyarrow as pa  # the watcher, which needs the paths alone, loads no engine

    return file if isinstance(file, Path) else pa.PythonFile(file.open("rb"), "r")
