"""The position form of Kinesis: how far each shard is read, as canonical JSON `{"shard": "mark"}`. Pure.

| mark | stands for |
|---|---|
| `TRIM_HORIZON@0` | from the oldest record there is |
| `AT:<ms>@<ms>` | from the first record that arrived at that time |
| `<sequence number>@<ms>` | after that record |
| `END` | a closed shard that was read to its end |

Behind the `@` stands a time (milliseconds since 1970): whatever arrived before it was seen. Sequence numbers have holes
and say nothing of time, so this alone tells whether retention can have taken something unseen. The entry `*` is where
shards begin that are found later.
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
    """One mark. `where`: `TRIM_HORIZON`, `AT:<ms>`, a sequence number or `END`. `seen_ms`: 0 where nothing is known."""

    where: str
    seen_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> ShardOffset:
        where, _, seen = text.partition("@")
        return cls(where, int(seen or 0))

    @classmethod
    def at(cls, moment_ms: int) -> ShardOffset:
        """From the first record that arrived at a time."""
        return cls(f"{_AT}{moment_ms}", moment_ms)

    @property
    def ended(self) -> bool:
        return self.where == END

    @property
    def sequence(self) -> str | None:
        """The last record read; None before the first."""
        return self.where if self.where.isdigit() else None

    @property
    def moment_ms(self) -> int | None:
        """The time it begins at, if it does."""
        return int(self.where.removeprefix(_AT)) if self.where.startswith(_AT) else None

    def __str__(self) -> str:
        return END if self.ended else f"{self.where}@{self.seen_ms}"


def parse(text: str) -> Marks:
    """Read a position; `-` is a source without data yet."""
    return {} if text == NO_DATA else {str(shard): str(mark) for shard, mark in json.loads(text).items()}


def render(marks: Mapping[str, str]) -> str:
    """Write a position in canonical form."""
    return json.dumps(dict(marks), sort_keys=True, separators=(",", ":"))


def ranges(start: Mapping[str, str], end: Mapping[str, str]) -> dict[str, tuple[ShardOffset, ShardOffset]]:
    """What lies between two positions: shard -> (after, up to). Shards that did not move are left out.

    A shard that was read to its end has no number to stop at: its records up to its end are meant.
    """
    begin = start.get(BEGIN) or end.get(BEGIN, str(ShardOffset(HORIZON)))
    found = {}
    for shard, mark in sorted(end.items()):
        first, last = ShardOffset.parse(start.get(shard, begin)), ShardOffset.parse(mark)
        if shard != BEGIN and first.where != last.where:
            found[shard] = (first, last)
    return found


def canonical(offset: str) -> str:
    """Spark's text of an offset as the one that is compared and kept."""
    return render(parse(offset))
