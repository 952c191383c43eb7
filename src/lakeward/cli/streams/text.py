"""Tables of `lakeward streams ...` for people: one line each, never folded, the sentence last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from lakeward.platform.text import span
from lakeward.supervision.report.block import moment
from lakeward.supervision.report.safety import show


def table(streams: Sequence[Mapping[str, Any]], now: datetime) -> str:
    """`streams list`: one line a stream."""
    head = ("stream", "state", "for", "into", "why")
    rows = [
        (
            each["id"],
            each["state"],
            span((now - each["since"]).total_seconds()),
            each["sink"] or "-",
            each["why"] or "-",
        )
        for each in streams
    ]
    return columns([head, *rows]) if rows else "no streams"


def timeline(events: Sequence[Mapping[str, Any]]) -> str:
    """`streams events`: one line an event, oldest first."""
    rows = [(moment(each["at"]), each["name"], each["kind"], each["text"]) for each in events]
    return columns(rows) if rows else "no events"


def batches(rows: Sequence[Mapping[str, Any]]) -> str:
    """`streams batches`: one line a batch, oldest first; the offsets it read last."""
    head = ("at", "batch", "seq", "generation", "records", "landed", "quarantined", "took", "offsets")
    lines = [
        (
            moment(each["committed_at"]),
            f"{each['batch_id']}{' again' if each['replayed'] else ''}",
            _cell(each["seq"]),
            _cell(each["generation"]),
            _cell(each["consumed"]),
            _cell(each["landed"]),
            _cell(each["quarantined"]),
            "-" if each["duration_s"] is None else f"{each['duration_s']:.1f} s",
            f"{show(each['start_offsets'])} to {show(each['end_offsets'])}",
        )
        for each in rows
    ]
    return columns([head, *lines]) if lines else "no batches are recorded"


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    )
