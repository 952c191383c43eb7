"""Files of this machine and of the deployment's object store, by one name each: a path, or a URL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import uuid4

from lakeward.connectors.aws import store
from lakeward.platform.runtime import Lake


@dataclass(frozen=True)
class Entry:
    """One file of a folder: its name in it, its size in bytes, when it was last written."""

    name: str
    size: int
    modified: datetime


@dataclass(frozen=True)
class Folder:
    """What stands in one folder. `path` is relative to where a walk began, empty for that folder itself."""

    path: str
    folders: tuple[str, ...]
    files: tuple[Entry, ...]


@dataclass(frozen=True)
class FileAccess:
    """Reads and writes small files whole. A file that is written is there whole or not at all.

    Args:
        lake: knows the object store; None where there is none to know.

    Raises:
        SpecError: a place on an object store, and this deployment has none, or may not go in.
        DependencyDown: the store does not answer.
    """

    lake: Lake | None = None

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder; none if it does not exist."""
        from pyarrow.fs import FileSelector

        system, path = self._at(folder)
        found = self._asked(folder, lambda: system.get_file_info(FileSelector(path, allow_not_found=True)))
        return [each.base_name for each in found if each.is_file]

    def walk(self, folder: str) -> Iterator[Folder]:
        """A folder and every one below it, one at a time; what does not exist is empty. Links are left out."""
        from pyarrow.fs import FileSelector

        system, root = self._at(folder.rstrip("/"))
        here = not store.on_s3(folder)
        waiting = [""]
        while waiting:
            path = waiting.pop()
            selector = FileSelector(f"{root}/{path}".rstrip("/"), allow_not_found=True)
            found = self._asked(folder, lambda wanted=selector: system.get_file_info(wanted))
            held = [each for each in found if not (here and Path(each.path).is_symlink())]
            below = tuple(sorted(each.base_name for each in held if not each.is_file))
            files = tuple(Entry(each.base_name, each.size, each.mtime) for each in held if each.is_file)
            yield Folder(path, below, files)
            waiting += [f"{path}/{name}".lstrip("/") for name in reversed(below)]

    def exists(self, file: str) -> bool:
        """Whether there is a file of this name."""
        system, path = self._at(file)
        return bool(self._asked(file, lambda: system.get_file_info(path)).is_file)

    def move(self, file: str, to: str) -> None:
        """Give a file another name in the same store. On S3 that is a copy and a delete: broken off, both are there.

        Raises:
            FileNotFoundError: it does not exist.
        """
        system, path = self._at(file)
        _, target = self._at(to)
        if not store.on_s3(to):
            system.create_dir(str(PurePosixPath(target).parent), recursive=True)
        self._asked(file, lambda: system.move(path, target))

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with everything in it; one that is gone is no mistake."""
        system, path = self._at(folder)
        try:
            self._asked(folder, lambda: system.delete_dir(path.rstrip("/")))
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
        """A file to read from, at any place of it.

        Raises:
            FileNotFoundError: it does not exist.
        """
        system, path = self._at(file)
        return self._asked(file, lambda: system.open_input_file(path))

    def write(self, file: str, content: bytes) -> None:
        """Put a file in its place, over one that is there."""
        system, path = self._at(file)
        if store.on_s3(file):
            self._asked(file, lambda: _put(system, path, content))
            return
        folder, name = str(PurePosixPath(path).parent), PurePosixPath(path).name
        staged = f"{folder}/.{name}.{uuid4().hex[:8]}"
        system.create_dir(folder, recursive=True)
        _put(system, staged, content)
        system.move(staged, path)

    def remove(self, file: str) -> None:
        """Remove a file; one that is gone is no mistake."""
        system, path = self._at(file)
        try:
            self._asked(file, lambda: system.delete_file(path))
        except FileNotFoundError:
            return

    def _at(self, place: str) -> tuple[Any, str]:
        """The file system of a place, and its path there."""
        from pyarrow.fs import LocalFileSystem

        if not store.on_s3(place):
            return LocalFileSystem(), place.removeprefix("file://")
        return store.system(self.lake, place), place.split("://", 1)[1]

    def _asked(self, place: str, ask: Any) -> Any:
        """What the file system answers; an object store's refusals in our words."""
        try:
            return ask()
        except FileNotFoundError:
            raise
        except OSError as error:
            if self.lake is None or not store.on_s3(place):
                raise
            raise store.error_of(self.lake, place, str(error)) from None


def _put(system: Any, path: str, content: bytes) -> None:
    with system.open_output_stream(path, compression=None) as stream:  # by default a name that ends in .gz is packed
        stream.write(content)
