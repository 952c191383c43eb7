"""Lints: warnings about specs that are valid but usually unintended, read from the text alone. Each names its remedy.

`docs/reference/lints.md` is generated from this table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from sqlglot import exp

from lakeward.spec.checks.columns import landed_columns
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.read.document import Path_
from lakeward.spec.read.messages import Finding
from lakeward.spec.sql.analysis import SqlFacts
from lakeward.spec.sql.streaming import Endless, endless_groups, endless_joins

FLOOR_S = 1.0
"""A batch costs two metadata commits, about 0.3 s on an idle machine: with a shorter trigger commits take all time."""
MOST_BUCKETS = 256
_OTHER_EVERY_TIME = {"rand", "randn", "random", "uuid", "monotonically_increasing_id", "shuffle", "current_timestamp",
                     "now", "localtimestamp", "spark_partition_id"}  # fmt: skip
_EACH_ROW = {"_kafka_offset", "_kafka_timestamp", "_kinesis_sequence", "_ingested_at", "_file_path", "_file_modified"}
_TIE_BREAKER = "_kafka_offset"
"""Orders rows of one key after `order_by`, if the transform keeps it (`commit_protocol.upsert`)."""
_FINE = ("TIMESTAMP", "DOUBLE", "FLOAT", "DECIMAL")


@dataclass(frozen=True)
class Hit:
    """Where a lint applies: the path, a description, the value, and the place inside SQL."""

    path: Path_
    words: str
    value: str | None = None
    at: tuple[int | None, int | None] | None = None
    key: bool = False


@dataclass(frozen=True)
class Lint:
    """One warning: its condition, why that is usually unintended, and what to write instead."""

    name: str
    when: str
    why: str
    remedy: str
    find: Callable[[StreamSpec, SqlFacts | None], Iterator[Hit]]


def lint_findings(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Finding]:
    """Warnings, each with its remedy."""
    for lint in LINTS:
        for hit in lint.find(spec, facts):
            message = f"{hit.words}: {lint.why}; {lint.remedy}"
            yield Finding(hit.path, message, hit.value, at=hit.at, key=hit.key, warning=True)
    for name in spec.transform.udfs or {}:
        if name.upper() in exp.FUNCTION_BY_NAME:
            words = f"{name} is the name of a built-in function; give yours another one"
            yield Finding(("transform", "udfs", name), words, str(name), key=True)


def _unused_functions(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Hit]:
    texts = [str(rule) for rule in spec.rules.values()]
    if spec.sink.kafka:
        texts += [str(text) for text in (spec.sink.kafka.key, spec.sink.kafka.value) if text]
    called = {call.name.lower() for call in facts.statement.find_all(exp.Anonymous)} if facts is not None else set()
    for name in (spec.transform.udfs or {}) if facts is not None else ():
        low = name.lower()
        if name.upper() not in exp.FUNCTION_BY_NAME and low not in called and not any(low in t.lower() for t in texts):
            yield Hit(("transform", "udfs", name), f"function {name} is declared, but the SQL does not call it",
                      str(name), key=True)  # fmt: skip


def _often(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Hit]:
    every = spec.trigger.every
    if spec.sink.table is not None and every is not None and every.seconds < FLOOR_S:
        yield Hit(("trigger", "every"), f"a batch every {every} into a table", str(every))


def _changing_keys(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Hit]:
    aliases = facts.statement.find_all(exp.Alias) if facts is not None else ()
    udfs = spec.transform.udfs or {}
    others = _OTHER_EVERY_TIME | {str(name).lower() for name, udf in udfs.items() if not udf.deterministic}
    named_by = ((alias.alias.lower(), _changing(alias.this, others)) for alias in aliases)
    made = {column: name for column, name in named_by if name is not None}
    keys = getattr(spec.sink.options, "keys", None) or ()
    at: Path_ = ("sink", spec.sink.connector)
    named = [((*at, "keys", index), str(key)) for index, key in enumerate(keys)]
    for path, column in (*named, *((path, column) for path, column, _ in _partitions(spec))):
        if name := made.get(column.lower()):
            yield Hit(path, f"{column} is made by {name}()", column)


def _changing(part: exp.Expr, others: Collection[str]) -> str | None:
    for function in part.find_all(exp.Func):
        name = function.name if isinstance(function, exp.Anonymous) else function.sql_name()
        if name.lower() in others:
            return name.lower()
    return None


def _partitions(spec: StreamSpec) -> Iterator[tuple[Path_, str, str]]:
    """(path, column, transform) of every partition field of the sink."""
    at: Path_ = ("sink", spec.sink.connector, "partition_by")
    if spec.sink.iceberg:
        yield from (((*at, i), f.column, f.transform) for i, f in enumerate(spec.sink.iceberg.partition_by))
    plain = spec.sink.delta or spec.sink.files
    yield from (((*at, i), str(column), "identity") for i, column in enumerate(plain.partition_by if plain else ()))


def _fine_partitions(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Hit]:
    kinds = landed_columns(spec, facts) or {}
    keys = [str(key).lower() for key in getattr(spec.sink.options, "keys", None) or ()]
    fields = list(_partitions(spec))
    for path, column, transform in fields:
        low = column.lower()
        if transform == "identity" and low in _EACH_ROW:
            yield Hit(path, f"nearly every row has a different {column}", column)
        elif transform == "identity" and kinds.get(low, "").startswith(_FINE):
            yield Hit(path, f"{column} is {kinds[low]}, with a value for nearly every row", column)
        elif transform == "identity" and keys == [low]:
            yield Hit(path, f"{column} is the key, so each row has a partition", column)
        elif transform == "hours" and len(fields) > 1:
            yield Hit(path, f"hours({column}) beside another field makes partitions of minutes of data", column)
    for index, field in enumerate(spec.sink.iceberg.partition_by if spec.sink.iceberg else ()):
        if field.transform == "bucket" and (field.number or 0) > MOST_BUCKETS:
            words = f"{field.number} buckets make up to {field.number} files of every batch"
            yield Hit(("sink", "iceberg", "partition_by", index), words, str(field))


def _watermarks(spec: StreamSpec) -> dict[str, str | None]:
    return {str(n): str(source.watermark.column) if source.watermark else None for n, source in spec.sources.items()}


def _endless_groups(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Hit]:
    if facts is not None and spec.sink.mode in ("upsert", "update") and spec.state.max_rows is None:
        yield from map(_in_sql, endless_groups(facts, _watermarks(spec)))


def _endless_joins(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Hit]:
    if facts is not None and spec.state.max_rows is None:
        yield from map(_in_sql, endless_joins(facts, _watermarks(spec)))


def _endless_keys(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Hit]:
    for name, source in spec.sources.items():
        unique, mark = source.deduplicate, source.watermark
        if unique is None or unique.within_watermark:
            continue
        if mark is None or mark.column.lower() not in {key.lower() for key in unique.keys}:
            yield Hit(("sources", name, "deduplicate", "within_watermark"), "every key stays in state forever")


def _complete(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Hit]:
    if facts is None or spec.sink.mode != "complete" or spec.state.max_rows is not None:
        return
    for endless in endless_groups(facts, {}):
        yield Hit(("sink", spec.sink.connector, "mode"), f"complete over {endless.what}", "complete")


def _undecided_ties(spec: StreamSpec, facts: SqlFacts | None) -> Iterator[Hit]:
    order = getattr(spec.sink.options, "order_by", None)
    if facts is None or spec.sink.mode != "upsert" or order is None or facts.groups is not None:
        return
    query = facts.statement
    if not isinstance(query, exp.Select) or not any(source.kafka for source in spec.sources.values()):
        return
    named = {name.lower(): select for name, select in zip(query.named_selects, query.selects, strict=True)}
    if "*" in named or any(select.is_star for select in query.selects) or _TIE_BREAKER in named:
        return
    made = named.get(str(order).lower())
    if made is not None and any(column.name.lower() == _TIE_BREAKER for column in made.find_all(exp.Column)):
        return
    yield Hit(("sink", spec.sink.connector, "order_by"), f"rows of one key may have the same {order}", str(order))


def _in_sql(endless: Endless) -> Hit:
    return Hit(("transform", "sql"), endless.what, at=endless.at)


LINTS = (
    Lint("often", "`trigger: {every}` under 1s into a table of the lake",
         "it makes a snapshot and small files each time, and takes most of that to commit",
         "1s and more is what a table bears", _often),
    Lint("changing-key", "a key or a partition column made by rand(), uuid(), now() and their like",
         "its value changes when the batch is retried", "take a column of the record", _changing_keys),
    Lint("fine-partitions", "a partition for nearly every row: a time or a number by its value, an offset, the only "
         "key of an upsert, hours() beside another field, more than 256 buckets",
         "each batch writes a file into each partition it touches",
         "partition by days() of a time, by a column of few values, or not at all", _fine_partitions),
    Lint("endless-groups", "`GROUP BY` into `upsert` or `update` whose groups no watermark ends",
         "each group stays in state forever, so state grows without bound",
         "add a watermark and group by a window of its column, or limit the state with state: {max_rows: N}",
         _endless_groups),
    Lint("endless-join", "an inner join of two streams without watermarks and a bound on their times",
         "each row stays in state forever, waiting for a match",
         "add a watermark to both and a bound in ON, such as b.t BETWEEN a.t AND a.t + INTERVAL 1 HOUR, or say "
         "state: {max_rows: N}", _endless_joins),
    Lint("endless-keys", "`deduplicate` with `within_watermark: false` and no watermark among its keys",
         "the state grows without end", "with a watermark and within_watermark: true it does not", _endless_keys),
    Lint("complete", "`mode: complete` over an unbounded number of groups",
         "each batch writes all groups there ever were, and no watermark ends one",
         "use mode: upsert with the columns of GROUP BY as keys (of the console mode: update), or say how many there "
         "may be with state: {max_rows: N}", _complete),
    Lint("undecided-ties", "an upsert with `order_by` whose transform drops `_kafka_offset`",
         "within a batch an older row may win, by chance: times of change in milliseconds are often equal",
         "keep _kafka_offset in the transform, which then decides between equal values", _undecided_ties),
    Lint("unused-function", "a function of `udfs` that neither the SQL nor a rule nor the sink calls",
         "it is imported at every start without effect", "call it, or take it out", _unused_functions),
)  # fmt: skip
MEASURED = Lint(
    "slow-commits", "a running stream whose batches took longer than its `every`: 95 of 100 of its newest, as the "
    "registry has them", "batches run back to back, and records that arrive meanwhile make the next one larger",
    "a longer trigger makes fewer and larger files; or give it more cores", lambda spec, facts: iter(()),
)  # fmt: skip
"""Found between the specs and a registry: `spec.checks.project.slow_commits`."""

_PAGE = """# Lints: warnings of `lakeward config validate`

Valid, but usually unintended. A warning blocks nothing; `deploy` shows it too. Generated from the code: `make schemas`.

| lint | triggered by | because | instead |
|---|---|---|---|
{rows}

Specs that cannot work are refused, with a remedy: a topic or a folder without a rate limit
(`max_offsets_per_trigger`, `max_files_per_trigger`); groups that an appending sink waits for and no watermark ends; an
outer join of two streams without a bound on their times; `real_time` or `continuous` in a driver that other streams
share.
"""


def page() -> str:
    """The page of the reference."""
    rows = (f"| {lint.name} | {lint.when} | {lint.why} | {lint.remedy} |" for lint in (*LINTS, MEASURED))
    return _PAGE.format(rows="\n".join(rows))
