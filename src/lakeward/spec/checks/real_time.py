"""Checks of real-time streams: Spark's real-time mode and continuous processing.

Spark reports most of these problems only when the query runs, and some of them never.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.read.document import Path_
from lakeward.spec.read.messages import Finding
from lakeward.spec.sql.analysis import SqlFacts

SINKS = ("kafka", "console")
_NOW = {"current_timestamp": exp.CurrentTimestamp, "current_date": exp.CurrentDate}
_NOW_NAMES = frozenset({"now", "localtimestamp", "current_time", "curdate"})


def real_time_findings(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Finding]:
    """Reasons why the stream cannot run with `real_time` or `continuous`, each with its remedy."""
    kind = spec.trigger.kind
    if not spec.trigger.unbatched:
        yield from _uncapped(spec)
        return
    instead = "use every: 100ms, or"
    for name, source in spec.sources.items():
        at: Path_ = ("sources", name)
        if source.kafka is None:
            yield Finding((*at, source.connector), f"{kind} reads Kafka only; use every: or available_now for this",
                          source.connector, key=True)  # fmt: skip
        elif source.kafka.max_offsets_per_trigger is not None:
            message = f"{kind} has no batches to limit; remove this key"
            yield Finding((*at, "kafka", "max_offsets_per_trigger"), message,
                          source.kafka.max_offsets_per_trigger, key=True)  # fmt: skip
        for key in ("watermark", "deduplicate"):
            if getattr(source, key) is not None:
                yield Finding((*at, key), f"{kind} keeps no state, and this needs it; {instead} leave it out", key=True)
    if len(spec.sources) > 1:
        yield Finding(("sources",), f"{kind} reads one source; give each a stream of its own", key=True)
    if spec.sink.connector not in SINKS:
        message = f"{kind} writes to kafka or console only: Spark has no such writer for {spec.sink.connector}"
        yield Finding(("sink", spec.sink.connector), f"{message}; let a second stream land the topic with every:",
                      spec.sink.connector, SINKS, key=True)  # fmt: skip
    for name in spec.reference:
        message = f"{kind} would read a reference only once; {instead} join it where the topic is read"
        yield Finding(("reference", name), message, name, key=True)
    if spec.transform.python is not None:
        message = f"{kind} takes SQL only: a row that passes through Python waits for others; {instead} write SQL"
        yield Finding(("transform", "python"), message, str(spec.transform.python))
    elif facts is not None:
        yield from (Finding(("transform", "sql"), why) for why in _of_sql(kind, facts))


def _uncapped(spec: StreamSpec) -> Iterator[Finding]:
    for name, source in spec.sources.items():
        if source.kafka is not None and source.kafka.max_offsets_per_trigger is None:
            message = (
                "this is missing: maximum number of records per batch; else the first batch after an outage reads "
            )
            at: Path_ = ("sources", name, "kafka", "max_offsets_per_trigger")
            yield Finding(at, message + "the whole backlog", missing=True, needs=(("trigger",),))


def _of_sql(kind: str, facts: SqlFacts) -> Iterator[str]:
    if facts.groups:
        yield f"the SQL groups rows ({facts.groups}), and {kind} keeps no state; use every: 100ms"
    elif len(facts.reads) > 1 or facts.statement.find(exp.Join) is not None:
        yield f"the SQL reads its source {len(facts.reads)} times, and {kind} passes each record once; use one SELECT"
    moments = sorted({name for name, node in _NOW.items() if facts.statement.find(node) is not None})
    moments += sorted({name for f in facts.statement.find_all(exp.Anonymous) if (name := f.name.lower()) in _NOW_NAMES})
    for name in moments:
        yield f"{name}() is the moment the query or its batch began, minutes ago; take the column _ingested_at"
