"""What one stream's spec must be beyond the types of its values. Pure, but for files the spec names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from lakeward.spec import not_yet, spark_conf
from lakeward.spec.analysis import SqlFacts
from lakeward.spec.document import Path_
from lakeward.spec.lineage import Lineage
from lakeward.spec.messages import Finding
from lakeward.spec.positions import INGESTED_AT, POSITION_TYPES
from lakeward.spec.problems import nearest
from lakeward.spec.secrets import secrets
from lakeward.spec.sql import ddl_columns
from lakeward.spec.stream import SINGLE, StreamSpec

_ICEBERGS_OWN = {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
_OUR_PROPERTIES = {
    "write.wap.enabled": "it stages every batch before it is published",
    "gc.enabled": "maintenance needs it",
}


def secret_findings(data: Any) -> Iterator[Finding]:
    """Secrets in a file; the value is never shown."""
    for path in secrets(data):
        yield Finding(path, "this looks like a secret; put it into the connection and name the connection here")


def name_findings(facts: SqlFacts, sources: Collection[str], reference: Collection[str]) -> Iterator[Finding]:
    """Names the SQL reads that are not declared; if there is none, sources it does not read."""
    known = {name.lower(): name for name in (*sources, *reference)}
    unknown = [read for read in facts.reads if read.name.lower() not in known]
    for read in unknown:
        words = "the SQL reads it, but it is neither a source nor a reference of this stream"
        if "." in read.name:
            words += "; declare the table under reference:"
        at, like = (read.line, read.column), nearest(read.name, known.values())
        yield Finding(
            ("transform", "sql"), f"{read.name!r}: {words}", read.name, tuple(known.values()), like, at=at
        )  # fmt: skip
    reads = {read.name.lower() for read in facts.reads}
    for name in () if unknown else sources:
        if name.lower() not in reads:
            yield Finding(("sources", name), f"source {name} is declared, but the SQL never reads it", name, key=True)


def spec_findings(spec: StreamSpec, facts: SqlFacts | None, lineage: Lineage, project: Path) -> Iterator[Finding]:
    """Everything that is wrong with a spec whose values are all well formed."""
    for path, what in not_yet.of_stream(spec):
        yield Finding(path, f"not yet: {what}")
    if lineage.problem:
        yield Finding(("lineage",) if spec.lineage else ("transform", "sql"), lineage.problem)
    yield from _names(spec)
    yield from _columns(spec)
    yield from _windows(spec, facts)
    yield from _sink(spec)
    yield from _references(spec, project)
    for key in spec.spark:
        if refused := spark_conf.refusal(key):
            yield Finding(("spark", key), refused, key, key=True)


def _names(spec: StreamSpec) -> Iterator[Finding]:
    for name in spec.reference:
        if name.lower() in {source.lower() for source in spec.sources}:
            yield Finding(("reference", name), f"{name!r} is the name of a source too", name, key=True)


def _columns(spec: StreamSpec) -> Iterator[Finding]:
    ours = {*POSITION_TYPES, INGESTED_AT}
    for name, source in spec.sources.items():
        if not source.decode or not source.decode.json_:
            continue
        columns = ddl_columns(source.decode.json_)
        at: Path_ = ("sources", name, "decode", "json")
        for column in columns:
            if column.lower() in ours:
                yield Finding(at, f"{column} is a position column; Lakeward adds it by itself", column)
            elif column.lower() in _ICEBERGS_OWN:
                yield Finding(at, f"{column} is a name Iceberg keeps for itself", column)
        known = {column.lower() for column in columns} | set(source.position_columns)
        for path, column in _named_columns(source.watermark, source.deduplicate):
            if column.lower() not in known:
                yield Finding(("sources", name, *path), f"{column!r} is not a column of this source", column,
                              (*columns, *source.position_columns), nearest(column, known))  # fmt: skip
        if source.watermark:
            kind = {c.lower(): t for c, t in columns.items()}.get(source.watermark.column.lower(), "TIMESTAMP")
            if not kind.upper().startswith("TIMESTAMP"):
                yield Finding(("sources", name, "watermark", "column"),
                              f"a watermark needs a TIMESTAMP column, {source.watermark.column} is {kind}",
                              str(source.watermark.column))  # fmt: skip


def _named_columns(watermark: Any, deduplicate: Any) -> Iterator[tuple[Path_, str]]:
    if watermark:
        yield ("watermark", "column"), str(watermark.column)
    if deduplicate:
        for index, key in enumerate(deduplicate.keys):
            yield ("deduplicate", "keys", index), str(key)


def _windows(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Finding]:
    if facts is None or not facts.groups or spec.sink.mode != "append":
        return
    if not any(source.watermark for source in spec.sources.values()):
        yield Finding(
            ("sources", next(iter(spec.sources))),
            f"the SQL groups rows ({facts.groups}) and the sink appends: without a watermark no group is ever done; "
            "add watermark: {column: .., delay: ..} to the source",
        )


def _sink(spec: StreamSpec) -> Iterator[Finding]:
    decoded = any(source.decode for source in spec.sources.values())
    if (decoded or spec.rules) and spec.quarantine is None:
        what = "rules" if spec.rules else "decode"
        yield Finding(
            ("quarantine",),
            f"this is missing: {what} can refuse a row, and a sink that is no table of the lake "
            "has no place for it; add quarantine: {table: namespace.name}",
        )
    if spec.quarantine and spec.quarantine.table == spec.sink.table:
        yield Finding(("quarantine", "table"), "quarantine and sink are the same table", str(spec.sink.table))
    if spec.sink.iceberg:
        at: Path_ = ("sink", "iceberg")
        for key in spec.sink.iceberg.properties:
            why = _OUR_PROPERTIES.get(key, "it is Lakeward's record" if key.startswith("lakeward.") else None)
            if why:
                yield Finding((*at, "properties", key), f"{key} is not yours to set: {why}", key, key=True)
        seen: set[str] = set()
        for index, field in enumerate(spec.sink.iceberg.partition_by):
            if field.sql.lower() in seen:
                yield Finding((*at, "partition_by", index), f"{field} is there twice", str(field))
            seen.add(field.sql.lower())
    if spec.sink.kafka:
        for name, source in spec.sources.items():
            if source.kafka and spec.sink.kafka.topic in source.kafka.topics:
                yield Finding(("sink", "kafka", "topic"),
                              f"source {name} reads this topic: the stream would feed itself",
                              str(spec.sink.kafka.topic))  # fmt: skip


def _references(spec: StreamSpec, project: Path) -> Iterator[Finding]:
    for name, reference in spec.reference.items():
        path = reference.csv or reference.parquet
        if path is None or "://" in path:
            continue
        if not (project / path).exists():
            folder = (project / path).parent
            there = [str(Path(path).parent / each.name) for each in folder.iterdir()] if folder.is_dir() else []
            yield Finding(("reference", name, reference.kind), f"there is no such file in the project: {path}", path,
                          tuple(sorted(there)[:10]), nearest(path, there))  # fmt: skip


def single_source_hint(data: Mapping[str, Any]) -> Finding | None:
    """Several sources and no transform: there is nothing sensible to assume."""
    sources = data.get("sources")
    if "transform" not in data and isinstance(sources, dict) and SINGLE not in sources and sources:
        names = ", ".join(str(name) for name in sources)
        return Finding(("transform",), f"this is missing: SQL over the sources {names}")
    return None
