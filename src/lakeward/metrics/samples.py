"""From facts to samples. Pure: the facts are read by `lakeward.metrics.exporter`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from lakeward.metrics import definitions as names
from lakeward.metrics.definitions import Metric
from lakeward.platform.boundary import Failure, attempt
from lakeward.registry.maintenance import StoredFacts, Table
from lakeward.registry.observations import Progress, Watch
from lakeward.registry.streams import Stream
from lakeward.registry.verifications import CheckResult, Verification
from lakeward.supervision.decide.health import State
from lakeward.supervision.report.lag import of_watch
from lakeward.supervision.report.material import View
from lakeward.tables.changes import LastObservation

VERDICTS = ("pass", "warn", "hold", "error")
SEVERITIES = ("critical", "warning", "info")
RESULTS = ("consumed", "landed", "quarantined", "filtered", "skipped")
_TABLE_FIGURES = {
    "files": names.TABLE_FILES,
    "small_files": names.TABLE_SMALL,
    "delete_files": names.TABLE_DELETES,
    "manifests": names.TABLE_MANIFESTS,
    "snapshots": names.TABLE_SNAPSHOTS,
    "metadata_files": names.TABLE_METADATA,
    "size_bytes": names.TABLE_BYTES,
    "records": names.TABLE_ROWS,
}


@dataclass(frozen=True)
class Sample:
    """One value of a metric; `labels` in the order of the metric's labels."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tables:
    """What the registry knows of the tables.

    Attributes:
        due: table -> since when an action is due.
        runs: the newest check run of each table, with its checks.
        observed: the newest observation of all tables. Facts are stored when they changed.
    """

    known: Mapping[str, Table] = field(default_factory=dict)
    facts: Mapping[str, StoredFacts] = field(default_factory=dict)
    due: Mapping[str, datetime] = field(default_factory=dict)
    runs: Sequence[tuple[Verification, Sequence[CheckResult]]] = ()
    observed: LastObservation | None = None


def of_everything(view: View, tables: Tables, *, partitions: bool = False) -> list[Sample]:
    """All samples. What cannot be read of one stream or table is counted, and the others are exported."""
    samples, unreadable = [Sample(names.REGISTRY_UP, 1.0)], Counter({"stream": 0, "table": 0})
    for stream in view.facts.streams:
        made = attempt(f"metrics of stream {stream.id}", partial(_listed, _of_stream, view, stream, partitions))
        if isinstance(made, Failure):
            unreadable["stream"] += 1
        else:
            samples += made
    for name in sorted(tables.known):
        of_table = attempt(f"metrics of table {name}", partial(_listed, _of_table, name, tables))
        if isinstance(of_table, Failure):
            unreadable["table"] += 1
        else:
            samples += of_table
    samples += _of_supervision(view)
    for run, checks in tables.runs:
        samples += _of_run(run, checks)
    samples += [Sample(names.UNREADABLE, float(number), (kind,)) for kind, number in unreadable.items()]
    return samples


def _listed(make: object, *arguments: object) -> list[Sample]:
    return list(make(*arguments))  # type: ignore[operator]  # one of the generators below


def _of_stream(view: View, stream: Stream, partitions: bool) -> Iterator[Sample]:
    name, facts = stream.id, view.facts
    key = (name,)
    state = view.verdicts[name].state
    for value in State:
        yield Sample(names.STREAM_STATE, float(value is state), (name, value.value))
    spec = view.spec(name)
    if spec is not None:
        yield Sample(names.STREAM_INFO, 1.0, (name, stream.driver, spec.sink.label, str(spec.owner)))
        yield Sample(names.FRESHNESS_LIMIT, spec.limits.freshness.seconds, key)
    yield Sample(names.STREAM_DESIRED, float(stream.desired == "running"), key)
    yield Sample(names.GENERATION, float(stream.generation), key)
    yield Sample(names.PENDING, float(stream.pending_generation is not None), key)
    failures = (facts.failures_24h.get((stream.driver, of)) or 0 for of in (name, None))
    yield Sample(names.FAILURES, float(sum(failures)), key)
    seen = facts.observations.get(name)
    if seen is None:
        return
    watch: Watch = seen.watch or {}
    lag = of_watch(watch, facts.now)
    if lag is not None:
        yield Sample(names.LAG_UNMEASURED, float(len(lag.unmeasured)), key)
        if lag.records is not None:
            yield Sample(names.LAG_RECORDS, float(lag.records), key)
        if lag.waited_s is not None:
            yield Sample(names.LAG_SECONDS, max(0.0, lag.waited_s), key)
        yield Sample(names.LAG_AT, datetime.fromisoformat(str(watch["at"])).timestamp(), key)
        for part in lag.partitions if partitions else ():
            labels = (name, part.source, part.topic, str(part.partition))
            yield Sample(names.PARTITION_LAG, float(part.lag), labels)
    if seen.committed_at is not None:
        yield Sample(names.COMMITTED, seen.committed_at.timestamp(), key)
    if seen.complete_through is not None:
        yield Sample(names.COMPLETE_THROUGH, seen.complete_through.timestamp(), key)
    if seen.seq is not None:
        yield Sample(names.BATCHES, float(seen.seq), key)
    totals = watch.get("totals") or {}
    for result in RESULTS:
        number = totals.get(result)
        if isinstance(number, int):
            yield Sample(names.RECORDS, float(number), (name, result))
    yield from _of_progress(key, seen.progress or {}, watch)


