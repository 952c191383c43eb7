"""Report material: everything known about one stream at one moment, gathered once for all reports about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from sqlalchemy import Connection

from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.iceberg.missing_records_table import LATE_REASON as LATE_MISSING
from lakeward.connectors.iceberg.missing_records_table import REASON as QUARANTINE_MISSING
from lakeward.platform.runtime import Runtime
from lakeward.registry import batches, generations, incidents, streams
from lakeward.registry.batches import Batch
from lakeward.registry.drivers import Driver
from lakeward.registry.generations import Generation
from lakeward.registry.incidents import Incident
from lakeward.registry.streams import Stream
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision import launch_log, observe, presence
from lakeward.supervision.backends.base import Backend, Job, Life
from lakeward.supervision.decide.health import TROUBLE, Verdict
from lakeward.supervision.decide.remedy import OF_THE_TABLE, PUT_BACK, SUPERVISED, new_id
from lakeward.supervision.observe import Connect, Facts, Jobs
from lakeward.supervision.presence import Presence
from lakeward.supervision.presence import State as Supervised
from lakeward.supervision.report import generation_diff, recent, sources
from lakeward.supervision.report import late as late_records
from lakeward.supervision.report.late import LateRecords
from lakeward.supervision.report.quarantine_loss import MOST_BATCHES, Rejected
from lakeward.supervision.report.recent import Recent
from lakeward.supervision.report.sources import Sources

TAIL = 8


@dataclass(frozen=True)
class View:
    """All streams at one moment: the registry's facts, the backend's launches, and the state of each stream.

    `presence`: whether the streams are supervised.
    """

    facts: Facts
    jobs: Sequence[Job] | None
    verdicts: Mapping[str, Verdict]
    presence: Presence = SUPERVISED

    @cached_property
    def launches(self) -> Jobs:
        """The launches by driver and token; None if the backend could not be asked."""
        return observe.by_launch(self.jobs)

    @property
    def unsupervised(self) -> str | None:
        """Why the streams are not supervised; None if they are."""
        return self.presence.why if self.presence.missing else None

    def spec(self, stream: str) -> StreamSpec | None:
        """The spec of the generation a stream runs; None if it has none, or this version cannot read it."""
        generation: Generation | None = self.facts.generations.get(stream)
        return None if generation is None else _spec(generation)

    def driver(self, stream: Stream) -> Driver | None:
        """The newest launch of the driver that hosts it."""
        return self.facts.drivers.get(stream.driver)

    def process_ended(self, stream: Stream) -> bool:
        """Whether its driver's process is known to have ended or was never started; False if that is not known."""
        driver = self.driver(stream)
        if driver is None or driver.ended:
            return True
        lives = [job.life for job in self.jobs or () if job.token == driver.token]
        return self.jobs is not None and all(life in (Life.GONE, Life.REMNANT) for life in lives)

    def other_streams(self, stream: Stream) -> list[str]:
        """The other streams its driver hosts."""
        return [item.id for item in self.facts.streams if item.driver == stream.driver and item.id != stream.id]


@dataclass(frozen=True)
class Material:
    """What is known about one stream.

    Attributes:
        newest: its newest recorded batch, None before the first.
        late: records that came after the watermark and were dropped; None before the first batch.
        late_kept: those that were kept, by generations with a table for them; None before the first batch.
        stable: the newest stable generation before this one, None without one.
        differs: the keys in which the running generation differs from it.
        incident: the open incident of the stream, or of many streams with this one; None without one.
        tail: the last lines of the driver's log, if the stream is in trouble.
    """

    view: View
    stream: Stream
    sources_read: Sources
    newest: Batch | None = None
    late: LateRecords | None = None
    late_kept: LateRecords | None = None
    recent: Sequence[Recent] = ()
    stable: Generation | None = None
    differs: Sequence[str] = ()
    incident: Incident | None = None
    tail: Sequence[str] = field(default_factory=tuple)

    @property
    def facts(self) -> Facts:
        return self.view.facts

    @property
    def verdict(self) -> Verdict:
        return self.view.verdicts[self.stream.id]

    @property
    def halt(self) -> BlockReason | None:
        """Why the table takes no batch now, for a stream that the table blocked; None if it takes one."""
        if not self._of_the_table:
            return None
        found = self.sources_read.halt
        # A table that a person creates has no settings: to set them does not bring its rows back.
        return self._created_again or found if found is None or found.reason in SETTINGS else found

    @property
    def cured(self) -> bool:
        """Whether the table, read now, has everything that the block missed: a start is all that is left."""
        if (self.stream.blocked or {}).get("reason") == QUARANTINE_MISSING:
            return self.sources_read.quarantine is not None and not self.sources_read.quarantine.missing
        if (self.stream.blocked or {}).get("reason") == LATE_MISSING:
            return self.sources_read.late is not None and not self.sources_read.late.missing
        answered = self.sources_read.table_answered is True and self.sources_read.position is not None
        return self._of_the_table and answered and self.sources_read.halt is None

    @property
    def _of_the_table(self) -> bool:
        return str((self.stream.blocked or {}).get("reason")) in OF_THE_TABLE

    @property
    def _created_again(self) -> BlockReason | None:
        """The block of a table that was created again after the stream was blocked; None if it was not.

        The step that was stored, e.g. to register the dropped table, fails for a table that exists.
        """
        reason, read = (self.stream.blocked or {}).get("reason"), self.sources_read
        kept = KEPT if read.halt is None else KEPT - {"no-position"}  # to put it back is what the table says itself
        exists = read.table_answered is True and not read.table_missing
        if reason in kept or not exists or read.position is not None or self.newest is None:
            return None
        return BlockReason(
            "table-replaced",
            f"The table of stream {self.stream.id} was created again",
            f"it has no position of the stream, whose newest batch was seq {self.newest.seq}; its landed rows are not "
            "in it",
            new_id(self.stream.id),
            code="LW-2513",
        )


