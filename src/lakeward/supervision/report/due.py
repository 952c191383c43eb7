"""Due reports: which streams need a report now, and the record that makes each report appear once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from lakeward.platform.boundary import attempt, worded
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Runtime
from lakeward.platform.text import minute
from lakeward.registry import events, streams
from lakeward.registry.streams import Stream
from lakeward.supervision.backends.base import Backend
from lakeward.supervision.context import backend_of
from lakeward.supervision.decide.health import SETTLED, TROUBLE, State, Verdict
from lakeward.supervision.observe import Connect
from lakeward.telemetry.mask import mask

if TYPE_CHECKING:
    from lakeward.supervision.report import material
    from lakeward.supervision.report.document import StreamDocument

KIND = "report"
"""The event that records a report: the last one decides whether the next is due."""

FIRST_AT_ONCE = 20
"""The most first reports of streams that are fine which one pass starts: each is a run of Airflow."""


@dataclass(frozen=True)
class Report:
    """The block about one stream.

    Attributes:
        found: the trouble this report was requested for, which may be over by now.
        blocked_at: since when the stream is blocked, RFC 3339; None if it is not.
    """

    stream: str
    verdict: Verdict
    lines: tuple[str, ...]
    found: str | None = None
    blocked_at: str | None = None

    @property
    def trouble(self) -> bool:
        """Whether it reports trouble: the stream is down or unknown, or it was when the report became due."""
        return self.verdict.state in TROUBLE or self.found is not None


@dataclass(frozen=True)
class DueReport:
    """A report that is due.

    `run` is its run id, equal for the same occurrence of a state; `found` is the trouble in a sentence.
    """

    stream: str
    run: str
    found: str | None = None


def of_stream(
    connect: Connect, runtime: Runtime, stream: str, found: str | None = None, backend: Backend | None = None
) -> Report:
    """The report about one stream, from its current state.

    Args:
        found: the trouble it is about, if that was observed earlier: it is reported although it may be over.

    Raises:
        SpecError: there is no such stream, or it was removed.
        DependencyDown: the registry cannot be reached.
    """
    # Here and in `read`: a reconcile pass asks only which reports are due, and needs nothing of what they are made of.
    from lakeward.supervision.report.block import block

    view, document_ = read(connect, runtime, stream, backend)
    verdict = view.verdicts[stream]
    if verdict.state in TROUBLE:
        found = None  # the trouble continues: the current state says more
    lines = tuple(block(document_, None if found is None else mask(found)))
    return Report(stream, verdict, lines, found, _blocked_at(view.facts.by_id[stream]))


def read(
    connect: Connect,
    runtime: Runtime,
    stream: str,
    backend: Backend | None = None,
    explain: material.Explain | None = None,
) -> tuple[material.View, StreamDocument]:
    """The current view of all streams, and the document of one of them.

    Args:
        explain: adds the cause of missing supervision.

    Raises:
        SpecError: there is no such stream, or it was removed.
        DependencyDown: the registry cannot be reached.
    """
    from lakeward.supervision.report import material
    from lakeward.supervision.report.document import document

    view = material.observe_all(connect, backend or backend_of(runtime), explain)
    if stream not in view.verdicts:
        with connect() as connection:
            row = streams.get(connection, stream)
        raise SpecError(
            f"Stream {stream} was removed",
            why=f"at {minute(row.removed_at)}" if row.removed_at else "",
            next="lakeward streams list",
            code="LW-2504",
        )
    gathered = partial(material.gather, connect, runtime, view, stream)
    return view, worded(f"stream {stream}", lambda: document(gathered()), next="lakeward streams list")


def record(connection: Connection, report: Report) -> None:
    """Record that this was reported, so that it is reported once."""
    events.record(
        connection,
        "stream",
        report.stream,
        KIND,
        report.lines[0],
        trouble=report.trouble,
        state=report.verdict.state.value,
        blocked_at=report.blocked_at,
    )


def due(connection: Connection) -> list[DueReport]:
    """The reports that are due: the first one of a stream, when trouble begins, when the stream becomes blocked, and
    when it is in another settled state than the last report says.

    So the newest run of a stream's Dag always shows its state. First reports come a few at a time: a deployment may
    have many streams.
    """
    last = events.newest_of_kind(connection, "stream", KIND)
    reports = []
    for stream in streams.all_streams(connection):
        before = last[stream.id].fields if stream.id in last else {}
        report = attempt(f"report of stream {stream.id}", partial(_due, stream, before))
        if isinstance(report, DueReport):
            reports.append(report)
    first = [report.stream for report in reports if report.stream not in last and report.found is None]
    later = set(first[FIRST_AT_ONCE:])
    return [report for report in reports if report.stream not in later]


def _due(stream: Stream, before: Mapping[str, Any]) -> DueReport | None:
    """The report of one stream, if it is due; `before` has the fields of the last one."""
    state = State(stream.state)
    begins = state in TROUBLE and not before.get("trouble")
    at = _blocked_at(stream) if state is State.BLOCKED else None
    since = stream.since if at is None else datetime.fromisoformat(at)
    # A block that was not reported yet is due, even if an earlier block was reported.
    another = before.get("state") != state.value or at not in (None, before.get("blocked_at"))
    worsens = state is State.BLOCKED and another
    settles = state in SETTLED and (bool(before.get("trouble")) or _shown(before.get("state")) != _shown(state.value))
    if not (begins or worsens or settles):
        return None
    run = f"report__{state.value}__{since:%Y-%m-%dT%H-%M-%S}"
    moment = f"{since:%H:%M:%S} UTC"
    trouble = f"At {moment} it was {state.value.upper()}: {stream.why}" if state in TROUBLE else None
    return DueReport(stream.id, run, trouble)


def _shown(state: str | None) -> str | None:
    """A state as reports tell it apart: no run for a stream that lags for a moment, or completes on its schedule."""
    return State.HEALTHY.value if state in (State.LAGGING.value, State.COMPLETED.value) else state


def _blocked_at(stream: Stream) -> str | None:
    """Since when the stream is blocked; identifies one block."""
    return (stream.blocked or {}).get("at")
