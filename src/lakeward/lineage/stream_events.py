"""OpenLineage events of a stream, made from its recorded batches. Pure.

The job is the stream. A run is a generation on one checkpoint, from its first batch until it is stopped, blocked or
replaced; a restart of the driver does not end it. Events: START with the first batch, RUNNING for the batches since the
event before, at most one an interval, and COMPLETE, or FAIL for a blocked stream.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from openlineage.client import facet_v2
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, RunEvent, RunState

from lakeward import __version__
from lakeward.lineage import columns, datasets
from lakeward.lineage.datasets import Addresses, Dataset
from lakeward.lineage.events import make, of_input, of_output, run_id, table_facets
from lakeward.lineage.facets import BatchesFacet, GenerationFacet, OffsetsFacet
from lakeward.registry.batches import Batch
from lakeward.registry.generations import Generation
from lakeward.spec.model.stream import StreamSpec

ENDED = ("stopped", "completed")
BLOCKED = "blocked"


@dataclass(frozen=True)
class Cursor:
    """How far the events of a stream have come.

    Attributes:
        run: id of the newest run.
        generation, query_id: what that run is of.
        covered: time of the newest batch that an event covers.
        sent: time of the newest event, by the registry's clock.
        open: whether that run has no COMPLETE and no FAIL.
    """

    run: str
    generation: int
    query_id: str
    covered: datetime
    sent: datetime
    open: bool

    def document(self) -> dict[str, object]:
        """As JSON."""
        return {**asdict(self), "covered": self.covered.isoformat(), "sent": self.sent.isoformat()}

    @classmethod
    def read(cls, document: Mapping[str, object]) -> Cursor:
        """From JSON."""
        times = {name: datetime.fromisoformat(str(document[name])) for name in ("covered", "sent")}
        return cls(**{**document, **times})  # type: ignore[arg-type]  # written by `document`


@dataclass(frozen=True)
class Facts:
    """What the registry says about a stream.

    Attributes:
        stream: its id.
        state, why: its state, and the reason.
        batches: those after the cursor, oldest first.
        generations: number -> generation, of the batches and of the cursor.
        now: the registry's clock.
    """

    stream: str
    state: str
    why: str
    batches: Sequence[Batch]
    generations: Mapping[int, Generation]
    now: datetime


@dataclass(frozen=True)
class Step:
    """Events to send in order, and the cursor after them.

    Attributes:
        waits_for: why nothing can be sent yet; empty if nothing is missing.
    """

    events: tuple[RunEvent, ...]
    cursor: Cursor | None
    waits_for: str = ""


def plan(facts: Facts, cursor: Cursor | None, addresses: Addresses, namespace: str, every: timedelta) -> Step:
    """The events that are due.

    Args:
        every: shortest time between two RUNNING events of a run.
    """
    events: list[RunEvent] = []
    groups = _groups(facts.batches)
    for group in groups:
        generation = facts.generations.get(group[0].generation)
        if generation is None:  # its row was removed: no spec, no lineage
            continue
        described = _Described.of(generation, group, addresses, namespace)
        if described.missing:
            return Step(tuple(events), cursor, described.missing)
        if cursor is None or not cursor.open or not _same(cursor, group[0]):
            if cursor is not None and cursor.open:
                events.append(_end(facts, cursor, addresses, namespace, RunState.COMPLETE, cursor.covered))
            first = group[0]
            started = first.committed_at - timedelta(seconds=first.duration_s or 0.0)
            run = run_id(namespace, facts.stream, first.generation, first.query_id, first.committed_at.isoformat())
            cursor = Cursor(run, first.generation, first.query_id, first.committed_at, facts.now, open=True)
            events.append(described.event(run, RunState.START, started, figures=False))
        elif group is groups[-1] and facts.now - cursor.sent < every and facts.state not in (*ENDED, BLOCKED):
            continue
        events.append(described.event(cursor.run, RunState.RUNNING, group[-1].committed_at, figures=True))
        cursor = replace(cursor, covered=group[-1].committed_at, sent=facts.now)
    if cursor is not None and cursor.open and facts.state in (*ENDED, BLOCKED):
        ended = RunState.FAIL if facts.state == BLOCKED else RunState.COMPLETE
        events.append(_end(facts, cursor, addresses, namespace, ended, facts.now))
        cursor = replace(cursor, open=False, sent=facts.now)
    return Step(tuple(events), cursor)


def _groups(batches: Sequence[Batch]) -> list[list[Batch]]:
    """Successive batches of one generation on one checkpoint."""
    groups: list[list[Batch]] = []
    for batch in batches:
        if groups and (groups[-1][0].generation, groups[-1][0].query_id) == (batch.generation, batch.query_id):
            groups[-1].append(batch)
        else:
            groups.append([batch])
    return groups


def _same(cursor: Cursor, batch: Batch) -> bool:
    return (cursor.generation, cursor.query_id) == (batch.generation, batch.query_id)


def _end(facts: Facts, cursor: Cursor, addresses: Addresses, namespace: str, state: RunState, at: datetime) -> RunEvent:
    generation = facts.generations.get(cursor.generation)
    described = None if generation is None else _Described.of(generation, (), addresses, namespace)
    if described is None or described.missing:
        return make(at, cursor.run, Job(namespace, facts.stream), state, failure=facts.why)
    read, written = described.inputs(()), described.outputs(())
    return make(at, cursor.run, described.job, state, read=read, written=written, failure=facts.why)


@dataclass(frozen=True)
class _Described:
    """A generation with the datasets of its spec. `missing`: the address that is not known (yet)."""

    spec: StreamSpec
    generation: Generation
    job: Job
    batches: Sequence[Batch]
    sources: Mapping[str, tuple[Dataset, ...]]
    references: Mapping[str, tuple[Dataset, ...]]
    sinks: tuple[Dataset, ...]
    quarantine: Dataset | None
    late: Dataset | None
    missing: str

    @classmethod
    def of(cls, generation: Generation, batches: Sequence[Batch], addresses: Addresses, namespace: str) -> _Described:
        spec = StreamSpec.model_validate(generation.spec)
        missing: list[str] = []

        def known(what: str, items: tuple[Dataset | None, ...]) -> tuple[Dataset, ...]:
            if None in items:
                missing.append(what)
            return tuple(item for item in items if item is not None)

        sources = {
            str(name): known(f"source {name}", datasets.of_source(source, _topics(batches, name), addresses))
            for name, source in spec.sources.items()
        }
        references = {
            str(name): known(f"reference {name}", datasets.of_reference(reference, addresses))
            for name, reference in spec.reference.items()
        }
        sinks = known("sink", datasets.of_sink(spec.sink, addresses))
        quarantine, late = (  # made when the stream starts: they may not exist yet
            None if kept is None else datasets.of_table(str(kept.table), addresses)
            for kept in (spec.quarantine, spec.late)
        )
        why = f"the address of {', '.join(missing)} is not known yet" if missing else ""
        job = _job(namespace, spec, generation)
        return cls(spec, generation, job, batches, sources, references, sinks, quarantine, late, why)

    def event(self, run: str, state: RunState, at: datetime, *, figures: bool) -> RunEvent:
        batches = self.batches if figures else ()
        facets: dict[str, facet_v2.RunFacet] = {
            "processing_engine": facet_v2.processing_engine_run.ProcessingEngineRunFacet(
                str(self.generation.versions.get("pyspark", "unknown")), "spark", __version__
            )
        }
        if batches:
            seqs = [batch.seq for batch in batches if batch.seq is not None]
            first, last = (min(seqs), max(seqs)) if seqs else (None, None)
            facets["lakeward_batches"] = BatchesFacet(batches[-1].query_id, len(batches), first, last)
        read, written = self.inputs(batches), self.outputs(batches)
        return make(at, run, self.job, state, read=read, written=written, facets=facets)

    def inputs(self, batches: Sequence[Batch]) -> list[InputDataset]:
        """The datasets read, each once, with the offsets of the batches."""
        result: dict[tuple[str, str], InputDataset] = {}
        for name, source in self.spec.sources.items():
            declared, items = columns.source_columns(source), self.sources[name]
            for item in items:
                facets = table_facets(item)
                if declared is not None:
                    facets["schema"] = _schema(declared)
                offsets = _offsets(batches, name, item)
                own = {"lakeward_offsets": offsets} if offsets is not None else None
                result[item.namespace, item.name] = of_input(item, facets, own)
        for items in self.references.values():
            for item in items:
                result.setdefault((item.namespace, item.name), of_input(item, table_facets(item)))
        return list(result.values())

    def outputs(self, batches: Sequence[Batch]) -> list[OutputDataset]:
        """The datasets written, with the newest snapshot as version and the rows of the batches."""
        result = []
        snapshots = [batch.snapshot_id for batch in batches if batch.snapshot_id is not None]
        made_from = self._column_lineage()
        for item in self.sinks:
            facets = table_facets(item, snapshots[-1] if snapshots else None)
            if made_from is not None:
                facets["columnLineage"] = made_from
            result.append(of_output(item, facets, _rows(batch.landed for batch in batches)))
        if self.quarantine is not None:
            quarantined = _rows(batch.quarantined for batch in batches)
            result.append(of_output(self.quarantine, table_facets(self.quarantine), quarantined))
        if self.late is not None:
            kept = _rows(batch.late_dropped for batch in batches)
            result.append(of_output(self.late, table_facets(self.late), kept))
        return result

    def _column_lineage(self) -> facet_v2.column_lineage_dataset.ColumnLineageDatasetFacet | None:
        made_from = columns.of_stream(self.spec)
        if made_from is None:
            return None
        module = facet_v2.column_lineage_dataset
        relations = {**self.references, **self.sources}
        fields = {}
        for column, origins in made_from.columns.items():
            subtype = "IDENTITY" if column in made_from.unchanged else "TRANSFORMATION"
            fields[column] = module.Fields(
                [
                    module.InputField(
                        item.namespace, item.name, origin.column, [module.Transformation("DIRECT", subtype)]
                    )
                    for origin in origins
                    for item in relations.get(origin.relation, ())
                ]
            )
        return module.ColumnLineageDatasetFacet(fields)


def _job(namespace: str, spec: StreamSpec, generation: Generation) -> Job:
    facets: dict[str, facet_v2.JobFacet] = {
        "jobType": facet_v2.job_type_job.JobTypeJobFacet("STREAMING", "LAKEWARD", "STREAM"),
        "ownership": facet_v2.ownership_job.OwnershipJobFacet([facet_v2.ownership_job.Owner(str(spec.owner))]),
        "lakeward_generation": GenerationFacet(
            generation.generation, generation.author, generation.digest, generation.created_at.isoformat()
        ),
    }
    if spec.transform.sql is not None:
        facets["sql"] = facet_v2.sql_job.SQLJobFacet(str(spec.transform.sql), "spark")
    elif spec.transform.code:
        text = "\n".join(f"# {path}\n{code}" for path, code in sorted(spec.transform.code.items()))
        facets["sourceCode"] = facet_v2.source_code_job.SourceCodeJobFacet("PYTHON", text)
    return Job(namespace, generation.stream, facets)


def _topics(batches: Sequence[Batch], source: str) -> tuple[str, ...]:
    """The topics that the offsets of a Kafka source name, e.g. those that a pattern matched."""
    names: dict[str, None] = {}
    for batch in batches:
        end = _position((batch.end_offsets or {}).get(source))
        if isinstance(end, dict):
            names |= dict.fromkeys(map(str, end))
    return tuple(names)


def _offsets(batches: Sequence[Batch], source: str, dataset: Dataset) -> OffsetsFacet | None:
    if not batches:
        return None
    start = _position((batches[0].start_offsets or {}).get(source))
    end = _position((batches[-1].end_offsets or {}).get(source))
    if end is None:
        return None
    if isinstance(end, dict) and dataset.namespace.startswith("kafka://"):
        start = start.get(dataset.name) if isinstance(start, dict) else None
        end = end.get(dataset.name)
    return OffsetsFacet(start, end)


def _position(text: str | None) -> object:
    """A position as JSON where it is JSON; None for a source without data."""
    if text is None or text == "-":
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _schema(declared: Mapping[str, str]) -> facet_v2.schema_dataset.SchemaDatasetFacet:
    module = facet_v2.schema_dataset
    return module.SchemaDatasetFacet([module.SchemaDatasetFacetFields(name, kind) for name, kind in declared.items()])


def _rows(counts: Iterable[int | None]) -> dict[str, facet_v2.OutputDatasetFacet]:
    """The number of rows; nothing where a batch was not counted."""
    numbers = list(counts)
    counted = [number for number in numbers if number is not None]
    if not counted or len(counted) < len(numbers):
        return {}
    statistics = facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(sum(counted))
    return {"outputStatistics": statistics}
