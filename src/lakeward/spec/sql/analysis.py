"""Analysis of a transform's SQL text: names read, grouping, fan-out, retained columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from lakeward.spec.sql.dialect import beginning
from lakeward.spec.sql.statements import DIALECT, parse_select
from lakeward.spec.sql.table_names import Reading, definition

_GENERATORS = {"inline_outer", "variant_explode", "variant_explode_outer"}
"""Generator functions (several rows of one) that sqlglot does not know."""


@dataclass(frozen=True)
class ReadName:
    """A table name the SQL reads, with its 1-based position in the text."""

    name: str
    line: int | None
    column: int | None


@dataclass(frozen=True)
class SqlFacts:
    """Facts of the text of a SELECT.

    Attributes:
        reads: names in FROM and JOIN that are not defined by a WITH of the same text.
        groups: what aggregates rows (`GROUP BY`, `DISTINCT`, an aggregate function); None without it.
        fans_out: what may make several rows of one; None if nothing is found.
        statement: the parsed SELECT, for `retained_columns`.
        text: the parsed text.
    """

    reads: tuple[ReadName, ...]
    groups: str | None
    fans_out: str | None
    statement: exp.Query
    text: str


def analyse(text: str, sources: Collection[str] | None = None) -> SqlFacts:
    """Analyse `text`.

    Args:
        sources: the tables whose rows are followed; operations on other tables do not count. Default: all tables.

    Raises:
        SqlProblem: it is not one SELECT.
    """
    statement = parse_select(text)
    reads = tuple(_reads(statement))
    reading = Reading([read.name for read in reads] if sources is None else sources)

    def follows(part: exp.Expr) -> bool:
        around = part if isinstance(part, exp.Query) else part.find_ancestor(exp.Select)
        return sources is None or (around is not None and reading.times(around) > 0)

    groups = next(_groups(statement, follows), None)
    return SqlFacts(reads, groups, next(_fans_out(statement, follows), None), statement, text)


def joins_streams(facts: SqlFacts, sources: Collection[str]) -> bool:
    """Whether the SQL joins two of the sources, or one with itself; only then a join keeps state."""
    reading = Reading(sources)
    return any(all(reading.sides(join)) for join in facts.statement.find_all(exp.Join))


def _reads(statement: exp.Query) -> Iterator[ReadName]:
    for table in statement.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and definition(table) is None:
            first = next(part for part in table.parts)
            yield ReadName(".".join(part.name for part in table.parts), *beginning(first.meta))


def _groups(statement: exp.Query, follows: Callable[[exp.Expr], bool]) -> Iterator[str]:
    yield from ("GROUP BY" for node in statement.find_all(exp.Group) if follows(node))
    yield from ("DISTINCT" for node in statement.find_all(exp.Distinct) if follows(node))
    for union in statement.find_all(exp.SetOperation):
        if (not isinstance(union, exp.Union) or union.args.get("distinct")) and follows(union):
            yield union.key.upper()
    for function in statement.find_all(exp.AggFunc):
        if function.find_ancestor(exp.Window) is None and follows(function):
            yield function.sql_name().lower() + "()"


def _fans_out(statement: exp.Query, follows: Callable[[exp.Expr], bool]) -> Iterator[str]:
    yield from ("LATERAL VIEW" for node in statement.find_all(exp.Lateral) if follows(node))
    for table in statement.find_all(exp.Table):
        if isinstance(table.this, exp.Func) and follows(table):  # JOIN range(3)
            yield table.this.name.lower() + "()"
    yield from (name for node, name in _generators(statement) if follows(node))


def generator(part: exp.Expr) -> str | None:
    """The first generator function in it; None without one."""
    return next((name for _, name in _generators(part)), None)


def _generators(part: exp.Expr) -> Iterator[tuple[exp.Expr, str]]:
    for function in part.find_all(exp.UDTF, exp.Anonymous):
        if isinstance(function, exp.Anonymous):
            if function.name.lower() in _GENERATORS:
                yield function, function.name.lower() + "()"
        elif not isinstance(function, exp.Subquery | exp.Values | exp.Lateral):
            yield function, function.key.lower() + "()"


def retained_columns(statement: exp.Query, relations: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The columns of `relations` (name -> columns of interest) that are in the result of the SELECT by name."""
    scope = {name.lower(): frozenset(c.lower() for c in columns) for name, columns in relations.items()}
    return _retained(statement, scope)


def _retained(query: exp.Expr, scope: Mapping[str, frozenset[str]]) -> frozenset[str]:
    inner = dict(scope)
    with_ = query.args.get("with_") or query.args.get("with")
    for cte in with_.expressions if with_ else ():
        inner[cte.alias_or_name.lower()] = _retained(cte.this, inner)
    if isinstance(query, exp.Subquery):
        return _retained(query.this, inner)
    if isinstance(query, exp.SetOperation):
        return _retained(query.left, inner) & _retained(query.right, inner)
    if not isinstance(query, exp.Select):
        return frozenset()
    visible = _visible(query, inner)
    everything = frozenset[str]().union(*visible.values())
    columns: set[str] = set()
    for item in query.expressions:
        if isinstance(item, exp.Star):
            columns |= everything - _excepted(item)
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            columns |= visible.get(item.table.lower(), frozenset()) - _excepted(item.this)
        else:
            column = item.unalias()
            name = item.alias_or_name.lower()
            if isinstance(column, exp.Column) and column.name.lower() == name and name in everything:
                columns.add(name)
    return frozenset(columns)


def _visible(query: exp.Select, scope: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    from_ = query.args.get("from_") or query.args.get("from")
    relations = [from_.this] if from_ else []
    relations += [join.this for join in query.args.get("joins") or ()]
    visible: dict[str, frozenset[str]] = {}
    for relation in relations:
        name = relation.alias_or_name.lower()
        if isinstance(relation, exp.Table):
            visible[name] = scope.get(relation.name.lower(), frozenset())
        else:
            visible[name] = _retained(relation, scope)
    return visible


def _excepted(star: exp.Expr) -> frozenset[str]:
    dropped = star.args.get("except_") or star.args.get("except") or ()
    return frozenset(column.name.lower() for column in dropped)


def pretty(text: str) -> str:
    """The SQL in canonical form, so that a change of layout makes no difference."""
    return parse_select(text).sql(dialect=DIALECT, comments=False)
