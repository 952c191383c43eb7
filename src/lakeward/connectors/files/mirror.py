"""A copy of a file source's log beside its table, from which a lost checkpoint is made anew.

The position says how many files have landed and a hash over which; their names are only in the log, and the log is in
the checkpoint. So the log's newest files are copied before the batch lands that they belong to. Whether a copy is the
right one, and up to where, the hash in the position tells: a copy that was cut, or another's, is no use but no danger.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from lakeward.connectors.files.log import LogBroken, SourceLog, number_of, offset_text

_LOOKED_AT = 20
"""The copy is ahead of the position by an entry or two; further back than this nobody looks."""


def place(location: str, stream: str, source: str) -> Path | None:
    """The copy's folder, beside the folder of the table; None for a table that is not on this machine."""
    plain = location.removeprefix("file:").rstrip("/")
    if "://" in plain:
        return None
    return Path(f"/{plain.lstrip('/')}.sources") / stream / source


@dataclass
class Mirror:
    """Keeps the copy of one source's log.

    Args:
        log: the log's folder in the checkpoint.
        folder: the copy's.
    """

    log: Path
    folder: Path
    _copied: set[str] = field(default_factory=set)

    def copy(self, last: int) -> None:
        """Bring the copy up to entry `last`; what somebody removed is there again, and nothing of another log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        names = [each.name for each in self.log.iterdir()]
        wanted = {name for name in names if (number := number_of(name)) is not None and number <= last}
        there = {each.name for each in self.folder.iterdir()}
        for name in sorted(wanted - (self._copied & there)):
            staged = self.folder / f".{name}"
            shutil.copyfile(self.log / name, staged)
            staged.replace(self.folder / name)
        for name in there - wanted:
            (self.folder / name).unlink(missing_ok=True)
        self._copied = wanted


def find(folder: Path, position: str) -> int | None:
    """The entry of the copied log at which a position ends; None if the copy does not hold it."""
    numbers = [number for name in _Local().names(str(folder)) if (number := number_of(name)) is not None]
    for number in range(max(numbers, default=-1), -1, -1)[:_LOOKED_AT]:
        try:
            if SourceLog(_Local(), str(folder)).canonical(offset_text(number)) == position:
                return number
        except LogBroken:
            continue
    return None


def restore(folder: Path, last: int, into: Path) -> str:
    """Copy the log up to entry `last` into a checkpoint; Spark's offset of it."""
    into.mkdir(parents=True)
    for name in _Local().names(str(folder)):
        number = number_of(name)
        if number is not None and number <= last:
            shutil.copyfile(folder / name, into / name)
    return offset_text(last)


class _Local:
    """Reads files of this machine."""

    def names(self, folder: str) -> list[str]:
        path = Path(folder)
        return [each.name for each in path.iterdir()] if path.is_dir() else []

    def text(self, file: str) -> str | None:
        path = Path(file)
        return path.read_text(errors="replace") if path.is_file() else None
