"""A Kinesis position as text: canonical JSON `{"shard": "mark"}`, the next record of each shard. Pure functions.

| mark | meaning |
|---|---|
| `TRIM_HORIZON@0` | from the oldest record |
| `AT:<ms>@<ms>` | from the first record that arrived at that time |
| `<sequence number>@<ms>` | after that record |
| `END` | a closed shard that was read to its end |

The time after the `@` (milliseconds since 1970): every record that arrived before it was read. Sequence numbers have
gaps and no time, so only this time shows whether retention may have deleted unread records. The entry `*` is the mark
of shards that are found later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

NO_DATA = "-"
BEGIN, HORIZON, END = "*", "TRIM_HORIZON", "END"
_AT = "AT:"

Marks = dict[str, str]
"""shard id -> mark."""


@dataclass(frozen=True)
class ShardOffset:
    """One mark.

    Attributes:
        where: `TRIM_HORIZON`, `AT:<ms>`, a sequence number or `END`.
        seen_ms: every record that arrived before this time was read (milliseconds since 1970); 0: unknown.
    """

    where: str
    seen_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> ShardOffset:
        where, _, seen = text.partition("@")
        return cls(where, int(seen or 0))

    @classmethod
    def at(cls, moment_ms: int) -> ShardOffset:
        """The mark of the first record that arrived at a time."""
        return cls(f"{_AT}{moment_ms}", moment_ms)

    @property
    def ended(self) -> bool:
        return self.where == END

    @property
    def sequence(self) -> str | None:
        """The sequence number of the last record read; None before the first."""
        return self.where if self.where.isdigit() else None

    @property
    def moment_ms(self) -> int | None:
        """The time of an `AT:` mark; None for other marks."""
        return int(self.where.removeprefix(_AT)) if self.where.startswith(_AT) else None

    def __str__(self) -> str:
        return END if self.ended else f"{self.where}@{self.seen_ms}"


def parse(text: str) -> Marks:
    """Parse a position; `-` is a source without data yet."""
    return {} if text == NO_DATA else {str(shard): str(mark) for shard, mark in json.loads(text).items()}


def render(marks: Mapping[str, str]) -> str:
    """The position as canonical text."""
    return json.dumps(dict(marks), sort_keys=True, separators=(",", ":"))


def ranges(start: Mapping[str, str], end: Mapping[str, str]) -> dict[str, tuple[ShardOffset, ShardOffset]]:
    """The records between two positions: shard -> (after, up to). Shards whose mark did not move are left out.

    A shard that was read to its end has no last sequence number: the range goes up to its end.
    """
    begin = start.get(BEGIN) or end.get(BEGIN, str(ShardOffset(HORIZON)))
    moved = {}
    for shard, mark in sorted(end.items()):
        first, last = ShardOffset.parse(start.get(shard, begin)), ShardOffset.parse(mark)
        if shard != BEGIN and first.where != last.where:
            moved[shard] = (first, last)
    return moved


def canonical(offset: str) -> str:
    """The canonical text of an offset that Spark wrote."""
    return render(parse(offset))
