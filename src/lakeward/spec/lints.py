"""What is allowed and seldom meant: warnings about a whole spec, read from its text alone."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from lakeward.spec.analysis import SqlFacts
from lakeward.spec.document import Path_
from lakeward.spec.messages import Finding
from lakeward.spec.stream import StreamSpec

FLOOR_S = 1.0
"""A batch into a table costs two commits of its metadata, about 0.3 s on an idle machine: more often is all commits."""
_OTHER_EVERY_TIME = {"rand", "randn", "random", "uuid", "monotonically_increasing_id", "shuffle", "current_timestamp",
                     "now", "localtimestamp", "spark_partition_id"}  # fmt: skip


def lint_findings(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Finding]:
    """Warnings, each with its remedy."""
    every = spec.trigger.every
    if spec.sink.table is not None and every is not None and every.seconds < FLOOR_S:
        message = f"a batch every {every} makes a snapshot and small files each time, and takes most of that to commit"
        yield Finding(("trigger", "every"), f"{message}; 1s and more is what a table bears", str(every), warning=True)
    if facts is not None:
        yield from _other_every_time(spec, facts)


def _other_every_time(spec: StreamSpec, facts: SqlFacts) -> Iterator[Finding]:
    """Keys and partitions made by a function that gives something else when the batch runs again."""
    made = {
        alias.alias.lower(): name
        for alias in facts.statement.find_all(exp.Alias)
        for name in [_changing(alias.this)]
        if name is not None
    }
    sink: Path_ = ("sink", spec.sink.connector)
    named = [
        ((*sink, "keys", index), str(key)) for index, key in enumerate(getattr(spec.sink.options, "keys", None) or ())
    ]
    fields = spec.sink.iceberg.partition_by if spec.sink.iceberg else ()
    named += [((*sink, "partition_by", index), field.column) for index, field in enumerate(fields)]
    for path, column in named:
        if name := made.get(column.lower()):
            message = f"{column} is made by {name}(), which gives another value when the batch runs again"
            yield Finding(path, f"{message}; take a column of the record", column, warning=True)


def _changing(part: exp.Expr) -> str | None:
    for function in part.find_all(exp.Func):
        name = function.name if isinstance(function, exp.Anonymous) else function.sql_name()
        if name.lower() in _OTHER_EVERY_TIME:
            return name.lower()
    return None
