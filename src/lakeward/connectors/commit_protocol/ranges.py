"""Offset ranges: the differences between two offsets as text, i.e. which records would be lost or landed twice.

Offsets are opaque canonical strings, and the protocol needs equality only. Where the shape is known (a number, or JSON
objects with numbers as leaves, as Kafka's `{topic: {partition: offset}}`), the text names the exact ranges, at most
ten.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from lakeward.connectors.commit_protocol.position import NO_DATA

_SHOWN = 10


@dataclass(frozen=True)
class Difference:
    """One place where the start of a batch differs from the landed end.

    Attributes:
        source: source name.
        path: the path inside the offset, e.g. `flights/3`; empty for an offset of one value.
        landed: up to where (exclusive) records have landed; None if the position does not have the path.
        start: where the batch starts; None if the batch does not have the path.
    """

    source: str
    path: str
    landed: str | None
    start: str | None

    @property
    def kind(self) -> str:
        """`gap` (records would be skipped), `overlap` (records would land twice), else `discontinuous`."""
        if self.landed is None or self.start is None or not (_number(self.landed) and _number(self.start)):
            return "discontinuous"
        return "gap" if int(self.start) > int(self.landed) else "overlap"

    def __str__(self) -> str:
        place = f"{self.source} {self.path}".strip()
        if self.kind == "gap":
            return f"{place}: records {self.landed} to {int(self.start or 0) - 1} would be skipped"
        if self.kind == "overlap":
            return f"{place}: records {self.start} to {int(self.landed or 0) - 1} would land twice"
        return f"{place}: landed up to {_shown(self.landed)}, the batch starts at {_shown(self.start)}"


def differences(landed: Mapping[str, str], start: Mapping[str, str]) -> list[Difference]:
    """Every place where `start` is not `landed`, in order of source and path; empty when they are equal."""
    result: list[Difference] = []
    for source in sorted({*landed, *start}):
        landed_end, batch_start = landed.get(source), start.get(source)
        if landed_end == batch_start:
            continue
        before, after = _leaves(landed_end), _leaves(batch_start)
        if before is None or after is None:
            result.append(Difference(source, "", landed_end, batch_start))
            continue
        for path in sorted({*before, *after}, key=_natural):
            if before.get(path) != after.get(path):
                result.append(Difference(source, path, before.get(path), after.get(path)))
    return result


def kind_of(differences: list[Difference]) -> str:
    """The kind of all differences: `overlap` if any record would land twice, else `gap`, else `discontinuous`."""
    kinds = {difference.kind for difference in differences}
    return next((kind for kind in ("overlap", "gap") if kind in kinds), "discontinuous")


def in_words(differences: list[Difference]) -> str:
    """The differences in one line."""
    shown = "; ".join(str(difference) for difference in differences[:_SHOWN])
    return shown + (f"; and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else "")


def show(offsets: Mapping[str, str]) -> str:
    """Offsets in one line, for a message."""
    return ", ".join(f"{source} {_shown(offset)}" for source, offset in sorted(offsets.items())) or "nothing"


def _leaves(offset: str | None) -> dict[str, str] | None:
    """Path -> number, for a number or nested JSON objects with numbers as leaves; None for any other shape."""
    if offset is None or offset == NO_DATA:
        return None
    try:
        document = json.loads(offset)
    except ValueError:
        return None
    leaves: dict[str, str] = {}
    pending: list[tuple[str, object]] = [("", document)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict):
            pending.extend((f"{path}/{name}".lstrip("/"), inner) for name, inner in value.items())
        elif isinstance(value, int) and not isinstance(value, bool):
            leaves[path] = str(value)
        else:
            return None
    return leaves


def _number(text: str) -> bool:
    return text.removeprefix("-").isdigit()


def _natural(path: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in path.split("/"))


def _shown(offset: str | None) -> str:
    if offset is None:
        return "unknown"
    if offset == NO_DATA:
        return "no data yet"
    return offset if len(offset) <= 200 else offset[:200] + "..."