KEPT = PUT_BACK | {"table-renamed"}
"""Reasons of the table after which the rows are still in a table that can be found, or the position can be put back."""
SETTINGS = frozenset({"wap-off", "no-domains", "unlogged", "property-unreadable"})
"""Reasons of a table that lacks a setting, or has one that cannot be read."""
_MOST_SPECS = 4096
_specs: dict[str, tuple[dict[str, Any], StreamSpec | None]] = {}
"""Stream -> the spec as it is stored, and as it was read."""


def _spec(generation: Generation) -> StreamSpec | None:
    """Its spec, validated once a process while it stays the same: to validate a thousand specs takes a second."""
    known = _specs.get(generation.stream)
    if known is None or known[0] != generation.spec:
        try:
            read = StreamSpec.model_validate(generation.spec)
        except ValueError:
            read = None
        if len(_specs) >= _MOST_SPECS:
            _specs.clear()
        known = _specs[generation.stream] = (generation.spec, read)
    return known[1]


Explain = Callable[[Presence], Presence]
"""Adds the cause of missing supervision, where it can be read."""


def observe_all(
    connect: Connect, backend: Backend, explain: Explain | None = None, before: Facts | None = None
) -> View:  # fmt: skip
    """All streams now, judged here and not by the last reconcile pass.

    Args:
        before: an earlier observation, whose specs are not read again: they never change.
    """
    with connect() as connection:
        facts = observe.read(connection, before=before)
        present = presence.read(connection)
    jobs = observe.observed_jobs(backend, facts)
    if explain is not None and present.state is not Supervised.OK:
        present = explain(present)
    return View(facts, jobs, observe.verdicts(facts, jobs), present)


def gather(connect: Connect, runtime: Runtime, view: View, stream: str) -> Material:
    """Everything about one stream of the view.

    Raises:
        SpecError: there is no such stream.
    """
    spec = view.spec(stream)
    table = str(spec.sink.table) if spec is not None and spec.sink.table is not None else None
    since = view.facts.now - recent.WINDOW
    with connect() as connection:
        row = next((item for item in view.facts.streams if item.id == stream), None) or streams.get(connection, stream)
        newest = next(iter(batches.newest(connection, stream, limit=1)), None)
        late, late_kept = late_records.read(connection, stream) if newest is not None else (None, None)
        happened = recent.read(connection, row, table, since)
        stable, differs = _compared(connection, view, row)
        incident = _incident(incidents.open_ones(connection), stream)
        tail = _tail(connection, view, row)
    sources_read = Sources()
    if spec is not None:
        ends = (newest.end_offsets if newest else None) or {}
        generation = view.facts.generations[stream]
        place = runtime.checkpoint_of(generation.checkpoint)
        sources_read = sources.ask(
            runtime, spec, ends, since, place, partial(_rejecting, connect, stream), partial(_keeping, connect, stream)
        )
    if table is not None and sources_read.others:
        with connect() as connection:
            happened += recent.of_others(connection, table, sources_read.others)
    return Material(
        view=view,
        stream=row,
        sources_read=sources_read,
        newest=newest,
        late=late,
        late_kept=late_kept,
        recent=recent.folded(happened),
        stable=stable,
        differs=differs,
        incident=incident,
        tail=tail,
    )


def _rejecting(connect: Connect, stream: str) -> Rejected:
    with connect() as connection:
        newest = batches.rejecting(connection, stream, MOST_BATCHES)
        return Rejected(newest, generations.tables_of(connection, stream, "quarantine"))


def _keeping(connect: Connect, stream: str, table: str) -> late_records.Kept:
    with connect() as connection:
        return late_records.kept_in(connection, stream, table)


def _incident(incidents: Mapping[tuple[str, str], Incident], stream: str) -> Incident | None:
    """The stream's own incident, else one of many streams that affects it."""
    affecting = (incident for incident in incidents.values() if stream in incident.streams)
    return incidents.get(("stream", stream)) or next(affecting, None)


def _compared(connection: Connection, view: View, stream: Stream) -> tuple[Generation | None, list[str]]:
    running = view.facts.generations.get(stream.id)
    if running is None:
        return None, []
    stable = generations.newest_stable(connection, stream.id, before=running.generation)
    return stable, [] if stable is None else generation_diff.keys(stable, running)


def _tail(connection: Connection, view: View, stream: Stream) -> list[str]:
    """The last log lines before the failure, from the launch that failed, which may not be the newest one."""
    driver = view.driver(stream)
    verdict = view.verdicts.get(stream.id)
    if driver is None or verdict is None or verdict.state not in TROUBLE:
        return []
    failure = view.facts.failure(stream)
    failed_at = failure.at if failure is not None and failure.stream is None else None
    return launch_log.newest(connection, driver, stream.id, failed_at)[-TAIL:]
