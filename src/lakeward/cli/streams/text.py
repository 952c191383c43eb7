"""Tables of `lakeward streams ...` for people: one line each, never folded, the sentence last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from lakeward.platform.text import span
from lakeward.supervision.presence import Presence
from lakeward.supervision.report.block import moment
from lakeward.supervision.report.safety import show


def table(streams: Sequence[Mapping[str, Any]], now: datetime, present: Presence | None = None) -> str:
    """`streams list`: one line a stream; a first line warns if the streams are not supervised."""
    head = ("stream", "state", "for", "into", "why")
    rows = [
        (
            stream["id"],
            stream["state"],
            span((now - stream["since"]).total_seconds()),
            stream["sink"] or "-",
            stream["why"] or "-",
        )
        for stream in streams
    ]
    text = columns([head, *rows]) if rows else "no streams"
    if present is None or not present.missing:
        return text
    return f"NOT SUPERVISED: {present.why}; next: {present.next}\n{text}"


def timeline(events: Sequence[Mapping[str, Any]]) -> str:
    """`streams events`: one line an event, oldest first."""
    rows = [(moment(event["at"]), event["name"], event["kind"], event["text"]) for event in events]
    return columns(rows) if rows else "no events"


def batches(rows: Sequence[Mapping[str, Any]], core_s_per_million: float | None) -> str:
    """`streams batches`: one line a batch, oldest first; the offsets it read last; and what they cost together."""
    head = ("at", "batch", "seq", "generation", "records", "landed", "quarantined", "late", "took", "core-s", "offsets")
    lines = [
        (
            moment(row["committed_at"]),
            f"{row['batch_id']}{' again' if row['replayed'] else ''}",
            _cell(row["seq"]),
            _cell(row["generation"]),
            _cell(row["consumed"]),
            _cell(row["landed"]),
            _cell(row["quarantined"]),
            _late(row),
            "-" if row["duration_s"] is None else f"{row['duration_s']:.1f} s",
            "-" if row["core_s"] is None else f"{row['core_s']:.2f}",
            f"{show(row['start_offsets'])} to {show(row['end_offsets'])}",
        )
        for row in rows
    ]
    if not lines:
        return "no batches are recorded"
    cost = "" if core_s_per_million is None else f"\n{core_s_per_million:,.1f} core-seconds for a million records"
    return columns([head, *lines]) + cost


def _late(row: Mapping[str, Any]) -> str:
    """What became of the late records of a batch: kept or dropped; a batch has only one of them."""
    if row["late_kept"]:
        return f"{row['late_kept']} kept"
    return f"{row['late_dropped']} dropped" if row["late_dropped"] else _cell(row["late_dropped"])


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    )
