"""The log in which Spark's file source counts the files it has taken, and the position made of it.

Spark's own offset of a file source is the number of its last log entry, `{"logOffset":3}`: two histories that took
other files into entry 3 have equal offsets, and an older copy of a checkpoint skips files without a word. So the
position is `{"files":16,"hash":".."}`: how many files, and a hash over their paths, in the order they were taken,
that goes on from entry to entry. It depends on the files alone, not on how many a batch took.
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
_KEPT = 8
"""So many positions are remembered; a batch asks for two, again and again."""
_DIGITS = 32


class LogBroken(LakewardError):
    """A file of the log is absent or cannot be read: which files were taken is not known. `file` names it."""

    def __init__(self, file: str, why: str) -> None:
        super().__init__("The log of a file source is damaged", why=f"{file}: {why}", code="LW-3001")
        self.file = file
        self.reason = why


@dataclass(frozen=True)
class Taken:
    """One file. `path` as a URL, `modified` in milliseconds since 1970, `entry` the number of its log entry."""

    path: str
    modified: int
    entry: int


@dataclass(frozen=True)
class Rolled:
    """Everything up to a log entry: how many files, and the hash over their paths."""

    files: int = 0
    hash: str = ""

    def with_files(self, taken: Iterable[Taken]) -> Rolled:
        """Further files. Those of one entry are counted in the order of their paths."""
        count, rolled = self.files, self.hash
        for each in sorted(taken, key=lambda one: (one.entry, one.path)):
            count, rolled = count + 1, hashlib.sha256(f"{rolled}\n{each.path}".encode()).hexdigest()[:_DIGITS]
        return Rolled(count, rolled)

    @property
    def text(self) -> str:
        """The position."""
        return json.dumps({"files": self.files, "hash": self.hash}, sort_keys=True, separators=(",", ":"))


def log_offset(offset: str) -> int | None:
    """The number in Spark's offset of a file source; None for any other text."""
    try:
        found: Any = json.loads(offset)
    except ValueError:
        return None
    number = found.get(_OFFSET) if isinstance(found, dict) else None
    return number if isinstance(number, int) else None


def offset_text(number: int) -> str:
    """Spark's offset of a log entry."""
    return json.dumps({_OFFSET: number}, separators=(",", ":"))


def number_of(name: str) -> int | None:
    """The entry a file of the log is named after, of a compaction the last one; None for any other file."""
    plain = name.removesuffix(_COMPACT)
    return int(plain) if plain.isdigit() else None


def count_of(position: str) -> int | None:
    """How many files a position stands for; None for the position of another kind of source."""
    try:
        found: Any = json.loads(position)
    except ValueError:
        return None
    if not isinstance(found, dict) or found.keys() != {"files", "hash"}:
        return None
    return found["files"] if isinstance(found["files"], int) else None


@dataclass
class SourceLog:
    """The log of one source of one query.

    Args:
        files: reads it.
        folder: `<checkpoint>/sources/<number>`.
    """

    files: Reader
    folder: str
    _known: dict[int, Rolled] = field(default_factory=dict)
    _entry_of: dict[str, int] = field(default_factory=dict)

    def canonical(self, offset: str) -> str:
        """Spark's offset as a position; a text that is none stays.

        Raises:
            LogBroken: the log does not tell.
        """
        number = log_offset(offset)
        return offset if number is None else self._rolled(number).text

    def between(self, start: str, end: str) -> list[Taken]:
        """The files after one position up to another, of positions `canonical` gave; `-` is the beginning.

        Raises:
            LogBroken: the log does not tell.
        """
        first = -1 if start == NO_DATA else self._entry_of[start]
        last = -1 if end == NO_DATA else self._entry_of[end]
        return list(self._taken(first + 1, last))

    def entry_of(self, position: str) -> int:
        """The log entry at which a position ends, of positions `canonical` gave."""
        return self._entry_of[position]

    def _rolled(self, number: int) -> Rolled:
        found = self._known.get(number)
        if found is None:
            below = max((each for each in self._known if each < number), default=-1)
            found = self._known.get(below, Rolled()).with_files(self._taken(below + 1, number))
            self._known[number] = found
            self._entry_of[found.text] = number
            for old in sorted(self._known)[:-_KEPT]:
                self._entry_of.pop(self._known.pop(old).text, None)
        return found

    def _taken(self, first: int, last: int) -> Iterator[Taken]:
        """The files of the entries `first` to `last`, both inclusive.

        Every tenth entry is a compaction: it holds all files of the entries before it, which are removed later.
        """
        if last < first:
            return
        names = set(self.files.names(self.folder))
        compact = sorted(int(name.removesuffix(_COMPACT)) for name in names if _is_compact(name))
        number = first
        while number <= last:
            above = [each for each in compact if each >= number]
            inside = [each for each in above if each <= last]
            if inside:  # one file says it all, up to there
                yield from self._parsed(f"{inside[-1]}{_COMPACT}", number, inside[-1])
                number = inside[-1] + 1
            elif str(number) in names:
                yield from self._parsed(str(number), number, number)
                number += 1
            elif above:  # a later compaction has taken it in
                yield from self._parsed(f"{above[0]}{_COMPACT}", number, last)
                return
            else:
                raise LogBroken(f"{self.folder}/{number}", "it is absent")

    def _parsed(self, name: str, first: int, last: int) -> Iterator[Taken]:
        file = f"{self.folder}/{name}"
        text = self.files.text(file)
        lines = [] if text is None else text.split("\n")
        if not lines or not lines[0].startswith("v"):
            raise LogBroken(file, "it is absent" if text is None else "it is empty or cut")
        for line in lines[1:]:
            if not line.strip():
                continue
            try:
                found = json.loads(line)
                one = Taken(str(found["path"]), int(found["timestamp"]), int(found["batchId"]))
            except (ValueError, KeyError, TypeError):
                raise LogBroken(file, "its JSON is cut") from None
            if first <= one.entry <= last:
                yield one


def _is_compact(name: str) -> bool:
    return name.endswith(_COMPACT) and name.removesuffix(_COMPACT).isdigit()
