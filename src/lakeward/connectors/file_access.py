"""Files of this machine and of the deployment's object store, by one name each: a path, or a URL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from uuid import uuid4

from lakeward.connectors.aws import store
from lakeward.runtime import Lake


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
            raise store.told(self.lake, place, str(error)) from None


def _put(system: Any, path: str, content: bytes) -> None:
    with system.open_output_stream(path, compression=None) as stream:  # by default a name that ends in .gz is packed
        stream.write(content)
