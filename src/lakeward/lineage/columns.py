"""Column lineage of a stream: which column of a source each column of the sink is made from. Pure.

It is read from the SQL text with sqlglot. What cannot be read with certainty (Python transforms, `*` over a source with
columns that only Spark knows) has no column lineage: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import Node, lineage
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import build_scope

from lakeward.spec.model.position_columns import OWN_COLUMNS
from lakeward.spec.model.sources import Source
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.ddl import ddl_columns
from lakeward.spec.sql.statements import DIALECT


@dataclass(frozen=True)
class Origin:
    """One column that another is made from: the name of the source or reference in the SQL, and its column."""

    relation: str
    column: str


@dataclass(frozen=True)
class ColumnLineage:
    """Columns of the result, in order -> what they are made from, and whether they are that column unchanged."""

    columns: dict[str, tuple[Origin, ...]]
    unchanged: frozenset[str]


def source_columns(source: Source) -> dict[str, str] | None:
    """The columns of a source with their Spark types; None if only Spark knows them."""
    if source.declared_columns is None:
        return None
    return ddl_columns(source.declared_columns) | {name: OWN_COLUMNS[name] for name in source.added_columns}


def of_stream(spec: StreamSpec) -> ColumnLineage | None:
    """The column lineage of a stream's SQL; None where it cannot be read with certainty."""
    if spec.transform.sql is None:
        return None
    schema: dict[str, dict[str, str] | None] = {name: source_columns(item) for name, item in spec.sources.items()}
    for name, reference in spec.reference.items():
        schema[name] = ddl_columns(str(reference.columns)) if reference.columns is not None else None
    known = tuple((name, tuple(columns.items())) for name, columns in schema.items() if columns is not None)
    return _of_sql(str(spec.transform.sql), known, tuple(name for name, columns in schema.items() if columns is None))


@lru_cache(maxsize=256)  # a generation's SQL never changes, and every event needs it
def _of_sql(
    text: str, known: tuple[tuple[str, tuple[tuple[str, str], ...]], ...], unknown: tuple[str, ...]
) -> ColumnLineage | None:
    schema: dict[str, object] = {name: dict(columns) for name, columns in known}
    try:
        parsed = sqlglot.parse_one(text, dialect=DIALECT)
        if unknown and _reads_all_of(parsed, frozenset(name.lower() for name in unknown)):
            return None
        written = [item.alias_or_name for item in parsed.selects] if isinstance(parsed, exp.Query) else []
        statement = qualify(parsed, schema=schema, dialect=DIALECT, validate_qualify_columns=False)
        if not isinstance(statement, exp.Query) or any(not column.table for column in statement.find_all(exp.Column)):
            return None
        scope = build_scope(statement)
        nodes = {
            name: lineage(name, statement, schema=schema, dialect=DIALECT, scope=scope)
            for name in statement.named_selects
        }
    except (SqlglotError, ValueError, RecursionError):
        return None
    if "*" in nodes or not nodes:
        return None
    spelling = _Spelling.of([*(name for name, _ in known), *unknown], known, written)
    return ColumnLineage(
        {spelling.result(name): spelling.origins(node) for name, node in nodes.items()},
        frozenset(spelling.result(name) for name, node in nodes.items() if _unchanged(node)),
    )


@dataclass(frozen=True)
class _Spelling:
    """Names as people wrote them: sqlglot makes names lower case, as Spark compares them.

    Attributes:
        relations: lower case -> name of a source or reference.
        columns: (relation, lower case) -> declared column.
        results: lower case -> column of the result.
    """

    relations: Mapping[str, str]
    columns: Mapping[tuple[str, str], str]
    results: Mapping[str, str]

    @classmethod
    def of(
        cls, relations: Sequence[str], known: Sequence[tuple[str, Sequence[tuple[str, str]]]], written: Sequence[str]
    ) -> _Spelling:
        columns = {(name, column.lower()): column for name, declared in known for column, _ in declared}
        declared = {lower: column for (_, lower), column in columns.items()}
        return cls(
            {name.lower(): name for name in relations}, columns, declared | {name.lower(): name for name in written}
        )

    def result(self, name: str) -> str:
        return self.results.get(name.lower(), name)

    def origins(self, node: Node) -> tuple[Origin, ...]:
        origins = []
        for leaf in node.walk():
            if leaf.downstream or not isinstance(leaf.source, exp.Table) or not leaf.name:
                continue
            relation = self.relations.get(leaf.source.name.lower(), leaf.source.name)
            column = exp.to_column(leaf.name, dialect=DIALECT).name
            origins.append(Origin(relation, self.columns.get((relation, column.lower()), column)))
        return tuple(sorted(dict.fromkeys(origins), key=lambda origin: (origin.relation, origin.column)))


def _reads_all_of(statement: exp.Expr, relations: frozenset[str]) -> bool:
    """Whether the SQL has a `*` and reads a relation with unknown columns: what the star adds is not known."""
    stars = any(not isinstance(star.parent, exp.Count) for star in statement.find_all(exp.Star))
    return stars and any(table.name.lower() in relations for table in statement.find_all(exp.Table))


def _unchanged(node: Node) -> bool:
    """Whether every step from the result to the source only passes a column on."""
    steps = [step for step in node.walk() if step.downstream]
    return bool(steps) and all(
        len(step.downstream) == 1 and isinstance(_expression(step.expression), exp.Column) for step in steps
    )


def _expression(node: exp.Expr) -> exp.Expr:
    return node.unalias()
