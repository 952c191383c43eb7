"""SQL that Structured Streaming does not support, found from the text alone.

Spark reports it only when the query starts, or never: with a LIMIT a stream silently stops landing rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from lakeward.spec.sql.analysis import SqlFacts
from lakeward.spec.sql.dialect import Place, keyword
from lakeward.spec.sql.statements import DIALECT, spark_tokens
from lakeward.spec.sql.table_names import Reading, before

_SESSION = "session_window"
_WINDOWS = ("window", _SESSION)
_WHOLE = {
    "limit": (TokenType.LIMIT, "LIMIT counts over the stream's whole life: after that many rows nothing more lands; "
              "select with WHERE instead"),
    "offset": (TokenType.OFFSET, "OFFSET counts over the stream's whole life; select with WHERE instead"),
    "order": (TokenType.ORDER_BY, "ORDER BY needs all rows, and a stream has no last one; leave it out and sort when "
              "the table is read"),
    "sort": (TokenType.SORT_BY, "SORT BY needs all rows, and a stream has no last one; leave it out and sort when the "
             "table is read"),
    "cluster": (TokenType.CLUSTER_BY, "CLUSTER BY sorts, and a stream has no last row; leave it out"),
}  # fmt: skip
_HALF = ("SEMI", "ANTI")


@dataclass(frozen=True)
class Obstacle:
    """Why the SQL cannot run over a stream, with its remedy, and where in the text."""

    why: str
    at: Place


@dataclass(frozen=True)
class Endless:
    """An operator whose state grows without bound, and its position in the text."""

    what: str
    at: Place


def endless_groups(facts: SqlFacts, watermarks: Mapping[str, str | None]) -> Iterator[Endless]:
    """Groups that no watermark closes. Without `watermarks` every table counts as a stream without one."""
    reading, tokens = Reading(watermarks or {read.name: None for read in facts.reads}), spark_tokens(facts.text)
    names = _timed(facts, watermarks)
    for select in facts.statement.find_all(exp.Select):
        group = select.args.get("group")
        if group is None or not reading.times(select):
            continue
        if not any(watermarks.values()) or not _is_timed(select, names):
            keys = ", ".join(key.sql(dialect=DIALECT) for key in group.expressions) or "all columns"
            yield Endless(f"the groups by {keys}", keyword(tokens, TokenType.GROUP_BY, before=group))


def endless_joins(facts: SqlFacts, watermarks: Mapping[str, str | None]) -> Iterator[Endless]:
    """Inner joins of two streams whose rows stay in state forever."""
    reading, tokens = Reading(watermarks), spark_tokens(facts.text)
    for join in facts.statement.find_all(exp.Join):
        ends = any(watermarks.values()) and _bounded(join, facts, watermarks)
        if all(reading.sides(join)) and not join.side and join.kind not in _HALF and not ends:
            yield Endless("a JOIN of two streams", keyword(tokens, TokenType.JOIN, before=join.this))


def obstacles(facts: SqlFacts, watermarks: Mapping[str, str | None], mode: str) -> Iterator[Obstacle]:
    """Why the SQL cannot run over a stream.

    Args:
        facts: of the SQL.
        watermarks: source -> its watermark's column, None without one.
        mode: of the sink; `complete` rewrites all rows, so most of these checks do not apply.
    """
    reading, tokens = Reading(watermarks), spark_tokens(facts.text)
    yield from _joins(facts, reading, watermarks, tokens)
    yield from _filtered_sessions(facts, tokens)
    yield from _sessions(facts, reading, mode, tokens)
    for query in facts.statement.find_all(exp.Query):
        if not reading.times(query):
            continue
        for key, (kind, why) in _WHOLE.items() if mode != "complete" else ():
            if query.args.get(key):
                yield Obstacle(why, keyword(tokens, kind, before=query.args[key]))
        if not isinstance(query, exp.Select):
            continue
        for window in query.find_all(exp.Window):
            function = window.this.find(exp.Func)  # none in WINDOW w AS (..), which only names one
            if function is not None and window.find_ancestor(exp.Select) is query:
                why = (f"{function.sql_name().lower()}() OVER compares a row with future rows; "
                       "group by window(<time>, '1 hour') instead, or do it where the table is read")  # fmt: skip
                yield Obstacle(why, keyword(tokens, TokenType.OVER, after=window.this))
        if mode == "append" and any(watermarks.values()) and not _is_timed(query, _timed(facts, watermarks)):
            columns = " or ".join(sorted({column for column in watermarks.values() if column}))
            why = (f"the sink appends, and no group is ever done: neither the watermark's column ({columns}) nor a "
                   f"window of it is grouped by; add window({columns}, '1 hour') to GROUP BY")  # fmt: skip
            group = query.args.get("group")
            yield Obstacle(why, keyword(tokens, TokenType.GROUP_BY, before=group) if group else (None, None))


def _joins(
    facts: SqlFacts, reading: Reading, watermarks: Mapping[str, str | None], tokens: list[Token]
) -> Iterator[Obstacle]:
    for join in facts.statement.find_all(exp.Join):
        left, right = reading.sides(join)
        if left and right:
            why = _of_two_streams(join, facts, watermarks)
        else:
            why = _of_one_stream(join, reading, left) if left or right else None
        if why:
            yield Obstacle(why, keyword(tokens, TokenType.JOIN, before=join.this))


def _filtered_sessions(facts: SqlFacts, tokens: list[Token]) -> Iterator[Obstacle]:
    """Conditions on the start or end of a session: Spark 4.1 evaluates them per record, before sessions are merged."""
    names = _called(facts, {_SESSION}, _carries_session)
    for select in facts.statement.find_all(exp.Select):
        group = select.args.get("group")
        groups_sessions = group is not None and any(_carries_session(key, names) for key in group.expressions)
        for key, kind in (("where", TokenType.WHERE), ("having", TokenType.HAVING)):
            condition = select.args.get(key)
            if condition is None or (key == "where" and groups_sessions):  # it applies to the records, which is valid
                continue
            if any(_carries_time(column, names) for column in condition.find_all(exp.Column)):
                why = ("Spark moves a condition on a session's begin or end below the merging of sessions, and returns "
                       "wrong sessions; test an aggregate instead, such as max(<time>), or filter where the "
                       "table is read")  # fmt: skip
                yield Obstacle(why, keyword(tokens, kind, before=condition.this))


def _sessions(facts: SqlFacts, reading: Reading, mode: str, tokens: list[Token]) -> Iterator[Obstacle]:
    """Sessions that Spark refuses when the query starts: without another key, and where changed groups are sent."""
    for select in facts.statement.find_all(exp.Select):
        group = select.args.get("group")
        if group is None or not reading.times(select):
            continue
        keys = [_is_session(select, key) for key in group.expressions]
        at = keyword(tokens, TokenType.GROUP_BY, before=group)
        if keys and all(keys):
            why = "Spark has no sessions over all rows together; add a key to GROUP BY, such as the user of the session"
            yield Obstacle(why, at)
        if any(keys) and mode in ("upsert", "update"):
            yield Obstacle(f"Spark sends no sessions that may still change, as mode {mode} asks; use mode: append", at)


def _is_session(select: exp.Select, key: exp.Expr) -> bool:
    """Whether a key of GROUP BY is a session, by itself, by number or by its alias in the SELECT."""
    key = _item(select, key)
    if isinstance(key, exp.Column) and not key.table:
        named = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
        key = named.get(key.name.lower(), key)
    return isinstance(key, exp.Anonymous) and str(key.this).lower() == _SESSION


def _of_two_streams(join: exp.Join, facts: SqlFacts, watermarks: Mapping[str, str | None]) -> str | None:
    """Problem of a JOIN of two streams: an outer join must know when no match can come any more."""
    if join.kind == "ANTI":
        return (f"Spark has no {_written(join)} of two streams; write LEFT JOIN with a bound on both times in ON, and "
                "keep the rows where the other side IS NULL")  # fmt: skip
    if not join.side and join.kind != "SEMI":
        return None
    if any(watermarks.values()) and _bounded(join, facts, watermarks):
        return None
    return (f"{_written(join)} of two streams cannot know that no match will come: it needs a watermark on both "
            "sources and a bound on their times in ON, such as b.t BETWEEN a.t AND a.t + INTERVAL 1 HOUR")  # fmt: skip


def _bounded(join: exp.Join, facts: SqlFacts, watermarks: Mapping[str, str | None]) -> bool:
    """Whether the join condition includes event time."""
    names = _timed(facts, watermarks)
    on = join.args.get("on")
    return (
        join.method == "NATURAL"
        or any(column.name.lower() in names for column in join.args.get("using") or ())
        or (on is not None and any(_carries_time(part, names) for part in on.find_all(exp.Column, exp.Anonymous)))
    )


def _of_one_stream(join: exp.Join, reading: Reading, left: bool) -> str | None:
    """Problem of a JOIN of a stream and a table: one that returns unmatched table rows returns them in every batch."""
    half = join.kind in _HALF
    keeps_table_rows = {"FULL": True, "RIGHT": left, "LEFT": not left}.get(join.side, half and not left)
    if not keeps_table_rows:
        return None
    others = before(join)
    of_stream = next(relation for relation in (*others, join.this) if reading.beside(join, relation))
    stream = of_stream.alias_or_name or "the stream"
    table = (join.this if left else others[0]).alias_or_name or "the table"
    which = "" if half else " that match nothing"
    return (f"{_written(join)} returns rows of {table}{which}, and every batch would return them again; "
            f"write FROM {stream} LEFT {f'{join.kind} ' if half else ''}JOIN {table}")  # fmt: skip


def _written(join: exp.Join) -> str:
    return " ".join(part for part in (join.side, join.kind, "JOIN") if part)


def _timed(facts: SqlFacts, watermarks: Mapping[str, str | None]) -> frozenset[str]:
    """Names that carry event time: the watermark columns, windows of them, and their aliases."""
    return _called(facts, {column.lower() for column in watermarks.values() if column} | set(_WINDOWS), _carries_time)


def _called(
    facts: SqlFacts, names: set[str], carries: Callable[[exp.Expr, frozenset[str] | set[str]], bool]
) -> frozenset[str]:
    """The names and their aliases."""
    while True:
        called = {alias.alias.lower() for alias in facts.statement.find_all(exp.Alias)
                 if carries(alias.this, names)} - names  # fmt: skip
        if not called:
            return frozenset(names)
        names |= called


def _carries_time(node: exp.Expr, names: frozenset[str] | set[str]) -> bool:
    if isinstance(node, exp.Dot | exp.Paren):
        return _carries_time(node.this, names)
    if isinstance(node, exp.Column):
        return node.name.lower() in names or node.table.lower() in names
    if isinstance(node, exp.Anonymous):
        called = str(node.this).lower()
        first = node.expressions[0] if node.expressions else None
        return called == "window_time" or (called in _WINDOWS and first is not None and _carries_time(first, names))
    return False


def _carries_session(node: exp.Expr, names: frozenset[str] | set[str]) -> bool:
    made = isinstance(node, exp.Anonymous) and str(node.this).lower() == _SESSION
    return made or _carries_time(node, names)


def _is_timed(select: exp.Select, names: frozenset[str]) -> bool:
    """Whether the groups of one SELECT are closed by event time; True without grouping."""
    group = select.args.get("group")
    if group is None:
        inside = (
            aggregate for aggregate in select.find_all(exp.AggFunc) if aggregate.find_ancestor(exp.Select) is select
        )
        return all(aggregate.find_ancestor(exp.Window) for aggregate in inside)
    if group.find(exp.Cube, exp.Rollup, exp.GroupingSets):
        return True  # grouping sets: only Spark can tell
    keys = list(group.expressions)
    if group.args.get("all"):
        keys = [item.unalias() for item in select.expressions]
    return any(_carries_time(_item(select, key), names) for key in keys)


def _item(select: exp.Select, key: exp.Expr) -> exp.Expr:
    """The column of the SELECT that a number in GROUP BY stands for; any other key is itself."""
    digits = str(key.this) if isinstance(key, exp.Literal) else ""
    number = int(digits) if digits.isdecimal() and len(digits) < 5 else 0
    found: exp.Expr = select.expressions[number - 1].unalias() if 0 < number <= len(select.expressions) else key
    return found
