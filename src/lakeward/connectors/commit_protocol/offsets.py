"""Start and end offsets of the batch a query is running, read from the running query itself.

Not from checkpoint files: on an object store another driver can overwrite those. Inside `foreachBatch` the query's
`committedOffsets` are where the batch starts and its `availableOffsets` where it ends. Batch 0 has no committed
offsets; where its sources begin stands in the batch's own plan (sources of the second API) or is nothing yet.
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
"""Spark's text of an offset -> the canonical string that is compared and kept."""

_MARK = "lakeward_source_"
_STREAMING_LEAVES = ("StreamingRelationV2", "StreamingRelation")


def mark(rows: DataFrame, source: str) -> DataFrame:
    """Give what a source reads a name that survives in the query's plan; needed where a stream has several sources."""
    return rows.alias(_MARK + source)


def canonical_json(offset: str) -> str:
    """JSON with sorted keys and no spaces; any other text as it is. Right for Kafka and for plain numbers."""
    try:
        return json.dumps(json.loads(offset), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return offset


def order_of(rows: DataFrame, sources: Sequence[str]) -> list[str]:
    """The names of a query's sources in the order it reads them: that of their offsets in a checkpoint."""
    return list(sources) if len(sources) == 1 else _marked_leaves(rows._jdf.queryExecution().analyzed())


def execution_of(session: SparkSession, query_name: str) -> Any:
    """The running `StreamExecution` of the query called `query_name`.

    Args:
        session: the session that started it (a batch's cloned session knows no queries).

    Raises:
        LakewardError: no such query is active.
    """
    for query in session._jsparkSession.streams().active():
        if query.name() == query_name:
            return query.streamingQuery()
    raise LakewardError(
        f"No active query is called {query_name}", why="a batch runs inside a query of that name", code="LW-3016"
    )


def running_batch(
    execution: Any,
    batch: int,
    sources: Sequence[str],
    canonical: Mapping[str, Canonical],
    topic_ids: Mapping[str, str],
) -> RunningBatch:
    """What the query is running, from inside its `foreachBatch`.

    Args:
        execution: of `execution_of`.
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
    """URLs of the files that the running batch's plan reads: those that were there when it was made."""
    leaves = execution.lastExecution().logical().collectLeaves()
    found: set[str] = set()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if leaf.getClass().getSimpleName() == "LogicalRelation":
            found |= set(leaf.relation().location().inputFiles())
    return found


def _offset(option: Any) -> str | None:
    """The JSON of a Scala `Option[Offset]`."""
    return str(option.get().json()) if option.isDefined() else None


def _planned_start(execution: Any, stream: Any) -> str | None:
    """Where the batch's plan begins to read `stream`; None for sources of the first API, which begin with nothing."""
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
    found = _marked_leaves(execution.analyzedPlan())
    if len(found) != count or not set(found) <= set(sources):
        raise LakewardError(
            "The sources of the query cannot be told apart",
            why=f"the plan reads {', '.join(found) or 'nothing marked'} with {count} sources; "
            f"declared are {', '.join(sources)}",
            code="LW-3017",
        )
    return found


def _marked_leaves(plan: Any) -> list[str]:
    """The mark above each streaming leaf, in the order of the plan."""
    found: list[str] = []
    pending: list[tuple[Any, str]] = [(plan, "")]
    while pending:
        node, name = pending.pop()
        kind = node.getClass().getSimpleName()
        if kind == "SubqueryAlias" and node.alias().startswith(_MARK):
            name = node.alias().removeprefix(_MARK)
        if kind in _STREAMING_LEAVES:
            found.append(name)
        children = node.children()
        pending.extend((children.apply(index), name) for index in range(children.size() - 1, -1, -1))
    return found
