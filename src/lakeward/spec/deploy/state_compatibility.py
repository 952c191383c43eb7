"""State compatibility: what streaming state depends on, and whether it fits a changed spec. Pure.

State is stored by position, not by name: an aggregate that is added, removed or moved would be read as another one,
and if the types match, Spark does not notice. Expressions over the aggregates (arithmetic, names, HAVING) are not in
the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from lakeward.spec.model.sources import Source
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.analysis import SqlFacts, joins_streams, pretty
from lakeward.spec.sql.ddl import ddl_columns
from lakeward.spec.sql.statements import DIALECT

_UNREAD = (exp.Subquery, exp.SetOperation, exp.CTE, exp.Distinct, exp.Window, exp.Lateral, exp.UDTF)
"""With one of these in the SQL, the parts that the state depends on cannot be separated."""


@dataclass(frozen=True)
class Aggregation:
    """What the state of one GROUP BY depends on, each part as canonical SQL."""

    rows: str
    keys: tuple[str, ...]
    aggregates: tuple[str, ...]


def changes(before: StreamSpec, after: StreamSpec, old: SqlFacts | None, new: SqlFacts | None) -> Iterator[str]:
    """Reasons why the state of both would not fit; none if it can be continued.

    Args:
        old, new: facts of their SQL; None for Python, or if it does not parse.
    """
    if old is None or new is None:
        if before.transform.python != after.transform.python:
            yield "the Python of a query with state is another function; its state would not fit"
        joined, grouped, whole = False, False, True
    else:
        joined = any(joins_streams(facts, before.sources) for facts in (old, new))
        grouped = any(facts.groups is not None for facts in (old, new))
        whole = joined or (grouped and _star(new.statement))
        if (joined or grouped) and pretty(old.text) != pretty(new.text):
            yield from _sql(old, new, joined=joined)
    for name, source in before.sources.items():
        yield from _source(name, source, after.sources[name], whole=whole)


def _sql(old: SqlFacts, new: SqlFacts, *, joined: bool) -> Iterator[str]:
    first, then = (None if joined else aggregation(facts.statement) for facts in (old, new))
    if first is None or then is None:
        yield "the SQL of a query with state changes; its state would not fit"
        return
    for what, old_parts, new_parts in (
        ("groups by", first.keys, then.keys),
        ("has the aggregates", first.aggregates, then.aggregates),
    ):
        if old_parts != new_parts:
            made_by = f"the state was made by {_list(old_parts)}"
            yield f"the SQL {what} {_list(new_parts)}, {made_by}; its state would not fit"
    if first.rows != then.rows:
        yield f"the SQL selects other rows ({then.rows}); the state was built from the old ones ({first.rows})"


def _list(parts: tuple[str, ...]) -> str:
    return ", ".join(parts) or "nothing"


def aggregation(statement: exp.Query) -> Aggregation | None:
    """What the state of a plain GROUP BY depends on; None for any other statement.

    Spark stores the aggregates in the order of their first use in the select list, then in HAVING.
    """
    if not isinstance(statement, exp.Select) or statement.args.get("with_") or statement.args.get("with"):
        return None
    if any(True for _ in statement.find_all(*_UNREAD)):
        return None
    group = statement.args.get("group")
    if group is not None and any(value for key, value in group.args.items() if key != "expressions"):
        return None  # GROUPING SETS, ROLLUP, CUBE, ALL
    named = {item.alias.lower(): item.this for item in statement.expressions if isinstance(item, exp.Alias)}
    keys = tuple(_text(_meant(key, named)) for key in (group.expressions if group else ()))
    if any(key.isdigit() for key in keys):
        return None
    counted: dict[str, None] = {}
    for part in (*statement.expressions, *(statement.args.get(word) for word in ("having", "order"))):
        for node in part.walk(bfs=False) if part is not None else ():
            if isinstance(node, exp.AggFunc):
                counted.setdefault(_text(node))
            elif isinstance(node, exp.Anonymous) and _text(node) not in keys:
                return None  # may be a user-defined aggregate
    rows = [statement.args.get("from_") or statement.args.get("from"), *(statement.args.get("joins") or ())]
    rows += [statement.args.get("where")]
    return Aggregation(" ".join(_text(part) for part in rows if part is not None), keys, tuple(counted))


def _meant(key: exp.Expr, named: dict[str, exp.Expr]) -> exp.Expr:
    """The expression of a group key: an alias of the select list is replaced, unless a column has that name."""
    if not isinstance(key, exp.Column) or key.table:
        return key
    meant = named.get(key.name.lower(), key)
    return key if any(column.name.lower() == key.name.lower() for column in meant.find_all(exp.Column)) else meant


def _text(part: exp.Expr) -> str:
    return part.sql(dialect=DIALECT, comments=False, normalize=True)


def _star(statement: exp.Query) -> bool:
    """Whether the SQL reads columns without naming them; `count(*)` reads none."""
    return any(not isinstance(star.parent, exp.Count) for star in statement.find_all(exp.Star))


def _source(name: str, old: Source, new: Source, *, whole: bool) -> Iterator[str]:
    """`whole`: every column of the source may be in the state."""
    if old.deduplicate != new.deduplicate:
        was, now = (_remembers(side) for side in (old, new))
        yield f"source {name} remembers {now} instead of {was}; its state would not fit"
    times = [side.watermark.column if side.watermark else None for side in (old, new)]
    if times[0] != times[1]:
        yield f"the watermark of source {name} is of {times[1] or 'nothing'} instead of {times[0] or 'nothing'}"
    old_columns, new_columns = _columns(old), _columns(new)
    if old_columns is None or new_columns is None:
        if old.decode != new.decode:
            yield f"source {name} is decoded differently; its state may not fit"
        return
    other = [
        f"{name} {new_columns.get(name, 'not at all')} instead of {kind}"
        for name, kind in old_columns.items()
        if new_columns.get(name) != kind
    ]
    other += [f"{name} {kind} too" for name, kind in new_columns.items() if whole and name not in old_columns]
    if other:
        yield f"source {name} decodes {', '.join(other)}; its state would not fit"


def _remembers(source: Source) -> str:
    if source.deduplicate is None:
        return "no keys"
    return f"{', '.join(source.deduplicate.keys)}{' for ever' if not source.deduplicate.within_watermark else ''}"


def _columns(source: Source) -> dict[str, str] | None:
    """Column -> type, in lower case; None without a declared schema."""
    if source.decode is None:
        return {}
    if source.decode.ddl is None:
        return None
    columns = {name.lower(): kind for name, kind in ddl_columns(str(source.decode.ddl)).items()}
    return columns | ({"(key and headers)": "as bytes"} if source.decode.columns == "all" else {})
