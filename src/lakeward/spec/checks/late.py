"""Checks of `late:`, the table of late records. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.read.document import Path_
from lakeward.spec.read.messages import Finding
from lakeward.spec.sql.analysis import SqlFacts, joins_streams
from lakeward.spec.sql.late import NotSeen, select_of

READ_AGAIN = ("kafka", "kinesis")
"""Connectors whose records can be read a second time, each with its position."""
_WITHOUT = "remove late: (then Spark counts late records and drops them)"


def late_findings(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Finding]:
    """Why late records of a stream cannot be kept, and in which table they cannot be."""
    if spec.late is None:
        return
    for name, other in (("sink", spec.sink.table), ("quarantine", spec.quarantine and spec.quarantine.table)):
        if other == spec.late.table:
            yield Finding(("late", "table"), f"late and {name} are the same table", str(spec.late.table))
    read: list[Path_] = [
        ("sources", name, *key)
        for name, source in spec.sources.items()
        for key in ((source.connector,), ("watermark", "column"), ("deduplicate", "keys"))
    ]
    needs = (*read, ("sink", spec.sink.connector, "mode"), ("transform", "sql"))
    if why := _unseen(spec, facts):
        yield Finding(("late",), f"late records of this stream cannot be kept: {why}", key=True, needs=needs)


def _unseen(spec: StreamSpec, facts: SqlFacts | None) -> str | None:
    """Why Spark does not show which records it drops, and what to do; None if they can be found."""
    if len(spec.sources) > 1:
        return f"it has several sources, and Spark does not say of which one it drops a record; {_WITHOUT}"
    source = spec.source
    if source.connector not in READ_AGAIN:
        return f"its source is {source.connector}, and only records of Kafka and Kinesis are kept; {_WITHOUT}"
    if source.watermark is None:
        return "without a watermark nothing is late; add watermark: {column: .., delay: ..}, or remove late:"
    if spec.transform.python is not None:
        return f"what its Python does with them is not known before it runs; write the transform in SQL, or {_WITHOUT}"
    if facts is None:
        return None
    if joins_streams(facts, [str(name) for name in spec.sources]):
        return f"its SQL joins the source with itself; {_WITHOUT}"
    if not facts.groups:
        if source.deduplicate is None:
            return "it keeps no state, so none is dropped; add deduplicate: or group by a window, or remove late:"
        return None
    if spec.sink.mode == "complete" and source.deduplicate is None:
        return "mode complete keeps all groups and drops none; remove late:"
    random = [str(name) for name, function in (spec.transform.udfs or {}).items() if not function.deterministic]
    try:
        select_of(facts.text, str(source.watermark.column), random)
    except NotSeen as why:
        one = f"write one SELECT FROM {next(iter(spec.sources))}, grouped by one window({source.watermark.column}, ..)"
        return f"{why}; {one}, or {_WITHOUT}"
    return None
