"""Source log of Spark's file source, in which it records the files it has read, and the position derived from it.

Spark's offset of a file source is the number of the last log entry, `{"logOffset":3}`. Two histories with different
files in entry 3 have equal offsets, and an older copy of a checkpoint would skip files silently. Therefore the position
is `{"files":16,"hash":".."}`: the number of files, and a rolling hash over their paths in the order they were read. It
depends on the files only, not on the sizes of batches.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.connectors.source import Reader
from lakeward.platform.errors import LakewardError

_OFFSET = "logOffset"
_COMPACT = ".compact"
_CACHED = 8
"""The number of cached positions; a batch needs two, several times."""
_DIGITS = 32


class LogBroken(LakewardError):
    """Raised when a file of the log is missing or damaged: the files already read are unknown. `file` names it."""

    def __init__(self, file: str, why: str) -> None:
        super().__init__(
            "The log of a file source is damaged",
            why=f"{file}: {why}",
            next="restore the checkpoint from a backup",
            code="LW-3001",
        )
        self.file = file
        self.reason = why


@dataclass(frozen=True)
class Taken:
    """One file: `path` as a URL, `modified` in milliseconds since 1970, `entry` the number of its log entry."""

    path: str
    modified: int
    entry: int


@dataclass(frozen=True)
class Rolled:
    """The state after a log entry: the number of files, and the rolling hash over their paths."""

    files: int = 0
    hash: str = ""

    def with_files(self, taken: Iterable[Taken]) -> Rolled:
        """The state after further files. Files of one entry are ordered by path."""
        count, rolled = self.files, self.hash
        for file in sorted(taken, key=lambda file: (file.entry, file.path)):
            count, rolled = count + 1, hashlib.sha256(f"{rolled}\n{file.path}".encode()).hexdigest()[:_DIGITS]
        return Rolled(count, rolled)

    @property
    def text(self) -> str:
        """The position."""
        return json.dumps({"files": self.files, "hash": self.hash}, sort_keys=True, separators=(",", ":"))


def log_offset(offset: str) -> int | None:
    """The entry number in Spark's offset of a file source; None for another text."""
    try:
        document: Any = json.loads(offset)
    except ValueError:
        return None
    number = document.get(_OFFSET) if isinstance(document, dict) else None
    return number if isinstance(number, int) else None


def offset_text(number: int) -> str:
    """Spark's offset of a log entry."""
    return json.dumps({_OFFSET: number}, separators=(",", ":"))


def number_of(name: str) -> int | None:
    """The entry number in the name of a log file (of a compaction: the last entry); None for another file."""
    plain = name.removesuffix(_COMPACT)
    return int(plain) if plain.isdigit() else None


def count_of(position: str) -> int | None:
    """The number of files of a position; None for the position of another kind of source."""
    try:
        document: Any = json.loads(position)
    except ValueError:
        return None
    if not isinstance(document, dict) or document.keys() != {"files", "hash"}:
        return None
    return document["files"] if isinstance(document["files"], int) else None


@dataclass
class SourceLog:
    """The log of one source of one query.

    Args:
        files: reads the log.
        folder: `<checkpoint>/sources/<number>`.
    """

    files: Reader
    folder: str
    _known: dict[int, Rolled] = field(default_factory=dict)
    _entry_of: dict[str, int] = field(default_factory=dict)

    def canonical(self, offset: str) -> str:
        """Spark's offset as a position; another text is returned unchanged.

        Raises:
            LogBroken: the log is incomplete.
        """
        number = log_offset(offset)
        return offset if number is None else self._rolled(number).text

    def between(self, start: str, end: str) -> list[Taken]:
        """The files between two positions that `canonical` returned; `-` is the beginning.

        Raises:
            LogBroken: the log is incomplete.
        """
        first = -1 if start == NO_DATA else self._entry_of[start]
        last = -1 if end == NO_DATA else self._entry_of[end]
        return list(self.taken(first + 1, last))

    def entry_of(self, position: str) -> int:
        """The last log entry of a position that `canonical` returned."""
        return self._entry_of[position]

    def _rolled(self, number: int) -> Rolled:
        state = self._known.get(number)
        if state is None:
            below = max((known for known in self._known if known < number), default=-1)
            state = self._known.get(below, Rolled()).with_files(self.taken(below + 1, number))
            self._known[number] = state
            self._entry_of[state.text] = number
            for old in sorted(self._known)[:-_CACHED]:
                self._entry_of.pop(self._known.pop(old).text, None)
        return state

    def taken(self, first: int, last: int) -> Iterator[Taken]:
        """The files of the entries `first` to `last`, both inclusive.

        Every tenth entry is a compaction: it contains all files of the earlier entries, which are removed later.
        """
        if last < first:
            return
        names = set(self.files.names(self.folder))
        compact = sorted(int(name.removesuffix(_COMPACT)) for name in names if _is_compact(name))
        number = first
        while number <= last:
            above = [entry for entry in compact if entry >= number]
            inside = [entry for entry in above if entry <= last]
            if inside:  # this file contains all entries up to its own
                yield from self._parsed(f"{inside[-1]}{_COMPACT}", number, inside[-1])
                number = inside[-1] + 1
            elif str(number) in names:
                yield from self._parsed(str(number), number, number)
                number += 1
            elif above:  # the entry was merged into a later compaction
                yield from self._parsed(f"{above[0]}{_COMPACT}", number, last)
                return
            else:
                raise LogBroken(f"{self.folder}/{number}", "it is absent")

    def _parsed(self, name: str, first: int, last: int) -> Iterator[Taken]:
        file = f"{self.folder}/{name}"
        text = self.files.text(file)
        lines = [] if text is None else text.split("\n")
        if not lines or not lines[0].startswith("v"):
            raise LogBroken(file, "it is absent" if text is None else "it is empty or truncated")
        for line in lines[1:]:
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
                taken = Taken(str(entry["path"]), int(entry["timestamp"]), int(entry["batchId"]))
            except (ValueError, KeyError, TypeError):
                raise LogBroken(file, "its JSON is truncated") from None
            if first <= taken.entry <= last:
                yield taken


def _is_compact(name: str) -> bool:
    return name.endswith(_COMPACT) and name.removesuffix(_COMPACT).isdigit()
