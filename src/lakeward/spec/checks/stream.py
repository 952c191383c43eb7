"""Semantic checks of one stream's spec, beyond the types of values. Pure, except for files the spec names."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lakeward.platform.errors import expect
from lakeward.spec.checks import not_supported, spark_conf
from lakeward.spec.checks.columns import column_findings
from lakeward.spec.checks.late import late_findings
from lakeward.spec.checks.lints import lint_findings
from lakeward.spec.checks.real_time import real_time_findings
from lakeward.spec.checks.reference_files import reference_findings
from lakeward.spec.checks.secrets import looks_secret, secrets
from lakeward.spec.checks.sources import file_source_findings, socket_findings, table_source_findings
from lakeward.spec.model import iceberg_properties
from lakeward.spec.model.stream import SINGLE, StreamSpec
from lakeward.spec.read.document import Path_
from lakeward.spec.read.messages import Finding
from lakeward.spec.read.problems import nearest
from lakeward.spec.sql import streaming
from lakeward.spec.sql.analysis import SqlFacts
from lakeward.spec.sql.lineage import Lineage, shared_topic

LEAKS = "this looks like a secret; put it into the connection and name the connection here"


def secret_findings(data: Any) -> Iterator[Finding]:
    """Secrets in a file; the value is never shown."""
    for path in secrets(data):
        yield Finding(path, LEAKS, key=looks_secret(path[-1]) if path else False)


def name_findings(facts: SqlFacts, sources: Collection[str], reference: Collection[str]) -> Iterator[Finding]:
    """Undeclared names that the SQL reads; without any, sources that it does not read."""
    known = {name.lower(): name for name in (*sources, *reference)}
    unknown = [read for read in facts.reads if read.name.lower() not in known]
    for read in unknown:
        words = "the SQL reads it, but it is neither a source nor a reference of this stream"
        if "." in read.name:
            words += "; declare the table under reference:"
        at, like = (read.line, read.column), nearest(read.name, known.values())
        yield Finding(
            ("transform", "sql"), f"{read.name!r}: {words}", read.name, tuple(known.values()), like, at=at,
            needs=(("sources",), ("reference",)),
        )  # fmt: skip
    reads = {read.name.lower() for read in facts.reads}
    for name in () if unknown else sources:
        if name.lower() not in reads:
            yield Finding(("sources", name), f"source {name} is declared, but the SQL never reads it", name, key=True)
    for name in () if unknown else reference:
        if name.lower() not in reads:
            message = f"reference {name} is declared, but the SQL never reads it"
            yield Finding(("reference", name), message, name, key=True, warning=True)


def spec_findings(spec: StreamSpec, facts: SqlFacts | None, lineage: Lineage, project: Path) -> Iterator[Finding]:
    """All problems of a spec whose values are valid by type."""
    for path, what in not_supported.of_stream(spec):
        yield Finding(path, f"not yet: {what}")
    mode: Path_ = ("sink", spec.sink.connector, "mode")
    if lineage.problem:
        needs = (mode, *(("sources", name, source.connector) for name, source in spec.sources.items()))
        yield Finding(("lineage",) if spec.lineage else ("transform", "sql"), lineage.problem, needs=needs)
    yield from _names(spec)
    yield from _clusters(spec)
    yield from column_findings(spec, facts)
    yield from _deduplicated(spec)
    yield from real_time_findings(spec, facts)
    yield from lint_findings(spec, facts)
    times: list[Path_] = [("sources", name, "watermark", "column") for name in spec.sources]
    yield from (replace(finding, needs=(mode, *times)) for finding in _windows(spec, facts))
    yield from _sink(spec)
    yield from late_findings(spec, facts)
    yield from file_source_findings(spec)
    yield from table_source_findings(spec)
    yield from socket_findings(spec)
    if spec.state.provider == "hdfs" and any(
        "transformWithState" in text for text in (spec.transform.code or {}).values()
    ):
        message = f"{spec.transform.python} uses transformWithState, which keeps its state in rocksdb only"
        yield Finding(("state", "provider"), message, "hdfs", ("rocksdb",))
    for name, source in spec.sources.items():
        if source.rate is not None:
            yield Finding(("sources", name, "rate"), "rate makes up its rows: for experiments, not for data",
                          key=True, warning=True)  # fmt: skip
            if source.decode is not None:
                yield Finding(
                    ("sources", name, "decode"), "decode belongs to records of bytes; rate has columns", key=True
                )
    yield from _passed_on(spec)
    yield from reference_findings(spec, project)
    for key in spec.spark:
        if refused := spark_conf.refusal(key):
            yield Finding(("spark", key), refused, key, key=True)


def _passed_on(spec: StreamSpec) -> Iterator[Finding]:
    """Spark data sources that are passed on by name."""
    promise = "is passed on to Spark by name: at least once, only the checkpoint has its progress"
    for name, source in spec.sources.items():
        if source.format is not None:
            at: Path_ = ("sources", name)
            yield Finding((*at, "format"), f"{source.format.name} {promise}", key=True, warning=True)
            if source.decode is not None:
                message = f"decode belongs to records of bytes; {source.format.name} has columns"
                yield Finding((*at, "decode"), message, key=True)
    if spec.sink.format is not None:
        message = f"{spec.sink.format.name} is passed on to Spark by name: at least once, a batch may repeat"
        yield Finding(("sink", "format"), message, key=True, warning=True)


def _names(spec: StreamSpec) -> Iterator[Finding]:
    seen: dict[str, tuple[str, str]] = {}
    for kind, names in (("source", spec.sources), ("reference", spec.reference)):
        for name in names:
            known = seen.setdefault(name.lower(), (kind, name))
            at: Path_ = ("sources" if kind == "source" else "reference", name)
            if known[0] != kind:
                yield Finding(at, f"{name!r} is the name of a source too", name, key=True)
            elif known[1] != name:
                yield Finding(at, f"{known[1]!r} and {name!r} are the same name in SQL, which is not "
                              "case-sensitive", name, key=True)  # fmt: skip


def _clusters(spec: StreamSpec) -> Iterator[Finding]:
    """One topic name of two clusters: positions and topic ids are kept by topic, so one would pass for the other."""
    both = shared_topic(spec)
    if both is None:
        return
    one, other, topic = both
    first, second = (expect(spec.sources[name].kafka, "a source `kafka`").connection for name in (one, other))
    if first != second:
        message = (
            f"sources {one} and {other} read topic {topic} by two connections, {first} and {second}: a record's "
            "position (topic, partition, offset) would name two records; land them by two streams"
        )
        yield Finding(("sources", other, "kafka"), message, key=True)


def _deduplicated(spec: StreamSpec) -> Iterator[Finding]:
    """Deduplication without a watermark: keys would be kept forever."""
    for name, source in spec.sources.items():
        unique, mark = source.deduplicate, source.watermark
        if unique is None:
            continue
        at: Path_ = ("sources", name, "deduplicate")
        if unique.within_watermark and mark is None:
            yield Finding(
                at,
                "a key is dropped when the watermark has passed it, and the source has no watermark: add watermark: "
                "{column: .., delay: ..} to it, or write within_watermark: false, which keeps every key forever",
            )


def _windows(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Finding]:
    if facts is None:
        return
    watermarks = {
        str(name): str(source.watermark.column) if source.watermark else None for name, source in spec.sources.items()
    }
    for obstacle in dict.fromkeys(streaming.obstacles(facts, watermarks, spec.sink.mode)):
        yield Finding(("transform", "sql"), obstacle.why, at=obstacle.at)
    if spec.sink.mode == "complete" and not facts.groups:
        why = "mode complete writes the whole result of an aggregate at every batch, and the SQL groups nothing"
        yield Finding(("sink", spec.sink.connector, "mode"), f"{why}; use mode: append", "complete")
    if spec.sink.mode == "update" and not facts.groups:
        why = "mode update sends the groups that changed, and the SQL groups nothing"
        yield Finding(("sink", spec.sink.connector, "mode"), f"{why}; use mode: append", "update")
    if not facts.groups or spec.sink.mode != "append":
        return
    if not any(source.watermark for source in spec.sources.values()):
        yield Finding(
            ("sources", next(iter(spec.sources))),
            f"the SQL groups rows ({facts.groups}) and the sink appends: without a watermark no group is ever done; "
            "add watermark: {column: .., delay: ..} to the source",
        )


def _sink(spec: StreamSpec) -> Iterator[Finding]:
    decoded = any(source.decode or source.files for source in spec.sources.values())
    if (decoded or spec.rules) and spec.quarantine is None:
        what = "rules" if spec.rules else "decode"
        yield Finding(
            ("quarantine",),
            f"this is missing: {what} can refuse a row, and the sink is not a table "
            "of the lake, so there is no default; add quarantine: {table: namespace.name}",
        )
    if spec.quarantine and spec.quarantine.table == spec.sink.table:
        yield Finding(("quarantine", "table"), "quarantine and sink are the same table", str(spec.sink.table))
    if spec.sink.iceberg:
        at: Path_ = ("sink", "iceberg")
        given = spec.sink.iceberg.properties
        unreadable = iceberg_properties.unreadable(given)
        for key, value in given.items():
            place = (*at, "properties", key)
            if refused := property_refusal(key, value):
                yield Finding(place, refused, value, key=True)
            elif key in unreadable:
                said = f"Iceberg cannot read it: {iceberg_properties.words(given, [key])}"
                yield Finding(place, said, value, tuple(iceberg_properties.WORDS.get(key, ())))
        seen: dict[tuple[str, str], str] = {}
        for index, field in enumerate(spec.sink.iceberg.partition_by):
            if field.kind in seen:
                twice = (
                    f"Iceberg takes one partition of a kind by {field.column}, and {seen[field.kind]} already is one"
                )
                yield Finding((*at, "partition_by", index), twice, str(field))
            seen.setdefault(field.kind, str(field))
    if spec.sink.kafka:
        for name, source in spec.sources.items():
            same = source.kafka and source.kafka.connection == spec.sink.kafka.connection  # else it is a mirror
            if same and source.kafka and source.kafka.reads(spec.sink.kafka.topic):
                yield Finding(("sink", "kafka", "topic"),
                              f"source {name} reads this topic: the stream would feed itself",
                              str(spec.sink.kafka.topic))  # fmt: skip


def installed(package: str) -> bool:
    """Whether a package is installed; its code is not run."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def single_source_hint(data: Mapping[str, Any]) -> Finding | None:
    """The problem of several sources without a transform: there is no sensible default."""
    sources = data.get("sources")
    if "transform" not in data and isinstance(sources, dict) and SINGLE not in sources and sources:
        names = ", ".join(str(name) for name in sources)
        return Finding(("transform",), f"this is missing: SQL over the sources {names}")
    return None


