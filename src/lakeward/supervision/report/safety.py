"""Data safety: whether data is lost, decided from the table's position and the source, never from counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NotRequired, TypedDict

from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.connectors.iceberg.missing_records_table import LATE_REASON as LATE_MISSING
from lakeward.connectors.iceberg.missing_records_table import REASON as QUARANTINE_MISSING
from lakeward.connectors.kafka import position as kafka_position
from lakeward.platform.text import count, moment, span
from lakeward.registry.generations import late_table
from lakeward.supervision.decide.health import State
from lakeward.supervision.report.lag import Lag, Partition
from lakeward.supervision.report.material import Material

AT_RISK_SHARE = 0.5
"""Data is at risk when the oldest waiting record has used up this share of the source's retention."""
_AT_LEAST_ONCE = ("kafka", "console", "python", "memory", "format")


class SafePosition(TypedDict):
    """`safe_to` of `streams status`: the position up to which data is safe. `by`: `table` or `registry`."""

    by: str
    seq: int | None
    batch_id: int | None
    generation: int | None
    snapshot_id: int | None
    offsets: dict[str, str]


NextBatch = TypedDict(
    "NextBatch",
    {
        "again": bool,
        "landed": NotRequired[bool],
        "batch_id": int | None,
        "from": dict[str, str] | None,
        "to": dict[str, str] | None,
        "records": int | None,
    },
)
"""`next_batch` of `streams status`. `again`: it was planned and not finished; only then `landed` is known."""


class Lost(StrEnum):
    """The answer."""

    NO = "no"
    YES = "yes"
    AT_RISK = "at risk"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Answer:
    """The answer and the sentence that explains it.

    `but`: which records were dropped on purpose (late, skipped), or are kept in another table; empty if none were.
    """

    lost: Lost
    text: str
    but: str = ""


# Reason of the block -> what it means for the stream's data.
_BLOCKED = {
    "rolled-back": Answer(Lost.YES, "landed rows are missing from the table until a person acts"),
    "table-replaced": Answer(Lost.YES, "landed rows are missing from the table until a person acts"),
    "table-renamed": Answer(Lost.NO, "the landed rows are in a table of another name; the source still has the rest"),
    "source-expired": Answer(Lost.YES, "records expired at the source before they landed"),
    "topic-added-late": Answer(
        Lost.NO,
        "what an added topic had before the stream read it was never part of the stream; nothing lands until a "
        "person acts",
    ),
    "topic-replaced": Answer(
        Lost.AT_RISK, "the topic was deleted and created again: its records that had not landed are lost"
    ),
    "source-missing": Answer(Lost.AT_RISK, "the table it reads does not exist: its rows that have not landed are lost"),
    "source-replaced": Answer(Lost.AT_RISK, "the table it reads was replaced: its rows that have not landed are lost"),
    "source-rolled-back": Answer(Lost.NO, "but it landed rows that the table it reads may not have any more"),
    "source-files-gone": Answer(
        Lost.AT_RISK, "files were listed and deleted before they landed; nothing lands until a person acts"
    ),
    "expired-unseen": Answer(
        Lost.UNKNOWN, "another program expired snapshots: streams audit shows whether rows are missing"
    ),
    "checkpoint-ahead": Answer(
        Lost.AT_RISK,
        "the checkpoint has committed batches that the table does not have; the source may still have them",
    ),
    "no-position": Answer(Lost.UNKNOWN, "the table has no position of this stream"),
    "position-unreadable": Answer(Lost.UNKNOWN, "the table's position cannot be read"),
    "unstaged": Answer(Lost.NO, "but the table has a batch that no position counts: it would land twice"),
    "commit-overwritten": Answer(Lost.UNKNOWN, "the table's log lacks a commit that its state is based on"),
    "quarantine-missing": Answer(Lost.YES, "rejected records are in no table until a person acts"),
    "late-missing": Answer(Lost.YES, "late records that were kept are in no table until a person acts"),
    "diverged": Answer(
        Lost.NO, "the table has a batch with this number and other offsets; nothing lands until a person acts"
    ),
}
_STOPPED_IN_TIME = (
    "gap", "overlap", "discontinuous", "older-checkpoint", "checkpoint-missing", "checkpoint-truncated",
    "foreign-checkpoint", "wap-off", "property-unreadable", "no-domains", "mode-changed", "unlogged", "file-unfit",
    "files-of-a-table", "log-missing", "source-rewritten", "state-unfit",
)  # fmt: skip


