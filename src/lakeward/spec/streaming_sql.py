"""What Spark cannot do to rows that never end, read from the SQL's text alone.

Spark says so only when the query starts, or never: a LIMIT over a stream just stops landing rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from lakeward.spec.analysis import SqlFacts, times_read

_WINDOWS = ("window", "session_window")
_WHOLE = {
    "limit": "LIMIT counts over the stream's whole life: after that many rows nothing lands any more; "
    "select with WHERE instead",
    "offset": "OFFSET counts over the stream's whole life; select with WHERE instead",
    "order": "ORDER BY needs all rows, and a stream has no last one; leave it out and sort when the table is read",
    "sort": "SORT BY needs all rows, and a stream has no last one; leave it out and sort when the table is read",
    "cluster": "CLUSTER BY sorts, and a stream has no last row; leave it out",
}


def obstacles(facts: SqlFacts, watermarks: Mapping[str, str | None], mode: str) -> Iterator[str]:
    """Why the SQL cannot run over a stream, each with its remedy.

    Args:
        facts: what the SQL says.
        watermarks: source -> its watermark's column, None without one.
        mode: how the sink takes rows; `complete` rewrites all of them, so much of this does not matter to it.
    """
    streaming = [query for query in facts.statement.find_all(exp.Query)
                 if times_read(query, facts.statement, watermarks)]  # fmt: skip
    for query in streaming:
        if mode != "complete":
            yield from (why for key, why in _WHOLE.items() if query.args.get(key))
        if not isinstance(query, exp.Select):
            continue
        for window in query.find_all(exp.Window):
            function = window.this.find(exp.Func)  # none in WINDOW w AS (..), which only names one
            if function is not None and window.find_ancestor(exp.Select) is query:
                yield (f"{function.sql_name().lower()}() OVER compares a row with rows that are still to come; "
                       "group by window(<time>, '1 hour') instead, or do it where the table is read")  # fmt: skip
        if mode == "append" and any(watermarks.values()) and not _is_timed(query, _timed(facts, watermarks)):
            columns = " or ".join(sorted({column for column in watermarks.values() if column}))
            yield (f"the sink appends, and no group is ever done: neither the watermark's column ({columns}) nor a "
                   f"window of it is grouped by; add window({columns}, '1 hour') to GROUP BY")  # fmt: skip


def _timed(facts: SqlFacts, watermarks: Mapping[str, str | None]) -> frozenset[str]:
    """Names that carry event time: the watermarks' columns, windows of them, and what they are called further on."""
    names = {column.lower() for column in watermarks.values() if column} | set(_WINDOWS)
    while True:
        found = {alias.alias.lower() for alias in facts.statement.find_all(exp.Alias)
                 if _carries_time(alias.this, names)} - names  # fmt: skip
        if not found:
            return frozenset(names)
        names |= found


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


def _is_timed(select: exp.Select, names: frozenset[str]) -> bool:
    """Whether the groups of one SELECT end with event time; a SELECT that groups nothing needs no end."""
    group = select.args.get("group")
    if group is None:
        inside = (found for found in select.find_all(exp.AggFunc) if found.find_ancestor(exp.Select) is select)
        return all(found.find_ancestor(exp.Window) for found in inside)
    if group.find(exp.Cube, exp.Rollup, exp.GroupingSets):
        return True  # grouping sets: only Spark can tell
    keys = list(group.expressions)
    if group.args.get("all"):
        keys = [item.unalias() for item in select.expressions]
    for key in keys:
        digits = str(key.this) if isinstance(key, exp.Literal) else ""
        number = int(digits) if digits.isdecimal() and len(digits) < 5 else 0
        named = select.expressions[number - 1].unalias() if 0 < number <= len(select.expressions) else key
        if _carries_time(named, names):
            return True
    return False
