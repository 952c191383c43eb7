"""Copy of a file source's log, stored next to the table, from which a lost checkpoint is rebuilt.

The position has the number of landed files and a hash over their names. The names are in the log only, and the log is
in the checkpoint. Therefore the newest files of the log are copied before their batch lands. The hash in the position
verifies the copy: a truncated or foreign copy is useless, but not dangerous.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.connectors.aws.store import on_s3
from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files.log import LogBroken, SourceLog, number_of, offset_text

_SEARCHED = 20
"""How many entries before the end of the copy are compared; the copy is one or two entries ahead of the position."""


def place(location: str, stream: str, source: str) -> str | None:
    """The folder of the copy, next to the table's folder, local or on S3; None for tables elsewhere."""
    plain = location.removeprefix("file:").rstrip("/")
    if on_s3(plain):
        return f"{plain}.sources/{stream}/{source}"
    return None if "://" in plain else f"/{plain.lstrip('/')}.sources/{stream}/{source}"


@dataclass
class Mirror:
    """Maintains the copy of one source log.

    Args:
        files: reads the log and writes the copy.
        log: the log's folder in the checkpoint.
        folder: the folder of the copy.
    """

    files: FileAccess
    log: str
    folder: str
    _copied: set[str] = field(default_factory=set)

    def copy(self, last: int) -> None:
        """Copy entries up to `last`; removed files are copied again, and files of another log are deleted."""
        names = self.files.names(self.log)
        expected = {name for name in names if (number := number_of(name)) is not None and number <= last}
        present = set(self.files.names(self.folder))
        for name in sorted(expected - (self._copied & present)):
            _copy(self.files, f"{self.log}/{name}", f"{self.folder}/{name}")
        for name in present - expected:
            self.files.remove(f"{self.folder}/{name}")
        self._copied = expected


def find(files: FileAccess, folder: str, position: str) -> int | None:
    """The entry of the copied log at which a position ends; None if the copy does not contain it."""
    numbers = [number for name in files.names(folder) if (number := number_of(name)) is not None]
    for number in range(max(numbers, default=-1), -1, -1)[:_SEARCHED]:
        try:
            if SourceLog(files, folder).canonical(offset_text(number)) == position:
                return number
        except LogBroken:
            continue
    return None


def restore(files: FileAccess, folder: str, last: int, into: str) -> str:
    """Copy the log up to entry `last` into a checkpoint; returns Spark's offset of that entry."""
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
