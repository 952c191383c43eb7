"""File access on the local file system and on the object store of the deployment, by path or URL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any
from uuid import uuid4

from lakeward.connectors.aws import store
from lakeward.platform.runtime import Lake
from lakeward.spec.model.file_paths import local


@dataclass(frozen=True)
class Entry:
    """One file of a folder: its name, its size in bytes, and the time of its last change."""

    name: str
    size: int
    modified: datetime


@dataclass(frozen=True)
class Folder:
    """The contents of one folder. `path` is relative to the first folder of the walk; empty for that folder."""

    path: str
    folders: tuple[str, ...]
    files: tuple[Entry, ...]


@dataclass(frozen=True)
class FileAccess:
    """Reads and writes whole small files. A write is atomic.

    Args:
        lake: has the settings of the object store; None without one.
        systems: PyArrow's file system of a scheme and a bucket, in place of the deployment's object store.

    Raises:
        SpecError: the URL is on an object store, and this deployment has none or has no access.
        DependencyDown: the object store does not answer.
    """

    lake: Lake | None = None
    systems: Callable[[str, str | None], Any] | None = None

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder; empty if the folder does not exist."""
        from pyarrow.fs import FileSelector

        system, path = self._at(folder)
        entries = self._translated(folder, lambda: system.get_file_info(FileSelector(path, allow_not_found=True)))
        return [entry.base_name for entry in entries if entry.is_file]

    def walk(self, folder: str) -> Iterator[Folder]:
        """A folder and all its subfolders, one at a time; empty if it does not exist. Symbolic links are skipped."""
        from pyarrow.fs import FileSelector

        system, root = self._at(folder.rstrip("/"))
        is_local = not store.on_s3(folder)
        pending = [""]
        while pending:
            path = pending.pop()
            selector = FileSelector(f"{root}/{path}".rstrip("/"), allow_not_found=True)
            listed = self._translated(folder, lambda chosen=selector: system.get_file_info(chosen))
            links = _links(selector.base_dir) if is_local and listed else ()
            entries = [entry for entry in listed if entry.base_name not in links]
            below = tuple(sorted(entry.base_name for entry in entries if not entry.is_file))
            files = tuple(Entry(entry.base_name, entry.size, entry.mtime) for entry in entries if entry.is_file)
            yield Folder(path, below, files)
            pending += [f"{path}/{name}".lstrip("/") for name in reversed(below)]

    def below(self, folder: str) -> Iterator[str]:
        """Every file below a folder, at any depth, relative to it; none if it does not exist. A store lists a thousand
        in a request."""
        from pyarrow.fs import FileSelector

        system, root = self._at(folder.rstrip("/"))
        selector = FileSelector(root, recursive=True, allow_not_found=True)
        for entry in self._translated(folder, lambda: system.get_file_info(selector)):
            if entry.is_file:
                yield entry.path.removeprefix(f"{root}/")

    def exists(self, file: str) -> bool:
        """Whether a file of this name exists."""
        system, path = self._at(file)
        return bool(self._translated(file, lambda: system.get_file_info(path)).is_file)

    def is_folder(self, folder: str) -> bool:
        """Whether a folder of this name exists."""
        from pyarrow.fs import FileType

        system, path = self._at(folder)
        return bool(self._translated(folder, lambda: system.get_file_info(path)).type == FileType.Directory)

    def stat(self, file: str) -> tuple[int, float]:
        """A file's size in bytes, and the time of its last change in seconds since 1970.

        Raises:
            FileNotFoundError: it does not exist.
        """
        system, path = self._at(file)
        found = self._translated(file, lambda: system.get_file_info(path))
        if not found.is_file:
            raise FileNotFoundError(file)
        return found.size, found.mtime.timestamp()

    def move(self, file: str, to: str) -> None:
        """Rename a file in the same store. On S3 this is a copy and a delete: if interrupted, both files exist.

        Raises:
            FileNotFoundError: it does not exist.
        """
        system, path = self._at(file)
        _, target = self._at(to)
        if not store.on_s3(to):
            system.create_dir(str(PurePosixPath(target).parent), recursive=True)
        self._translated(file, lambda: system.move(path, target))

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with its contents; a missing folder is not an error."""
        system, path = self._at(folder)
        try:
            self._translated(folder, lambda: system.delete_dir(path.rstrip("/")))
        except FileNotFoundError:
            return

    def text(self, file: str) -> str | None:
        """A file's text, None if it does not exist."""
        content = self.content(file)
        return None if content is None else content.decode(errors="replace")

    def content(self, file: str) -> bytes | None:
        """A file's bytes, None if it does not exist."""
        try:
            with self.open(file) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def open(self, file: str) -> Any:
        """Open a file for random reads.

        Raises:
            FileNotFoundError: it does not exist.
        """
        system, path = self._at(file)
        return self._translated(file, lambda: system.open_input_file(path))

    def write(self, file: str, content: bytes) -> None:
        """Write a file; an existing one is replaced."""
        system, path = self._at(file)
        if store.on_s3(file):
            self._translated(file, lambda: _put(system, path, content))
            return
        folder, name = str(PurePosixPath(path).parent), PurePosixPath(path).name
        staged = f"{folder}/.{name}.{uuid4().hex[:8]}"
        system.create_dir(folder, recursive=True)
        _put(system, staged, content)
        system.move(staged, path)

    def remove(self, file: str) -> None:
        """Remove a file; a missing file is not an error."""
        system, path = self._at(file)
        try:
            self._translated(file, lambda: system.delete_file(path))
        except FileNotFoundError:
            return

    def _at(self, place: str) -> tuple[Any, str]:
        """The file system of a path or URL, and the path in it."""
        from pyarrow.fs import LocalFileSystem

        if not store.on_s3(place):
            return LocalFileSystem(), local(place)
        scheme, path = place.split("://", 1)
        if self.systems is not None:
            return self.systems(scheme, path.partition("/")[0]), path
        return store.system(self.lake, place), path

    def _translated(self, place: str, call: Any) -> Any:
        """The result of a file system call; errors of an object store are raised as Lakeward's."""
        try:
            return call()
        except FileNotFoundError:
            raise
        except OSError as error:
            if self.lake is None or not store.on_s3(place):
                raise
            keys = "" if self.systems is None else "the catalog's credentials of the table"
            raise store.error_of(self.lake, place, str(error), keys) from None


def _put(system: Any, path: str, content: bytes) -> None:
    with system.open_output_stream(path, compression=None) as stream:  # the default compresses a name that ends in .gz
        stream.write(content)


def _links(folder: str) -> set[str]:
    """The names of the symbolic links in a local folder; empty if it was removed."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries if entry.is_symlink()}
    except FileNotFoundError:
        return set()