def lost(m: Material) -> Answer:
    """Whether data is lost, as far as the available facts show, and which records were dropped or skipped."""
    answer, but, late = _lost(m), _dropped(m), m.facts.late(m.stream.id)
    text = answer.text.replace("every record", "every other record", 1) if but else answer.text
    generation = m.facts.generations.get(m.stream.id)
    kept_in = None if generation is None else late_table(generation.spec)
    missing = "; ".join(
        state.text
        for state in (m.sources_read.quarantine, m.sources_read.late)
        if state is not None and state.records  # in no table
    )
    if missing:
        if (m.stream.blocked or {}).get("reason") in (QUARANTINE_MISSING, LATE_MISSING):
            return Answer(Lost.YES, missing, but)
        if answer.lost is Lost.YES:
            return Answer(Lost.YES, f"{text}; {missing}", but)
        rest = text.replace("every record", "every other record", 1)
        return Answer(Lost.YES, f"{missing}; {rest}", but)
    if late is not None and answer.lost is Lost.NO and kept_in is None:
        return Answer(Lost.AT_RISK, f"{late}; {text}", but)
    return Answer(answer.lost, text, but)


def _dropped(m: Material) -> str:
    """Records that the source had, that the sink does not have, and that no stream will read again."""
    parts = []
    table_missing = m.sources_read.late is not None and m.sources_read.late.missing
    for late in (m.late, None if table_missing else m.late_kept):
        if late is not None and late.records:
            since = f" since {moment(late.since)}" if late.since is not None else ""
            done = f"kept in {' and '.join(late.tables)}" if late.tables else "dropped"
            parts.append(f"{count(late.records, 'late record')} {'was' if late.records == 1 else 'were'} {done}{since}")
    skipped = m.sources_read.position.totals.skipped if m.sources_read.position is not None else 0
    if skipped:
        parts.append(f"{count(skipped, 'record')} {'was' if skipped == 1 else 'were'} skipped by a person")
    return " and ".join(parts)


def _lost(m: Material) -> Answer:
    blocked = m.stream.blocked or {}
    reason = str(blocked.get("reason", ""))
    if m.halt is not None:  # asked now: the table may have changed since the block
        reason, blocked = m.halt.reason, {"why": m.halt.why}
    if reason in _BLOCKED and not m.cured:
        answer = _BLOCKED[reason]
        return Answer(answer.lost, f"{answer.text}: {blocked.get('why') or blocked.get('what') or reason}")
    spec = m.view.spec(m.stream.id)
    if spec is not None and any(source.socket for source in spec.sources.values()):
        text = "a socket has no retention: what it sent while the stream was down, or just before its end, is lost"
        return Answer(Lost.UNKNOWN, text)
    expired = _expired(m.sources_read.lag)
    if expired:
        return Answer(Lost.YES, f"records expired at the source before they landed: {expired}")
    other = m.sources_read.lag.lost_topics if m.sources_read.lag is not None else ""
    recorded = _recorded(m)
    if other:
        if m.sources_read.table_missing and recorded is not None:
            return _without_position(m, recorded)
        if recorded is None and m.sources_read.position is None and m.sources_read.table_answered is not False:
            return Answer(
                Lost.UNKNOWN, f"nothing has landed yet; what a topic had that no longer exists is lost: {other}"
            )
        return Answer(Lost.AT_RISK, f"what had not landed from the topic that was there before may be lost: {other}")
    rest = "the source still has the rest"
    if m.sources_read.lag is None:
        rest = "the rest waits at the source, which could not be asked now"
    elif m.sources_read.lag.unmeasured:
        rest = "the rest waits at the sources, not all of which could be asked now"
    if reason in _STOPPED_IN_TIME:
        return Answer(Lost.NO, f"it was stopped before a row was lost or doubled; {rest}")
    sink = next((name for name in _AT_LEAST_ONCE if spec is not None and getattr(spec.sink, name, None)), None)
    if sink is not None:
        return Answer(Lost.NO, f"{rest}; but sink {sink} is at least once: the last batch may be written twice")
    if m.sources_read.table_answered is False:
        last = "no batch yet" if recorded is None else f"{recorded} as the last one"
        return Answer(Lost.UNKNOWN, f"no sign of it, but the table could not be asked; the registry has {last}")
    if m.sources_read.position is None:
        if recorded is not None:
            return _without_position(m, recorded)
        return Answer(Lost.NO, f"nothing has landed yet; {rest}")
    risk = at_risk(m.sources_read.lag)
    if risk:
        return Answer(
            Lost.AT_RISK, f"nothing is lost yet, but records wait almost as long as the source's retention{risk}"
        )
    where = _table(m)
    if m.sources_read.position.totals.quarantined:
        where += f" or its quarantine ({count(m.sources_read.position.totals.quarantined, 'record')} so far)"
    tail = "; the state of the driver is not known" if m.verdict.state is State.UNKNOWN else ""
    return Answer(Lost.NO, f"every record up to the offsets below is in {where} exactly once, and {rest}{tail}")