def _of_progress(key: tuple[str], progress: Progress, watch: Watch) -> Iterator[Sample]:
    """What Spark reported of the newest batch."""
    durations = {phase: value / 1000 for phase, value in (progress.get("durationMs") or {}).items()}
    durations |= {phase: float(value) for phase, value in (watch.get("phases") or {}).items()}
    whole = durations.pop("triggerExecution", None)
    if whole is not None:
        yield Sample(names.BATCH_SECONDS, whole, key)
    for phase, value in sorted(durations.items()):
        yield Sample(names.PHASE_SECONDS, value, (*key, phase))
    rates = (
        (names.INPUT_RATE, progress.get("inputRowsPerSecond")),
        (names.PROCESSED_RATE, progress.get("processedRowsPerSecond")),
    )
    for metric, rate in rates:
        if rate is not None:
            yield Sample(metric, float(rate), key)
    operators = progress.get("stateOperators")
    if operators:
        yield Sample(names.STATE_ROWS, float(sum(int(item.get("numRowsTotal") or 0) for item in operators)), key)
        yield Sample(names.STATE_BYTES, float(sum(int(item.get("memoryUsedBytes") or 0) for item in operators)), key)


def _of_supervision(view: View) -> Iterator[Sample]:
    for driver in view.facts.drivers.values():
        yield Sample(names.DRIVER_UP, float(not driver.ended), (driver.name,))
        if driver.heartbeat is not None:
            yield Sample(names.HEARTBEAT, driver.heartbeat.timestamp(), (driver.name,))
    yield Sample(names.SUPERVISED, float(not view.presence.missing))
    if view.presence.since is not None:
        yield Sample(names.PASSED, view.presence.since.timestamp())
    kinds = Counter(kind for kind, _ in view.facts.incidents)
    for kind in sorted({"stream", "dependency", "thrash", "reconcile", "operation", "quality", *kinds}):
        yield Sample(names.INCIDENTS, float(kinds[kind]), (kind,))


def _of_table(name: str, tables: Tables) -> Iterator[Sample]:
    key = (name,)
    yield Sample(names.TABLE_HELD, float(tables.known[name].expiry_hold is not None), key)
    if name in tables.due:
        yield Sample(names.TABLE_DUE, tables.due[name].timestamp(), key)
    stored = tables.facts.get(name)
    if stored is None:
        return
    at, last = stored.at, tables.observed
    if last is not None and name not in last.unread:
        at = max(at, last.at)
    yield Sample(names.TABLE_OBSERVED, at.timestamp(), key)
    for figure, metric in _TABLE_FIGURES.items():
        value = stored.facts.get(figure)
        if isinstance(value, int):
            yield Sample(metric, float(value), key)


def _of_run(run: Verification, checks: Sequence[CheckResult]) -> Iterator[Sample]:
    key = (run["table"],)
    yield Sample(names.CHECKED, run["at"].timestamp(), key)
    for verdict in VERDICTS:
        yield Sample(names.VERDICT, float(run["verdict"] == verdict), (*key, verdict))
    failing = Counter(check["severity"] for check in checks if check["state"] in ("fail", "error"))
    for severity in SEVERITIES:
        yield Sample(names.FAILING, float(failing[severity]), (*key, severity))
