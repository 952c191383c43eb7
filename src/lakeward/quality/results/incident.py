"""The quality incident of a held table: failing checks, first bad snapshot, sample rows, recent changes, next step.

It is opened by the run that holds, updated when other checks fail or twice as many rows do, and closed by the run (or
the release) that publishes again. It is sent by the notifier of stream incidents.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from lakeward.platform.errors import expect_type
from lakeward.platform.text import moment, word
from lakeward.quality.ranges.batches import batches_of
from lakeward.quality.results.records import Result, after_error
from lakeward.quality.results.text import between, describe
from lakeward.quality.verdicts.verdict import Check, Effect, State, Verdict
from lakeward.registry import batches, changes, incidents, verifications
from lakeward.registry.incidents import Incident
from lakeward.registry.verifications import LandedBatches

if TYPE_CHECKING:
    from datetime import datetime

    from lakeward.quality.ranges.snapshot_chain import Snapshot

KIND = "quality"
"""Kind of the incident; its subject is the table."""
ROW = "row: "
"""Prefix of a line that shows a failing row."""
ROWS, CHANGES = 5, 4
_FIRST = "do: "
"""Prefix of the first offered command."""
_BEFORE_S = 3600.0
"""Changes within this time before the first bad commit are listed as possible causes."""
_ROUTINE = {"waive", "unwaive", "release"}


def holding(result: Result) -> list[Check]:
    """The checks that hold the table, those with the most failing rows first."""
    bad = [
        check
        for check in result.checks
        if check.excuse is None
        and (check.state is State.ERROR or (check.state is State.FAIL and check.effect is Effect.HOLD))
    ]
    return sorted(bad, key=lambda check: -(check.unexpected_count or 0))


def after_run(connection: Connection, result: Result) -> None:
    """Open, update or close the table's incident, in the transaction that records the result."""
    if result.verdict.publishes:
        if result.found.head is not None and result.verified == result.found.head.id:
            close(
                connection,
                result.table,
                f"verified is at {result.found.noun} {result.verified} (run {result.run})",
                result.note,
            )
        return
    known = incidents.open_ones(connection).get((KIND, result.table))
    failing = holding(result)
    rows = max((check.unexpected_count or 0 for check in failing), default=0)
    key = sorted([result.verdict.value, *(check.id for check in failing), str(result.first_bad)])
    # The same failures with a few more rows send no new message: `quality show` has the newest figures.
    if known is not None and known.fields.get("key") == key and rows < 2 * max(1, _rows_of(known)):
        return
    text = "\n".join(lines(result, failing, _proven(connection, result), _changed(connection, result)))
    incidents.opened(
        connection, KIND, result.table, text,
        key=key, rows=rows, run=result.run, streams=sorted({batch["stream"] for batch in result.batches}),
        next=f"lakeward quality show {word(result.table)}",
    )  # fmt: skip


def _rows_of(known: Incident) -> int:
    return expect_type(known.fields.get("rows"), int, f"rows of incident {known.id}")


def add(connection: Connection, table: str, line: str) -> None:
    """Add one line to the table's open incident, before the offered commands, unless it is there already."""
    known = incidents.open_ones(connection).get((KIND, table))
    if known is None or line in known.text:
        return
    message = known.text.splitlines()
    at = next((index for index, each in enumerate(message) if each.startswith(_FIRST)), len(message))
    incidents.opened(connection, KIND, table, "\n".join([*message[:at], line, *message[at:]]), **known.fields)


def close(connection: Connection, table: str, how: str, note: str = "") -> None:
    """Close the table's open incident: the table is published again."""
    known = incidents.open_ones(connection).get((KIND, table))
    if known is None:
        return
    text = f"{table} is published again after {incidents.age_s(connection, known) / 60:.0f} min: {how}" + (
        f"; {note}" if note else ""
    )
    incidents.closed(connection, KIND, table, text)


def lines(result: Result, failing: Sequence[Check], proven: datetime | None, changed: Sequence[str]) -> list[str]:
    """The message.

    Args:
        failing: the checks that hold, worst first.
        proven: when the verified snapshot was proven.
        changed: recent changes, a sentence each.
    """
    table = result.table
    message = [f"{table}: {describe(check)}" for check in failing] or [f"{table} could not be checked: {result.note}"]
    state_line = "no snapshot is verified yet"
    if result.verified is not None:
        when = f", proven {moment(proven)}" if proven is not None else ""
        state_line = f"readers of `verified` are still on {result.found.noun} {result.verified}{when}"
    message.append(f"{state_line}; the stream continues to land")
    if result.found.head is not None:
        message.append(f"since: {since(result)}")
    rows = [row for check in failing for row in check.sample][:ROWS]
    message += [f"{ROW}{json.dumps(row, default=str, ensure_ascii=False)}" for row in rows]
    message += [f"changed: {change}" for change in changed]
    message += [result.note] if failing and result.note else []
    return message + offers(result, failing)


