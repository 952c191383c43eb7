"""Lineage of a stream: whether each record can be traced into the sink, and what the SQL must keep for it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from lakeward.spec.model.position_columns import IDENTITY_COLUMNS
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.model.types import Name
from lakeward.spec.sql.analysis import SqlFacts, joins_streams, retained_columns
from lakeward.spec.sql.table_names import Reading


@dataclass(frozen=True)
class Lineage:
    """The lineage of a stream, its reason, and the problem if the spec requires another one."""

    value: Literal["rows", "none"]
    why: str
    problem: str | None = None


def decide(spec: StreamSpec, facts: SqlFacts | None) -> Lineage:
    """The lineage of a stream: the declared one, checked against its SQL; otherwise the one that the SQL allows.

    A SELECT that keeps rows but drops the position columns is a problem, not silently `none`: it is usually an
    oversight, and the rows could never be audited.
    """
    obstacle = _obstacle(spec, facts)
    if spec.lineage == "none":
        return Lineage("none", "written in the file")
    if spec.transform.python is not None and spec.lineage is None:
        why = "what Python does to rows cannot be read from its text; write lineage: rows where each row is one record"
        return Lineage("none", f"derived: {why}")
    if obstacle:
        text = f"{obstacle}, so a row of the sink has no one record behind it"
        per_row = spec.lineage == "rows"
        return Lineage("none", f"derived: {text}", f"{text}; write lineage: none" if per_row else None)
    why = "written in the file" if spec.lineage else "default: every record can be accounted for, by its position"
    if any(source.deduplicate for source in spec.sources.values()):
        why += "; a duplicate that is dropped counts as filtered"
    missing = _dropped(spec, facts)
    problem = None
    if missing:
        first = next(iter(spec.sources))
        problem = (
            f"the SELECT drops {', '.join(missing)}, so no row can be traced to its record; "
            f"select them (or {first}.*), or write lineage: none to give up the audit"
        )
    return Lineage("rows", why, problem)


def _obstacle(spec: StreamSpec, facts: SqlFacts | None) -> str | None:
    unnamed = [name for name, source in spec.sources.items() if source.connector not in IDENTITY_COLUMNS]
    if unnamed:
        connector = spec.sources[unnamed[0]].connector
        return f"{connector} has no position for its records"
    if spec.sink.mode != "append":
        return f"mode {spec.sink.mode} changes rows of the sink"
    if facts is None:
        return _shared_topic(spec)
    if facts.groups:
        return f"the SQL groups rows ({facts.groups})"
    if facts.fans_out:
        return f"the SQL makes several rows of one ({facts.fans_out})"
    if joins_streams(facts, spec.sources):
        return "the SQL joins streams"
    for name in spec.sources:
        if Reading([name]).times(facts.statement) > 1:
            return f"the SQL reads {name} more than once"
    return _shared_topic(spec)


def _shared_topic(spec: StreamSpec) -> str | None:
    both = shared_topic(spec)
    if both is None:
        return None
    one, other, topic = both
    return f"sources {one} and {other} both read topic {topic}, and their records have the same positions"


def shared_topic(spec: StreamSpec) -> tuple[Name, Name, str] | None:
    """Two Kafka sources and a topic that both read, perhaps of two clusters: a record's position names no source."""
    kafka = {name: source.kafka for name, source in spec.sources.items() if source.kafka is not None}
    for one, other in combinations(kafka, 2):
        for first, second in ((one, other), (other, one)):
            topics = sorted(str(topic) for topic in kafka[first].topics if kafka[second].reads(str(topic)))
            if topics:
                return one, other, topics[0]
    return None


def _dropped(spec: StreamSpec, facts: SqlFacts | None) -> list[str]:
    if facts is None:
        return []
    provided: dict[str, frozenset[str]] = {
        name: frozenset(IDENTITY_COLUMNS[source.connector]) for name, source in spec.sources.items()
    }
    provided |= {name: frozenset() for name in spec.reference}
    retained = retained_columns(facts.statement, provided)
    expected = dict.fromkeys(column for columns in provided.values() for column in sorted(columns))
    return [column for column in expected if column not in retained]
