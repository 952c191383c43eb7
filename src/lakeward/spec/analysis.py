"""What a transform's SQL does to rows, read from its text alone: names read, grouping, fan-out, columns kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from lakeward.spec.sql import DIALECT, parse_select

_GENERATORS = {"inline_outer", "variant_explode", "variant_explode_outer"}
"""Functions that make several rows of one and that sqlglot does not know for it."""


@dataclass(frozen=True)
class ReadName:
    """A table name the SQL reads, with its 1-based position in the text."""

    name: str
    line: int | None
    column: int | None


@dataclass(frozen=True)
class SqlFacts:
    """What the text of a SELECT says.

    Attributes:
        reads: names in FROM and JOIN that are not defined by a WITH of the same text.
        groups: why rows do not stay rows (`GROUP BY`, `DISTINCT`, an aggregate); None when they do.
        fans_out: why one row may become several; None when it cannot be seen.
        statement: the parsed SELECT, for `kept_columns`.
    """

    reads: tuple[ReadName, ...]
    groups: str | None
    fans_out: str | None
    statement: exp.Query


def analyse(text: str) -> SqlFacts:
    """Read `text`.

    Raises:
        SqlProblem: it is not one SELECT.
    """
    statement = parse_select(text)
    defined = {cte.alias_or_name.lower() for cte in statement.find_all(exp.CTE)}
    reads = tuple(read for read in _reads(statement) if read.name.lower() not in defined)
    return SqlFacts(reads, _groups(statement), _fans_out(statement), statement)


def times_read(part: exp.Expr, statement: exp.Query, names: Collection[str]) -> int:
    """How often `part` of the statement reads a table of one of the names, through its WITH too: 0, 1, or 2 and more.

    More than once, and a record may come out more than once, whatever the conditions say.
    """
    sources = {name.lower() for name in names}
    defined = {cte.alias_or_name.lower(): cte for cte in statement.find_all(exp.CTE)}
    known: dict[str, int] = {}

    def count(node: exp.Expr) -> int:
        around = node if isinstance(node, exp.CTE) else node.find_ancestor(exp.CTE)
        return min(2, sum(of(table.name.lower()) for table in node.find_all(exp.Table)
                          if table.find_ancestor(exp.CTE) is around))  # fmt: skip

    def of(name: str) -> int:
        if name in sources:
            return 1
        if name not in known:
            known[name] = 0  # a WITH that reads itself ends here
            known[name] = count(defined[name]) if name in defined else 0
        return known[name]

    return count(part)


def joins_streams(facts: SqlFacts, sources: Collection[str]) -> bool:
    """Whether the SQL joins two of the sources, or one with itself: only then does a join keep state."""
    names = {name.lower() for name in sources}
    streams = [read for read in facts.reads if read.name.lower() in names]
    return len(streams) > 1 and facts.statement.find(exp.Join) is not None


def _reads(statement: exp.Query) -> Iterator[ReadName]:
    for table in statement.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier):
            first = next(part for part in table.parts)
            line, end = first.meta.get("line"), first.meta.get("col")
            column = end - len(first.name) + 1 if end else None  # sqlglot gives the column of a token's last letter
            yield ReadName(".".join(part.name for part in table.parts), line, column)


def _groups(statement: exp.Query) -> str | None:
    if statement.find(exp.Group):
        return "GROUP BY"
    if statement.find(exp.Distinct):
        return "DISTINCT"
    for union in statement.find_all(exp.SetOperation):
        if not isinstance(union, exp.Union) or union.args.get("distinct"):
            return union.key.upper()
    for function in statement.find_all(exp.AggFunc):
        if function.find_ancestor(exp.Window) is None:
            return function.sql_name().lower() + "()"
    return None


def _fans_out(statement: exp.Query) -> str | None:
    if statement.find(exp.Lateral):
        return "LATERAL VIEW"
    for table in statement.find_all(exp.Table):
        if isinstance(table.this, exp.Func):  # JOIN range(3)
            return table.this.name.lower() + "()"
    return generator(statement)


def generator(part: exp.Expr) -> str | None:
    """The first function in it that makes rows; None when there is none."""
    for function in part.find_all(exp.UDTF, exp.Anonymous):
        if isinstance(function, exp.Anonymous):
            if function.name.lower() in _GENERATORS:
                return function.name.lower() + "()"
        elif not isinstance(function, exp.Subquery | exp.Values | exp.Lateral):
            return function.key.lower() + "()"
    return None


def kept_columns(statement: exp.Query, relations: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Which of the columns that `relations` (name -> columns of interest) provide come out of the SELECT by name."""
    scope = {name.lower(): frozenset(c.lower() for c in columns) for name, columns in relations.items()}
    return _kept(statement, scope)


def _kept(query: exp.Expr, scope: Mapping[str, frozenset[str]]) -> frozenset[str]:
    inner = dict(scope)
    with_ = query.args.get("with_") or query.args.get("with")
    for cte in with_.expressions if with_ else ():
        inner[cte.alias_or_name.lower()] = _kept(cte.this, inner)
    if isinstance(query, exp.Subquery):
        return _kept(query.this, inner)
    if isinstance(query, exp.SetOperation):
        return _kept(query.left, inner) & _kept(query.right, inner)
    if not isinstance(query, exp.Select):
        return frozenset()
    visible = _visible(query, inner)
    everything = frozenset[str]().union(*visible.values())
    found: set[str] = set()
    for item in query.expressions:
        if isinstance(item, exp.Star):
            found |= everything - _excepted(item)
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            found |= visible.get(item.table.lower(), frozenset()) - _excepted(item.this)
        else:
            column = item.unalias()
            name = item.alias_or_name.lower()
            if isinstance(column, exp.Column) and column.name.lower() == name and name in everything:
                found.add(name)
    return frozenset(found)


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
            visible[name] = _kept(relation, scope)
    return visible


def _excepted(star: exp.Expr) -> frozenset[str]:
    dropped = star.args.get("except_") or star.args.get("except") or ()
    return frozenset(each.name.lower() for each in dropped)


def pretty(text: str) -> str:
    """The SQL in one canonical form, so that a change of layout is not a change of meaning."""
    return parse_select(text).sql(dialect=DIALECT, comments=False)