def offers(result: Result, failing: Sequence[Check]) -> list[str]:
    """The offered commands."""
    table = result.table
    if result.verdict is Verdict.ERROR or not failing:
        broken = [check.error or "" for check in failing if check.state is State.ERROR]
        return [f"{_FIRST}{after_error(table, broken or [result.note])}"]
    check = failing[0].id
    why = f'--comment "rows fail {check}"'
    return [
        f"{_FIRST}lakeward quality quarantine {word(table)} {check} {why}   quarantine the rows, then check again",
        f"or: lakeward quality waive {word(table)} {check} --for 2h {why}   publish with verdict warn until then",
        f'or: lakeward quality replay {word(table)} --comment "corrected"   after the fix: land the quarantined rows',
    ]


def since(result: Result) -> str:
    """The first bad snapshot with its commit time, batches and offsets; the range where it is unknown."""
    first = next((snapshot for snapshot in result.found.snapshots if snapshot.id == result.first_bad), None)
    if first is not None:
        text = f"{result.found.noun} {first.id} of {moment(first.at)}"
        return text + "".join(f"; {landed(batch)}" for batch in result.first_bad_batches)
    if result.first_bad is not None:
        message = "".join(f"; {landed(batch)}" for batch in result.first_bad_batches)
        return f"snapshot {result.first_bad}, which is expired{message}"
    head = f" up to {result.found.head.id}" if result.found.head else ""
    base = f"after {result.found.noun} {result.found.base.snapshot}" if result.found.base else "in the table"
    return f"unknown, {base}{head}" + "".join(f"; {landed(batch)}" for batch in result.batches)


def landed(batch: LandedBatches) -> str:
    """A stream's batches: `stream flights batches 811-812, offsets flights/0 7494 to 7507`."""
    first, last = batch["from_seq"], batch["to_seq"]
    seqs = f"batch {first}" if first == last else f"batches {first}-{last}"
    text = f"stream {batch['stream']} {seqs}"
    if batch["end"] is None:
        return text
    return f"{text}, offsets {between(batch['start'], batch['end'])}"


def _proven(connection: Connection, result: Result) -> datetime | None:
    head = result.found.head
    for proof in verifications.proofs(connection, result.table, limit=20):
        if proof["to_snapshot"] == result.verified and _table(proof["to_commit"]) == _table(
            head.commit if head else None
        ):
            at: datetime = proof["at"]
            return at
    return None


def _table(commit: str | None) -> str:
    """The table id in a Delta commit id; empty for Iceberg."""
    return (commit or "").partition("/")[0]


def _changed(connection: Connection, result: Result) -> list[str]:
    """Changes of the streams and the table shortly before the first bad commit, and whether a new generation began."""
    snapshots = result.found.snapshots
    first = next(
        (snapshot for snapshot in snapshots if snapshot.id == result.first_bad), snapshots[0] if snapshots else None
    )
    if first is None:
        return []
    message = []
    for batch in result.first_bad_batches:
        message += _generation(connection, batch["stream"], first)
    names = [("table", result.table)] + [("stream", batch["stream"]) for batch in result.batches]
    found = [row for scope, name in names for row in changes.newest(connection, scope, name, 50)]
    near = [row for row in found if 0 <= (first.at - row.at).total_seconds() <= _BEFORE_S]
    for row in sorted(near, key=lambda row: row.at, reverse=True):
        if row.change not in _ROUTINE:
            comment = f": {row.comment}" if row.comment else ""
            ago = (first.at - row.at).total_seconds() / 60
            message.append(f"{ago:.0f} min before: {row.change} of {row.scope} {row.name} by {row.author}{comment}")
    return message[:CHANGES] or ["no change in Lakeward in the hour before: check the producer"]


def _generation(connection: Connection, stream: str, snapshot: Snapshot) -> list[str]:
    """Whether the first bad batch is the first of a generation."""
    bad = next((batch for batch in batches_of(connection, [snapshot]) if batch.stream == stream), None)
    before = batches.generation_before(connection, stream, bad.seq) if bad and bad.seq is not None else None
    if bad is None or before is None or before == bad.generation:
        return []
    return [f"it is the first batch of stream {stream} by generation {bad.generation} (before: {before})"]
