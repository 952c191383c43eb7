"""A copy of a file source's log beside its table, from which a lost checkpoint is made anew.

The position says how many files have landed and a hash over which; their names are only in the log, and the log is in
the checkpoint. So the log's newest files are copied before the batch lands that they belong to. Whether a copy is the
right one, and up to where, the hash in the position tells: a copy that was cut, or another's, is no use but no danger.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.connectors.aws.store import on_s3
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files.log import LogBroken, SourceLog, number_of, offset_text

_LOOKED_AT = 20
"""The copy is ahead of the position by an entry or two; further back than this nobody looks."""


def place(location: str, stream: str, source: str) -> str | None:
    """The copy's folder, beside the folder of the table, on this machine or on S3; None for a table elsewhere."""
    plain = location.removeprefix("file:").rstrip("/")
    if on_s3(plain):
        return f"{plain}.sources/{stream}/{source}"
    return None if "://" in plain else f"/{plain.lstrip('/')}.sources/{stream}/{source}"


@dataclass
class Mirror:
    """Keeps the copy of one source's log.

    Args:
        files: reads and writes both.
        log: the log's folder in the checkpoint.
        folder: the copy's.
    """

    files: FileAccess
    log: str
    folder: str
    _copied: set[str] = field(default_factory=set)

    def copy(self, last: int) -> None:
        """Bring the copy up to entry `last`; what somebody removed is there again, and nothing of another log."""
        names = self.files.names(self.log)
        wanted = {name for name in names if (number := number_of(name)) is not None and number <= last}
        there = set(self.files.names(self.folder))
        for name in sorted(wanted - (self._copied & there)):
            _copy(self.files, f"{self.log}/{name}", f"{self.folder}/{name}")
        for name in there - wanted:
            self.files.remove(f"{self.folder}/{name}")
        self._copied = wanted


def find(files: FileAccess, folder: str, position: str) -> int | None:
    """The entry of the copied log at which a position ends; None if the copy does not hold it."""
    numbers = [number for name in files.names(folder) if (number := number_of(name)) is not None]
    for number in range(max(numbers, default=-1), -1, -1)[:_LOOKED_AT]:
        try:
            if SourceLog(files, folder).canonical(offset_text(number)) == position:
                return number
        except LogBroken:
            continue
    return None


def restore(files: FileAccess, folder: str, last: int, into: str) -> str:
    """Copy the log up to entry `last` into a checkpoint; Spark's offset of it."""
    for name in files.names(folder):
        number = number_of(name)
        if number is not None and number <= last:
            _copy(files, f"{folder}/{name}", f"{into}/{name}")
    return offset_text(last)


def _copy(files: FileAccess, one: str, other: str) -> None:
    content = files.content(one)
    if content is None:
        raise FileNotFoundError(one)
    files.write(other, content)