_IN_THE_LAKE = "the catalog decides where the table's files are, and maintenance expects them there"
_OURS = {
    "write.wap.enabled": "it stages every batch before it is published",
    "gc.enabled": "maintenance needs it",
    "write.data.path": _IN_THE_LAKE,
    "write.metadata.path": _IN_THE_LAKE,
    "write.object-storage.path": _IN_THE_LAKE,
    "write.folder-storage.path": _IN_THE_LAKE,
    "write.location-provider.impl": _IN_THE_LAKE,
}
_ONE_OF = {
    "format-version": (("2", "3"), "1 has no sequence numbers, by which a rolled-back table is recognised"),
    "write.metadata.delete-after-commit.enabled": (
        ("true",), "every batch leaves a metadata file, and no maintenance deletes them",
    ),
}  # fmt: skip
_NUMBERS = {
    "commit.retry.num-retries", "commit.retry.min-wait-ms", "commit.retry.max-wait-ms", "commit.retry.total-timeout-ms",
    "commit.status-check.num-retries", "commit.manifest.target-size-bytes", "commit.manifest.min-count-to-merge",
    "write.target-file-size-bytes", "write.delete.target-file-size-bytes", "write.metadata.previous-versions-max",
    "write.parquet.row-group-size-bytes", "write.parquet.page-size-bytes", "write.parquet.page-row-limit",
    "write.parquet.dict-size-bytes", "read.split.target-size", "history.expire.max-snapshot-age-ms",
    "history.expire.min-snapshots-to-keep",
}  # fmt: skip
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")


def property_refusal(key: str, value: str) -> str | None:
    """Why a table property or its value is refused; None if it is allowed."""
    if not key.strip():
        return "a table property needs a name"
    if key in _OURS or key.startswith("lakeward."):
        why = _OURS.get(key, "it is Lakeward's record")
        return f"{key} cannot be set: {why}"
    if key in _ONE_OF and value.lower() not in _ONE_OF[key][0]:
        valid, why = _ONE_OF[key]
        return f"{key} must be {' or '.join(valid)}: {why}"
    if key in _NUMBERS and not _NUMBER.fullmatch(value):
        return f"{key} must be a whole number above 0, in digits"
    return None
