"""The plan of a stream, built from its spec: read, decode, transform, split valid rows from invalid ones.

There are two shapes. *Row by row*: the streaming plan reads raw records only. Everything else happens for each batch in
`foreachBatch`, on records that are read once and cached until the batch has landed. So every record is counted at
decode, invalid ones are split off before the transform can drop them, and references are as fresh as the batch. A batch
that is expected to be clean is not cached, see `lakeward.engine.one_pass`. *With
state* (windows, aggregates, deduplication, joins of streams): decode and transform are part of the streaming plan. The
records of a batch are read a second time, as a batch over the same offsets, to count and quarantine them. See
docs/adr/0010.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import offsets
from lakeward.connectors.python.code import UserCodeFailed
from lakeward.connectors.source import ERROR, RAW, REASON, StreamSource
from lakeward.engine import rows, transform
from lakeward.platform.errors import SpecError
from lakeward.spec.model.position_columns import INGESTED_AT
from lakeward.spec.model.stream import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE = "_lw_source"
"""The source of a raw record; used if several sources are read into one streaming plan."""


@dataclass(frozen=True)
class Start:
    """Where a query begins.

    Attributes:
        finding: of the preflight of the checkpoint.
        fresh: the checkpoint is new, so the sources need options that say where to begin.
        begin: source name -> position where a recovered stream continues; other sources begin where the spec says.
        at: source name -> landed position, as far as it is known before the first batch.
    """

    finding: str
    fresh: bool
    begin: Mapping[str, str] = field(default_factory=dict)
    at: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Flow:
    """A stream, ready to be started.

    Attributes:
        spec, sources: what it was built from.
        query: the streaming DataFrame to start: raw records, or transformed rows if `stateful`.
        stateful: whether the query keeps state.
        columns: the columns of the transform's result, as a Spark schema.
        lineage: `rows` if each row is one record of the source.
        joins: whether references are joined or Python maps rows: only then can one record become several rows.
        keeps_all: no record can be dropped either (left joins, no filter): then equal counts prove one row per record.
        linear: the transform is projections and filters of one source, without references and Python.
        filters: it is `linear` and may drop records.
        transformed: the transform's result as a stream, for real-time queries; None if `stateful`.
    """

    spec: StreamSpec
    sources: list[StreamSource]
    query: DataFrame
    stateful: bool
    columns: Any
    lineage: str
    joins: bool = False
    keeps_all: bool = False
    linear: bool = False
    filters: bool = False
    transformed: DataFrame | None = None


def build(
    session: SparkSession,
    spec: StreamSpec,
    sources: list[StreamSource],
    references: Mapping[str, DataFrame],
    start: Start,
) -> Flow:
    """Build a stream's plan in `session`, whose views it sets.

    Raises:
        SpecError: the SQL does not fit the columns, or needs what a stream does not support.
    """
    for name, table in references.items():
        table.createOrReplaceTempView(name)
    frames = dict(references)
    for source in sources:
        frames[source.name] = good(source, source.decode(stream_of(source, session, start)))
        frames[source.name].createOrReplaceTempView(source.name)
    try:
        with transform.fitting(spec, references):
            transformed = transform.apply(session, spec, frames)
            for rule, condition in spec.rules.items():
                rows.check_rule(transformed, rule, condition)
    except UserCodeFailed as error:
        raise SpecError(
            f"The transform of stream {spec.id} cannot be planned",
            why="\n".join(part for part in (error.what, error.why) if part),
            next="correct it in python/, then: lakeward config validate --deep, lakeward deploy",
            code="LW-2211",
        ) from error
    if not transformed.isStreaming:
        raise SpecError(
            f"The transform of stream {spec.id} reads none of its sources",
            why=f"sources: {', '.join(source.name for source in sources)}",
            next=f"name {sources[0].name} in the transform's FROM",
            code="LW-2209",
        )
    why_state = needs_state(transformed) or next(
        (f"deduplicate of {i.name}" for i in sources if i.spec.deduplicate), None
    )
    traced = all(set(i.traces) <= set(transformed.columns) for i in sources)
    lineage = spec.lineage or ("rows" if traced and not why_state and "Generate" not in kinds(transformed) else "none")
    nodes = kinds(transformed)
    joined = "Join" in nodes or not nodes.isdisjoint(_PYTHON)
    if spec.transform.python is not None and lineage == "rows":
        _one_record_a_row(spec, traced=traced, why_state=why_state, nodes=nodes)
    if why_state:
        return Flow(spec, sources, transformed, True, transformed.schema, lineage, joined)
    raw = _raw(session, sources, start)
    whole = keeps_all(transformed, len(sources))
    steps = None if len(sources) > 1 or references or spec.transform.python else chain(transformed)
    return Flow(
        spec,
        sources,
        raw,
        stateful=False,
        columns=transformed.schema,
        lineage=lineage,
        joins=joined,
        keeps_all=whole,
        linear=steps is not None,
        filters=steps is not None and "Filter" in steps,
        transformed=transformed,
    )


def stream_of(source: StreamSource, session: SparkSession, start: Start) -> DataFrame:
    """Raw records of a source as a stream, marked so that the plan shows its source."""
    return offsets.mark(source.read(session, fresh=start.fresh, begin=start.begin.get(source.name)), source.name)


def good(source: StreamSource, decoded: DataFrame) -> DataFrame:
    """The decoded rows that the transform reads, without internal columns, with watermark and deduplication."""
    from pyspark.sql import functions as F

    valid = decoded.where(F.col(REASON).isNull()).drop(REASON, ERROR, RAW, *source.hidden)
    if not valid.isStreaming:
        return valid
    if (mark := source.spec.watermark) is not None:
        valid = valid.withWatermark(str(mark.column), mark.delay.spark)
    if (unique := source.spec.deduplicate) is not None:
        keys = [str(key) for key in unique.keys]
        valid = valid.dropDuplicatesWithinWatermark(keys) if unique.within_watermark else valid.dropDuplicates(keys)
    return valid


def _one_record_a_row(spec: StreamSpec, *, traced: bool, why_state: str | None, nodes: set[str]) -> None:
    """Refuse `lineage: rows` for Python that does not keep it. For SQL the loader checks it."""
    why = None
    if not traced:
        why = f"it drops position columns ({', '.join(spec.position_columns)})"
    elif why_state or "Generate" in nodes:
        why = f"it does not return one row for each row it reads ({why_state or 'an explode'})"
    if why is not None:
        raise SpecError(
            f"The transform of stream {spec.id} does not keep lineage: rows",
            why=f"{spec.transform.python}: {why}",
            next=f"keep the columns, or write lineage: none in conf/streams/{spec.id}.yaml; then: lakeward deploy",
            code="LW-2210",
        )


def _raw(session: SparkSession, sources: list[StreamSource], start: Start) -> DataFrame:
    from pyspark.sql import functions as F

    # The time of a batch would be a literal of the query: its generated code would be new, and compiled, in each batch.
    # `BatchFunction` adds it.
    parts = [
        stream_of(source, session, start).drop(INGESTED_AT).withColumn(SOURCE, F.lit(source.name)) for source in sources
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part, allowMissingColumns=True)
    return whole


_PYTHON = frozenset({"MapInPandas", "MapInArrow", "PythonMapInArrow"})
"""Functions over the rows of a partition. They keep no state, but may return any number of rows for one."""
_ROW_BY_ROW = _PYTHON | frozenset(
    {"Project", "Filter", "SubqueryAlias", "View", "Generate", "Union", "WithCTE", "CTERelationDef", "CTERelationRef"}
    | {"EventTimeWatermark", "ResolvedHint", "UnresolvedHint", "StreamingRelationV2", "StreamingRelation"}
)


def needs_state(frame: DataFrame) -> str | None:
    """The operator that makes a streaming query keep state (or that Spark refuses); None if there is none."""
    for node in _streaming_nodes(frame._jdf.queryExecution().analyzed()):
        kind = node.getClass().getSimpleName()
        children = [child for child in _seq(node.children()) if child.isStreaming()]
        if kind == "Join" and len(children) == 1:
            continue
        if kind not in _ROW_BY_ROW:
            return str(kind)
        if any(query.isStreaming() for query in _seq(node.subqueries())):
            return f"a subquery over a source in {kind}"
    return None


def kinds(frame: DataFrame) -> set[str]:
    """The operators on the path of streaming rows."""
    return {str(node.getClass().getSimpleName()) for node in _streaming_nodes(frame._jdf.queryExecution().analyzed())}


def keeps_all(frame: DataFrame, sources: int) -> bool:
    """Whether every streaming row comes out at least once: one source, no filter, only left outer joins to it.

    The filters of decoding are below the source's view; they are not part of the transform.
    """
    pending, joins = [frame._jdf.queryExecution().analyzed()], 0
    while pending:
        node = pending.pop()
        kind = node.getClass().getSimpleName()
        if kind == "View":
            continue
        children = [child for child in _seq(node.children()) if child.isStreaming()]
        if kind == "Join":
            joins += 1
            if str(node.joinType().toString()) != "LeftOuter" or not node.left().isStreaming():
                return False
        elif kind not in ("Project", "SubqueryAlias", "ResolvedHint", "UnresolvedHint") or len(children) > 1:
            return False
        pending.extend(children)
    return sources == 1 and joins > 0


def chain(frame: DataFrame) -> set[str] | None:
    """The operators between a transform's result and its source's view; None if they are no chain of projections and
    filters without subqueries."""
    node, found = frame._jdf.queryExecution().analyzed(), set[str]()
    while (kind := str(node.getClass().getSimpleName())) != "View":
        if kind not in ("Project", "Filter", "SubqueryAlias") or node.subqueries().size():
            return None
        found.add(kind)
        node = node.children().head()
    return found


def _streaming_nodes(plan: Any) -> list[Any]:
    found, pending = [], [plan]
    while pending:
        node = pending.pop()
        if node.isStreaming():
            found.append(node)
            pending.extend(_seq(node.children()))
    return found


def _seq(scala: Any) -> list[Any]:
    return [scala.apply(index) for index in range(scala.size())]