def safe_to(m: Material) -> SafePosition | None:
    """The position up to which data is safe: the table's, or the registry's copy if the table has none or is down."""
    position = m.sources_read.position
    if position is not None:
        return {
            "by": "table",
            "seq": position.seq,
            "batch_id": position.batch,
            "generation": position.generation,
            "snapshot_id": position.snapshot,
            "offsets": dict(position.end),
        }
    if m.newest is None or m.sources_read.table_missing:
        return None
    return {
        "by": "registry",
        "seq": m.newest.seq,
        "batch_id": m.newest.batch_id,
        "generation": m.newest.generation,
        "snapshot_id": m.newest.snapshot_id,
        "offsets": dict(m.newest.end_offsets or {}),
    }


def replays(m: Material) -> NextBatch | None:
    """What the next batch does, as far as that is decided already; None if nothing is known about it.

    `again` is True for a batch that was planned and not finished: Spark repeats it with the same end offsets.
    """
    if m.sources_read.table_missing and _recorded(m) is not None:
        return None
    safe, plan = safe_to(m), m.sources_read.planned
    start = safe["offsets"] if safe is not None else {}
    if plan is None:
        return None if safe is None else {"again": False, "batch_id": None, "from": start, "to": None, "records": None}
    if plan.done:
        return {"again": False, "batch_id": plan.batch + 1, "from": start, "to": None, "records": None}
    landed = bool(start) and all(start.get(name) == kafka_canonical(end) for name, end in plan.ends.items())
    return {
        "again": True,
        "landed": bool(plan.ends) and landed,
        "batch_id": plan.batch,
        "from": None if landed else start,
        "to": dict(plan.ends) or None,
        "records": None if landed else _between(start, plan.ends),
    }


def kafka_canonical(end: str) -> str:
    """A position in canonical form; unchanged if it is not a Kafka position."""
    try:
        return kafka_position.canonical(end)
    except (ValueError, AttributeError, TypeError):
        return end


def left_s(lag: Lag | None) -> float | None:
    """Seconds until the source's retention reaches the oldest record that waits, of the sources that were measured;
    None: never, or not known."""
    if lag is None or lag.oldest_s is None or lag.retention_s is None or not lag.at_least:
        return None
    return max(0.0, lag.retention_s - lag.oldest_s)


def at_risk(lag: Lag | None) -> str:
    """A phrase, if the oldest waiting record has used up too much of the source's retention; else empty."""
    if lag is None or lag.oldest_s is None or lag.retention_s is None or not lag.at_least:
        return ""
    if lag.oldest_s <= AT_RISK_SHARE * lag.retention_s:
        return ""
    remaining = left_s(lag) or 0.0
    return f" ({span(lag.oldest_s)} of {span(lag.retention_s)}; the first expire in {span(remaining)})"


