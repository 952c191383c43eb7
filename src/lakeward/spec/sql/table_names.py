"""Table names in a SELECT: resolution through WITH, and the tables on both sides of a JOIN."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sqlglot import exp


def definition(table: exp.Table) -> exp.CTE | None:
    """The WITH entry that a name in FROM refers to; None for a table outside of the statement.

    An entry does not see itself or later ones: `WITH s AS (SELECT * FROM s) ..` reads the outer s.
    """
    if table.args.get("db") or not isinstance(table.this, exp.Identifier):
        return None
    node: exp.Expr | None = table
    while node is not None and (above := node.parent) is not None:
        if isinstance(above, exp.With):
            every = above.expressions
            seen = every if above.args.get("recursive") else every[: _index(every, node)]
            node = above.parent
        else:
            with_ = above.args.get("with_")
            seen = with_.expressions if with_ else []
            node = above
        for entry in reversed(seen):
            if isinstance(entry, exp.CTE) and entry.alias_or_name.lower() == table.name.lower():
                return entry
    return None


class Reading:
    """Counts how often parts of one statement read some tables."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = {name.lower() for name in names}
        self.known: dict[int, int] = {}

    def times(self, part: exp.Expr) -> int:
        """How often `part` reads one of the tables, also through WITH: 0, 1, or 2 for more.

        If more than once, a record may be in the result more than once, whatever the conditions are.
        """
        around = part if isinstance(part, exp.CTE) else part.find_ancestor(exp.CTE)
        return self._sum(table for table in part.find_all(exp.Table) if table.find_ancestor(exp.CTE) is around)

    def sides(self, join: exp.Join) -> tuple[bool, bool]:
        """Whether the left side of a JOIN reads one of the tables, and whether the right side does."""
        return any(self.beside(join, relation) for relation in before(join)), self.times(join.this) > 0

    def beside(self, join: exp.Join, part: exp.Expr) -> bool:
        """Whether one relation on the left side of a JOIN reads one of the tables."""
        if isinstance(part, exp.Table) and part is join.parent:  # in (a JOIN b) the JOIN is a child of a
            return self._times(part) > 0
        return self.times(part) > 0

    def _sum(self, tables: Iterable[exp.Table]) -> int:
        return min(2, sum(map(self._times, tables)))

    def _times(self, table: exp.Table) -> int:
        entry = definition(table)
        if entry is None:
            return int(table.name.lower() in self.names and not table.args.get("db"))
        if id(entry) not in self.known:
            self.known[id(entry)] = 0  # a WITH that reads itself ends here
            self.known[id(entry)] = self.times(entry)
        return self.known[id(entry)]


def before(join: exp.Join) -> list[exp.Expr]:
    """The relations before a JOIN in its FROM, in order."""
    above = join.parent
    joins: list[exp.Join] = (above.args.get("joins") or []) if above else []
    from_ = above.args.get("from_") if isinstance(above, exp.Select) else None
    first = from_.this if from_ else above.this if isinstance(above, exp.Subquery) else above
    relations = (first, *(earlier.this for earlier in joins[: _index(joins, join)]))
    return [relation for relation in relations if relation is not None]


def _index(nodes: Sequence[exp.Expr], node: exp.Expr) -> int:
    return next((index for index, other in enumerate(nodes) if other is node), 0)  # by identity, not by equality
