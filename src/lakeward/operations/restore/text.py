"""Effects of a restore, for people and scripts: records that land again, commits that are lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

from lakeward.connectors.commit_protocol.ancestry import Link
from lakeward.connectors.commit_protocol.position import NO_DATA, Position
from lakeward.connectors.kafka import position as kafka_position
from lakeward.operations.restore.restorable import Restorable
from lakeward.platform.text import count

_SHOWN = 20


ReplayedRange = TypedDict("ReplayedRange", {"source": str, "partition": str, "from": int, "to": int})
"""Records of one partition that land again; `to` is exclusive."""


class RestoredStream(TypedDict):
    """Which records of a stream land again. `end`: its position afterwards; None for a backfill, which is run again."""

    stream: str
    rows: int
    replayed: list[ReplayedRange]
    end: NotRequired[Mapping[str, str] | None]


def of_stream(stream: str, before: Position, after: Position) -> tuple[RestoredStream, list[str]]:
    """Which records of a stream land again: as data and as lines."""
    replayed: list[ReplayedRange] = []
    for source, text in sorted(after.end.items()):
        low, high = kafka_position.parse(text), kafka_position.parse(before.end.get(source, NO_DATA))
        replayed += [
            {"source": source, "partition": f"{topic}/{part}", "from": low.get(topic, {}).get(part, 0), "to": until}
            for topic, parts in sorted(high.items())
            for part, until in sorted(parts.items())
            if until > low.get(topic, {}).get(part, 0)
        ]
    rows = before.totals.landed - after.totals.landed
    lines = [f"{stream}: {count(rows, 'row')} removed, and their records land again"]
    for item in replayed:
        number = count(item["to"] - item["from"], "record")
        lines.append(f"  {item['partition']}: {number} ({item['from']} to {item['to'] - 1})")
    return {"stream": stream, "rows": rows, "replayed": replayed}, lines


def lost_commits(table: Restorable, removed: list[Link], known: set[str]) -> tuple[list[int], list[str]]:
    """Commits that no stream lands again, e.g. manual inserts and deletes: their snapshots, and lines.

    Rewrites are left out: maintenance repeats them.
    """
    lost, lines = [], []
    for link in removed:
        if link.operation == "replace" or (link.attempt or link.wap_id or "").split("/")[0] in known:
            continue
        lost.append(link.snapshot)
        lines.append(
            f"{table.noun} {link.snapshot} ({table.moment(link.snapshot)}, {link.operation}, "
            f"{table.effect(link.snapshot)}) is not of a stream: it is lost"
        )
    if len(lines) > _SHOWN:
        lines[_SHOWN:] = [f"and {len(lines) - _SHOWN} more like these"]
    return lost, lines