def show(offsets: Mapping[str, str] | None) -> str:
    """Positions by source as searchable text: `flights/0: 120, flights/1: 88`."""
    if not offsets:
        return "the beginning"
    parts = []
    for source, text in sorted(offsets.items()):
        parts.append(_show_one(source, str(text), named=len(offsets) > 1))
    return "; ".join(parts)


def show_range(start: Mapping[str, str] | None, end: Mapping[str, str] | None) -> str:
    """Start and end by partition: `flights/0: 120 to 200, flights/1: 88 to 91`."""
    try:
        first = {name: kafka_position.parse(str(text)) for name, text in (start or {}).items()}
        last = {name: kafka_position.parse(str(text)) for name, text in (end or {}).items()}
    except (ValueError, AttributeError, TypeError):
        return f"{show(start)} to {show(end)}"
    parts = [
        f"{topic}/{part}: {first.get(name, {}).get(topic, {}).get(part, 'the beginning')} to {to}"
        for name, topics in sorted(last.items())
        for topic, ends in sorted(topics.items())
        for part, to in sorted(ends.items())
        if first.get(name, {}).get(topic, {}).get(part) != to
    ]
    more = f" and {len(parts) - 12} more partitions" if len(parts) > 12 else ""
    return (", ".join(parts[:12]) or "no new offsets") + more


def _show_one(source: str, text: str, *, named: bool) -> str:
    if text == NO_DATA:
        shown = "nothing yet"
    else:
        try:
            offsets = kafka_position.parse(text)
        except (ValueError, AttributeError, TypeError):
            shown = text
        else:
            parts = [(t, p, o) for t, parts in sorted(offsets.items()) for p, o in sorted(parts.items())]
            shown = ", ".join(f"{t}/{p}: {o}" for t, p, o in parts[:12])
            if len(parts) > 12:
                shown += f" and {len(parts) - 12} more partitions"
    return f"{source}: {shown}" if named else shown


def _between(start: Mapping[str, str], ends: Mapping[str, str]) -> int | None:
    if not ends:
        return None
    total = 0
    for source, end in ends.items():
        try:
            total += kafka_position.behind(str(start.get(source, NO_DATA)), kafka_position.parse(str(end)))
        except (ValueError, AttributeError, TypeError):
            return None
    return total


def _expired(lag: Lag | None) -> str:
    parts: list[Partition] = [item for item in lag.partitions if item.expired] if lag is not None else []
    return "; ".join(
        f"{item.topic}/{item.partition}: {item.position} to {(item.begin or 0) - 1} ({count(item.expired, 'offset')})"
        for item in parts
    )


def _without_position(m: Material, recorded: str) -> Answer:
    """The answer for landed batches without a position in any table."""
    if m.sources_read.table_missing:
        return Answer(
            Lost.YES,
            f"{_table(m)} does not exist any more, and the registry has {recorded} as landed in it: its rows are "
            "missing until a person restores the table from a backup of the catalog, or registers its newest metadata",
        )
    return Answer(
        Lost.UNKNOWN,
        f"{_table(m)} has no position of this stream, although the registry has {recorded} as landed",
    )


def _table(m: Material) -> str:
    spec = m.view.spec(m.stream.id)
    return spec.sink.label if spec is not None else "the table"


def _recorded(m: Material) -> str | None:
    """The newest batch in the registry; None before the first. Batch rows have a retention time, the driver's last
    observation has none."""
    seen = m.facts.observations.get(m.stream.id)
    batch: int | None
    if m.newest is not None:
        batch, seq = m.newest.batch_id, m.newest.seq
    elif seen is not None and seen.committed_at is not None:
        batch, seq = seen.batch_id, seen.seq
    else:
        return None
    return f"batch {batch}" + (f" (seq {seq})" if seq is not None else "")
