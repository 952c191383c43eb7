"""The streams of the page: one row a stream, worst first, and the sentence above them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Literal, NotRequired, TypedDict, cast

from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.text import count, minute, span
from lakeward.registry import batches, generations, lag_history
from lakeward.registry.engine import now
from lakeward.registry.observations import Progress, Watch
from lakeward.registry.streams import Stream
from lakeward.spec.deploy.generation_diff import lines
from lakeward.supervision.decide.health import TROUBLE, State
from lakeward.supervision.observe import Connect
from lakeward.supervision.report import late
from lakeward.supervision.report.document import StreamDocument, StreamEntry, entries_of, lag_fields
from lakeward.supervision.report.lag import of_watch
from lakeward.supervision.report.material import View
from lakeward.telemetry.mask import mask
from lakeward.web import open_incidents
from lakeward.web.actions import Action
from lakeward.web.open_incidents import PageIncident

WORST_FIRST = (
    State.BLOCKED, State.UNKNOWN, State.RESTARTING, State.STALLED, State.LAGGING, State.STARTING, State.STOPPING,
    State.HEALTHY, State.COMPLETED, State.STOPPED,
)  # fmt: skip
DAG = "stream__"


class Figures(TypedDict):
    """The figures of a row; None where nothing is known. `lag_unknown`: why the lag is not known, though measured."""

    desired: str
    lag_records: int | None
    lag_s: float | None
    lag_unknown: str | None
    lag_trend: str | None
    lag_age_s: float | None
    freshness_limit_s: float | None
    committed_at: datetime | None
    commit_age_s: float | None
    input_rows_per_second: float | None
    processed_rows_per_second: float | None
    batch_duration_s: float | None
    trigger_s: float | None
    restarts_24h: int


class StreamRow(StreamEntry, Figures):
    """One stream: the entry of `streams list -o json`, and its figures. `tables`: those of the lake it writes to."""

    dag_id: str
    tables: Sequence[str]


class Supervision(TypedDict):
    """Whether anybody supervises the streams; `why` and `next` where nobody does."""

    state: str
    why: str | None
    next: str | None


class Headline(TypedDict):
    """The first line of the page."""

    level: Literal["empty", "ok", "warning", "trouble"]
    text: str


class Streams(TypedDict):
    """Every stream that the user may see, worst first.

    Attributes:
        now: the registry's time when it was read; ages are relative to it.
        age_s, stale: how old the reading is, and why it could not be renewed.
        unreadable: streams of which something in the registry cannot be read.
        incidents: open ones that no row of a stream shows: of tables, dependencies, operations, supervision.
    """

    now: datetime
    age_s: NotRequired[float]
    stale: NotRequired[str | None]
    supervision: Supervision
    headline: Headline
    counts: Mapping[str, int]
    streams: Sequence[StreamRow]
    unreadable: Sequence[str]
    incidents: Sequence[PageIncident]


class GenerationRow(TypedDict):
    """One generation of a stream. `state`: running | pending | failed | stable | earlier.

    `changed`: how its spec differs from the generation before it, one line a key; empty for the first.
    """

    generation: int
    created_at: datetime
    author: str
    state: str
    failure: str | None
    changed: Sequence[str]


class StreamDetail(TypedDict):
    """One stream: the document of `streams status -o json`, the report's lines, operations and generations.

    `age_s`, `stale`: how old the reading is, and why it could not be renewed.
    """

    age_s: NotRequired[float]
    stale: NotRequired[str | None]
    document: StreamDocument
    block: Sequence[str]
    actions: Sequence[Action]
    generations: Sequence[GenerationRow]


class BatchRow(TypedDict):
    """One recorded batch, without its offsets. `phases`: phase -> seconds; None where Spark did not report them."""

    seq: int | None
    batch_id: int
    generation: int
    snapshot_id: int | None
    committed_at: datetime
    duration_s: float | None
    phases: Mapping[str, float] | None
    consumed: int | None
    landed: int | None
    quarantined: int | None
    filtered: int | None
    late_dropped: int | None
    late_kept: int | None
    replayed: bool


class LagMoment(TypedDict):
    """The largest lag and state of one interval; None where it was not known, or the stream has no state."""

    at: datetime
    lag_records: int | None
    lag_s: float | None
    state_rows: int | None
    state_bytes: int | None


class LagHistory(TypedDict):
    """Lag and state of a stream over time, oldest first. A driver records about one moment a minute."""

    stream: str
    now: datetime
    moments: Sequence[LagMoment]


class Batches(TypedDict):
    """The newest batches of a stream, newest first."""

    stream: str
    batches: Sequence[BatchRow]


def of_view(view: View) -> Streams:
    """All streams of a view."""
    entries, unreadable = entries_of(view)
    by_id = view.facts.by_id
    rows: list[StreamRow] = []
    for entry in entries:
        stream = by_id[entry["id"]]
        found = attempt(f"figures of stream {stream.id}", partial(_figures, view, stream))
        figures = _unknown(stream) if isinstance(found, Failure) else found
        rows.append({**entry, **figures, "dag_id": DAG + stream.id, "tables": _tables(view, stream.id)})
    rows.sort(key=lambda row: (WORST_FIRST.index(State(row["state"])), row["since"], row["id"]))
    return {
        "now": view.facts.now,
        "supervision": {
            "state": view.presence.state.value,
            "why": view.unsupervised,
            "next": view.presence.next or None,
        },
        "headline": headline(rows, view.facts.now, view.unsupervised),
        "counts": dict(Counter(row["state"] for row in rows)),
        "streams": rows,
        "unreadable": unreadable,
        "incidents": open_incidents.beyond_rows(view.facts.incidents.values()),
    }


def _tables(view: View, stream: str) -> list[str]:
    spec = view.spec(stream)
    if spec is None:
        sink = view.facts.table(stream)
        return [] if sink is None else [sink]
    return [str(table) for table in spec.tables]


def visible(streams: Streams, dags: frozenset[str], *, everything: bool) -> Streams:
    """The streams whose Dags are among these, with the sentence, the counts and the incidents about them."""
    rows = [row for row in streams["streams"] if row["dag_id"] in dags]
    names = {row["id"] for row in rows}
    return {
        **streams,
        "streams": rows,
        "unreadable": [name for name in streams["unreadable"] if name in names],
        "counts": dict(Counter(row["state"] for row in rows)),
        "headline": headline(rows, streams["now"], streams["supervision"]["why"]),
        "incidents": open_incidents.visible(streams["incidents"], names, everything=everything),
    }


def headline(rows: Sequence[StreamRow], now: datetime, unsupervised: str | None) -> Headline:
    """What is wrong and since when, or since when all is well.

    Args:
        rows: worst first.
    """
    if not rows:
        return {"level": "empty", "text": "No stream is deployed"}
    worst = [row for row in rows if State(row["state"]) in TROUBLE]
    if worst:
        first = worst[0]
        others = f", and {count(len(worst) - 1, 'other stream')} in trouble" if len(worst) > 1 else ""
        return {"level": "trouble", "text": f"{_since(first, now)}: {first['why']}{others}"}
    if unsupervised is not None:
        return {"level": "trouble", "text": f"Nobody supervises the streams: {unsupervised}"}
    slow = [row for row in rows if row["state"] in (State.LAGGING, State.STARTING, State.STOPPING)]
    if slow:
        others = f", and {count(len(slow) - 1, 'other stream')}" if len(slow) > 1 else ""
        return {"level": "warning", "text": f"{_since(slow[0], now)}{others}; no stream is down"}
    running = [row for row in rows if row["state"] == State.HEALTHY]
    stopped = sum(row["state"] == State.STOPPED for row in rows)
    note = f"; {count(stopped, 'stream')} stopped on request" if stopped else ""
    if not running:
        return {"level": "ok", "text": f"No stream is meant to run now{note}"}
    at = max(row["since"] for row in running)
    which = "stream is" if len(running) == 1 else f"{len(running)} streams are"
    text = f"{'The' if len(running) == 1 else 'All'} {which} healthy since {minute(at)} ({span(now - at)}){note}"
    return {"level": "ok", "text": text}


def _since(row: StreamRow, now: datetime) -> str:
    return f"{row['id']} is {row['state'].upper()} since {minute(row['since'])} ({span(now - row['since'])})"


def _figures(view: View, stream: Stream) -> Figures:
    facts, spec = view.facts, view.spec(stream.id)
    seen = facts.observations.get(stream.id)
    watch: Watch = (seen.watch if seen else None) or {}
    progress: Progress = (seen.progress if seen else None) or {}
    lag = lag_fields(of_watch(watch, facts.now), watch, progress, view.verdicts[stream.id].state, seen)
    committed = seen.committed_at if seen else None
    whole = (progress.get("durationMs") or {}).get("triggerExecution")
    pair = ((stream.driver, stream.id), (stream.driver, None))
    return {
        "desired": stream.desired,
        "lag_records": lag["lag_records"],
        "lag_s": lag["lag_s"],
        "lag_unknown": lag["lag_unknown"],
        "lag_trend": lag["lag_trend"],
        "lag_age_s": lag["lag_age_s"],
        "freshness_limit_s": spec.limits.freshness.seconds if spec else None,
        "committed_at": committed,
        "commit_age_s": (facts.now - committed).total_seconds() if committed else None,
        "input_rows_per_second": progress.get("inputRowsPerSecond"),
        "processed_rows_per_second": progress.get("processedRowsPerSecond"),
        "batch_duration_s": None if whole is None else whole / 1000,
        "trigger_s": spec.trigger.interval.seconds if spec and spec.trigger.interval else None,
        "restarts_24h": sum(facts.failures_24h.get(key, 0) for key in pair),
    }


def _unknown(stream: Stream) -> Figures:
    return {
        "desired": stream.desired, "lag_records": None, "lag_s": None, "lag_unknown": None, "lag_trend": None,
        "lag_age_s": None, "freshness_limit_s": None,
        "committed_at": None, "commit_age_s": None, "input_rows_per_second": None, "processed_rows_per_second": None,
        "batch_duration_s": None, "trigger_s": None, "restarts_24h": 0,
    }  # fmt: skip


def newest_batches(connect: Connect, stream: str, limit: int) -> Batches:
    """The newest batches of a stream."""
    with connect() as connection:
        rows = late.of_batches(connection, stream, batches.newest(connection, stream, limit))
    names = BatchRow.__annotations__
    return {
        "stream": stream,
        "batches": [cast("BatchRow", {name: row[name] for name in names}) for row in rows],
    }


def lag_over_time(connect: Connect, stream: str, hours: int) -> LagHistory:
    """Lag and state of a stream in the last hours."""
    with connect() as connection:
        moments = lag_history.newest(connection, stream, timedelta(hours=hours))
        return {
            "stream": stream,
            "now": now(connection),
            "moments": [cast("LagMoment", dict(vars(moment))) for moment in moments],
        }


def generations_of(connect: Connect, stream: Stream, limit: int = 20) -> list[GenerationRow]:
    """The newest generations of a stream, newest first."""
    with connect() as connection:
        found = generations.newest(connection, stream.id, limit + 1)
    changed = {
        after.generation: [mask(line) for line in lines(before.spec, after.spec, before.code, after.code)]
        for after, before in pairwise(found)
    }
    rows: list[GenerationRow] = []
    for item in found[:limit]:
        state = "stable" if item.stable_at is not None else "earlier"
        if item.generation == stream.generation:
            state = "running"
        elif item.generation == stream.pending_generation:
            state = "pending"
        elif item.failed_at is not None:
            state = "failed"
        rows.append(
            {
                "generation": item.generation,
                "created_at": item.created_at,
                "author": item.author,
                "state": state,
                "failure": item.failure,
                "changed": changed.get(item.generation, []),
            }
        )
    return rows
