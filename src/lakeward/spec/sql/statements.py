"""SQL statements: parsing of a user's SQL, and the only place where Lakeward quotes an identifier.

This module runs no SQL. It parses with sqlglot's Spark dialect: syntax errors, names read, grouping. What only Spark
knows (types, functions) is checked by `config validate --deep`.

sqlglot is imported when something is parsed: it costs 0.4 CPU-s, and most processes that import this module (every
Airflow task) only quote names or make models.
"""

from __future__ import annotations

import logging
import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field

from lakeward.spec.sql.names import name_parts

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError
    from sqlglot.tokenizer_core import Token

    from lakeward.spec.sql.dialect import Place

DIALECT = "spark"
logging.getLogger("sqlglot").setLevel(logging.ERROR)  # its warnings are reported as problems of the spec
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SqlProblem(ValueError):
    """Raised for invalid SQL.

    Attributes:
        line, column: 1-based position inside the SQL text; None if unknown.
    """

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


def quote(identifier: str) -> str:
    """One identifier, quoted for Spark SQL. Names must enter SQL text only through this function.

    Raises:
        ValueError: the name is empty or contains a NUL character; they cannot be quoted.
    """
    if not identifier or "\x00" in identifier:
        raise ValueError(f"not an identifier: {identifier!r}")
    return "`" + identifier.replace("`", "``") + "`"


def quote_table(table: str, catalog: str | None = None) -> str:
    """A name (see `names`), quoted part by part, with the catalog in front if given.

    Raises:
        ValueError: it is not a name.
    """
    return ".".join(quote(part) for part in (*([catalog] if catalog else []), *name_parts(table)))


def call_name(table: str, catalog: str = "") -> str:
    """A table as people and procedures write it, with the catalog in front if given: parts that are no plain word are
    quoted."""
    return ".".join(
        part if _WORD.fullmatch(part) and part.upper() not in _spark().tokenizer_class.KEYWORDS else quote(part)
        for part in (*([catalog] if catalog else []), *name_parts(table))
    )


def argument(table: str) -> str:
    """A table as the literal that a procedure of Iceberg takes: `'nyc.flights'`."""
    return quote_text(call_name(table))


def quote_text(text: str) -> str:
    """A string literal, for statements that accept no bound value (`CALL`, table properties)."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@cache
def _spark() -> Dialect:
    from sqlglot.dialects.dialect import Dialect

    return Dialect.get_or_raise(DIALECT)


def statements(text: str) -> list[exp.Expr]:
    """The statements in `text`; a comment after the last semicolon does not count.

    Raises:
        SqlProblem: it does not parse.
    """
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        parsed = _spark().parser().parse(spark_tokens(text), text)
    except SqlglotError as error:
        raise _problem(error) from None
    except RecursionError:
        raise SqlProblem("this SQL is nested too deeply to read") from None
    return [statement for statement in parsed if statement is not None and not isinstance(statement, exp.Semicolon)]


def parse(text: str) -> exp.Expr:
    """The one statement in `text`.

    Raises:
        SqlProblem: it does not parse, is empty, or is more than one statement.
    """
    from sqlglot import exp

    parsed = statements(text)
    if len(parsed) != 1:
        raise SqlProblem("there is no statement" if not parsed else "more than one statement; a spec has one")
    if isinstance(parsed[0], exp.Command):
        raise SqlProblem(f"this is not a SELECT: it starts with {text.split()[0].upper()}", 1, 1)
    return parsed[0]


def spark_tokens(text: str) -> list[Token]:
    """The tokens of `text`, with `window(` as the function it is in Spark.

    sqlglot 30 reads `... GROUP BY window(t, '1 hour')` as the start of a WINDOW clause.
    """
    from sqlglot.tokenizer_core import Token, TokenType

    tokens = list(_spark().tokenize(text))
    for index, (token, following) in enumerate(pairwise(tokens)):
        if token.token_type is TokenType.WINDOW and following.token_type is TokenType.L_PAREN:
            tokens[index] = Token(
                TokenType.VAR, token.text, token.line, token.col, token.start, token.end, token.comments
            )
    return tokens


def parse_select(text: str, what: str = "a transform") -> exp.Query:
    """The one SELECT in `text` (a WITH or a UNION of SELECTs is one too).

    Raises:
        SqlProblem: it does not parse, or is not a SELECT.
    """
    from sqlglot import exp

    from lakeward.spec.sql.dialect import beyond_spark

    statement = parse(text)
    if not isinstance(statement, exp.Query):
        raise SqlProblem(f"{what} is one SELECT, this is {statement.key.upper()}", 1, 1)
    _raise_if(beyond_spark(statement, spark_tokens(text)))
    return statement


def _raise_if(offence: tuple[str, Place] | None) -> None:
    if offence is not None:
        raise SqlProblem(offence[0], *offence[1])


def parse_expression(text: str) -> exp.Expr:
    """A scalar or boolean expression, e.g. a rule.

    Raises:
        SqlProblem: it does not parse, or is a whole statement.
    """
    from sqlglot import exp

    from lakeward.spec.sql.dialect import beyond_spark

    prefix = "SELECT ("
    wrapped = f"{prefix}{text}\n)"
    try:
        statement = parse(wrapped)
        _raise_if(beyond_spark(statement, spark_tokens(wrapped)))
    except SqlProblem as error:
        raise _inside(error, prefix, text) from None
    inner = statement.find(exp.Paren)
    shaped = isinstance(statement, exp.Select) and len(statement.expressions) == 1 and not statement.args.get("from_")
    if not shaped or inner is None or statement.expressions[0] is not inner or isinstance(inner.this, exp.Alias):
        raise SqlProblem("this is not one SQL expression")
    expression: exp.Expr = inner.this
    return expression


def _inside(error: SqlProblem, prefix: str, text: str) -> SqlProblem:
    """The problem of a wrapped text (prefix, text, newline, bracket), with positions in the text itself."""
    if error.line is not None and error.line > text.count("\n") + 1:
        return SqlProblem("this is not SQL: something is missing at the end")
    if error.line == 1 and error.column is not None:
        column = error.column - len(prefix)
        return SqlProblem(str(error), 1, column) if column > 0 else SqlProblem(str(error))
    return SqlProblem(str(error), error.line, error.column)


def _problem(error: SqlglotError) -> SqlProblem:
    details: list[dict[str, Any]] = getattr(error, "errors", None) or []
    if not details:  # the tokenizer gives no position; an unclosed quote or comment is handled here
        return SqlProblem("this is not SQL: a quote or a comment is never closed")
    first = details[0]
    near = (first.get("highlight") or "").strip()
    description = str(first.get("description") or "")
    near = near or "the end"
    if description.startswith("Expecting"):
        what = f"expected {description.removeprefix('Expecting').strip()} before {near!r}"
    elif description.startswith("Required keyword"):
        what = f"something is missing before {near!r}"
    else:
        what = f"unexpected {near!r}"
    line, column = first.get("line"), first.get("col")
    if line and column:
        column = max(1, column - max(len(near) - 1, 0))  # sqlglot points at the last character of the token
    return SqlProblem(f"this is not SQL: {what}", line, column)


def _check_expression(text: str) -> str:
    parse_expression(text)
    return text


Expression = Annotated[str, AfterValidator(_check_expression), Field(min_length=1)]
"""A Spark SQL expression, checked when the spec is read."""
