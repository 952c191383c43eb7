"""Start and end offsets of the batch a query is running, read from the running query itself.

Checkpoint files are not used: on an object store another driver can overwrite them. Inside `foreachBatch`, the query's
`committedOffsets` are the start of the batch and its `availableOffsets` the end. Batch 0 has no committed offsets: the
start of its sources is in the batch's own plan (DataSource V2 sources) or does not exist yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.platform.errors import LakewardError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Canonical = Callable[[str], str]
"""Spark's text of an offset -> the canonical string that is compared and stored."""

_MARK = "lakeward_source_"
_STREAMING_LEAVES = ("StreamingRelationV2", "StreamingRelation")


def mark(rows: DataFrame, source: str) -> DataFrame:
    """Mark a source's rows with a name that the query's plan keeps; needed where a stream has several sources."""
    return rows.alias(_MARK + source)


def canonical_json(offset: str) -> str:
    """JSON with sorted keys and no spaces; any other text unchanged. Correct for Kafka and for plain numbers."""
    try:
        return json.dumps(json.loads(offset), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return offset


def order_of(rows: DataFrame, sources: Sequence[str]) -> list[str]:
    """The names of a query's sources in the order it reads them, which is the order of offsets in a checkpoint."""
    return list(sources) if len(sources) == 1 else _marked_leaves(rows._jdf.queryExecution().analyzed())


def execution_of(session: SparkSession, query_name: str) -> Any:
    """The running `StreamExecution` of the query called `query_name`.

    Args:
        session: the session that started it (a batch's cloned session has no queries).

    Raises:
        LakewardError: no such query is active.
    """
    for query in session._jsparkSession.streams().active():
        if query.name() == query_name:
            return query.streamingQuery()
    raise LakewardError(
        f"No active query has the name {query_name}", why="a batch runs inside a query of that name", code="LW-3016"
    )


def running_batch(
    execution: Any,
    batch: int,
    sources: Sequence[str],
    canonical: Mapping[str, Canonical],
    topic_ids: Mapping[str, str],
) -> RunningBatch:
    """The batch that the query is running, read inside its `foreachBatch`.

    Args:
        execution: from `execution_of`.
        batch: the batch's number.
        sources: the stream's source names; with more than one each must have been marked (`mark`).
        canonical: source name -> how its offsets are made canonical; `canonical_json` where absent.
        topic_ids: topic -> id in the broker.
    """
    streams = execution.sources()
    names = _names(execution, streams.size(), sources)
    committed, available = execution.committedOffsets(), execution.availableOffsets()
    start = dict.fromkeys(names, NO_DATA)
    end = dict.fromkeys(names, NO_DATA)
    for index, name in enumerate(names):
        stream = streams.apply(index)
        form = canonical.get(name, canonical_json)
        first, last = _offset(committed.get(stream)), _offset(available.get(stream))
        if first is None and batch == 0:
            first = _planned_start(execution, stream)
        start[name] = form(first) if first is not None else NO_DATA
        end[name] = form(last) if last is not None else NO_DATA
    return RunningBatch(str(execution.id().toString()), batch, start, end, dict(topic_ids))


def files_read(execution: Any) -> set[str]:
    """URLs of the files that the running batch's plan reads: those that existed when the plan was made."""
    leaves = execution.lastExecution().logical().collectLeaves()
    files: set[str] = set()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if leaf.getClass().getSimpleName() == "LogicalRelation":
            files |= set(leaf.relation().location().inputFiles())
    return files


def _offset(option: Any) -> str | None:
    """The JSON of a Scala `Option[Offset]`."""
    return str(option.get().json()) if option.isDefined() else None


def _planned_start(execution: Any, stream: Any) -> str | None:
    """The start of `stream` in the batch's plan; None for DataSource V1 sources, which begin without an offset."""
    leaves = execution.lastExecution().logical().collectLeaves()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if leaf.getClass().getSimpleName() == "StreamingDataSourceV2ScanRelation" and leaf.stream().equals(stream):
            return _offset(leaf.startOffset())
    return None


def _names(execution: Any, count: int, sources: Sequence[str]) -> list[str]:
    """The name of each of the query's sources, in the query's order."""
    if len(sources) == 1 and count >= 1:
        return [sources[0]] * count
    marked = _marked_leaves(execution.analyzedPlan())
    if len(marked) != count or not set(marked) <= set(sources):
        raise LakewardError(
            "The sources of the query cannot be distinguished",
            why=f"the plan reads {', '.join(marked) or 'no marked source'} with {count} sources; "
            f"declared are {', '.join(sources)}",
            code="LW-3017",
        )
    return marked


def _marked_leaves(plan: Any) -> list[str]:
    """The mark above each streaming leaf, in the order of the plan."""
    marks: list[str] = []
    pending: list[tuple[Any, str]] = [(plan, "")]
    while pending:
        node, name = pending.pop()
        kind = node.getClass().getSimpleName()
        if kind == "SubqueryAlias" and node.alias().startswith(_MARK):
            name = node.alias().removeprefix(_MARK)
        if kind in _STREAMING_LEAVES:
            marks.append(name)
        children = node.children()
        pending.extend((children.apply(index), name) for index in range(children.size() - 1, -1, -1))
    return marks
