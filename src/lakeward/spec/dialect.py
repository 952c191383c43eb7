"""What sqlglot reads and Spark does not: found in the tokens, where it still has a place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

Place = tuple[int | None, int | None]
"""1-based line and column of the text; None where it is not known."""

_PLACEHOLDERS = (TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.L_BRACE, TokenType.COLON)
_NO_ITEM_BEGINS = (TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY,
                   TokenType.LIMIT, TokenType.R_PAREN, TokenType.COMMA)  # fmt: skip
_ABSENT = {
    "EXCLUDE": "Spark has no EXCLUDE; write SELECT * EXCEPT (column)",
    "REPLACE": "Spark has no SELECT * REPLACE; write SELECT * EXCEPT (column), expression AS column",
    "RENAME": "Spark has no SELECT * RENAME; write SELECT * EXCEPT (old), old AS new",
}
_TYPES = ("BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG", "FLOAT", "REAL",
          "DOUBLE", "DECIMAL", "DEC", "NUMERIC", "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_LTZ",
          "TIMESTAMP_NTZ", "ARRAY", "MAP", "STRUCT")  # fmt: skip
_VALID_TYPES = ("valid: BOOLEAN, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, BINARY, DATE, TIMESTAMP, "
                "TIMESTAMP_NTZ, ARRAY<type>, MAP<type, type>, STRUCT<name: type>")  # fmt: skip
_AFTER_A_TYPE = (TokenType.COMMA, TokenType.R_PAREN, TokenType.GT, TokenType.L_PAREN, TokenType.LT, TokenType.NOT,
                 TokenType.COMMENT)  # fmt: skip
_INSIDE = {exp.DataType.Type.ARRAY: 1, exp.DataType.Type.MAP: 2}
_MOST_DIGITS = 38
_SHORT = re.compile(r"[0-9]{1,3}")


def beyond_spark(statement: exp.Expr, tokens: Sequence[Token]) -> tuple[str, Place] | None:
    """The first thing in a SELECT that Spark does not know, or nobody here fills in."""
    if statement.find(exp.Placeholder, exp.Parameter):
        first = next((token for token in tokens if token.token_type in _PLACEHOLDERS), None)
        return "nothing fills in placeholders (?, :x, ${x}, {{ x }}); write the value itself", _place(first)
    changed = any(any(star.args.values()) for star in statement.find_all(exp.Star))
    for token, following in pairwise(tokens):
        if token.token_type is TokenType.COMMA and following.token_type in _NO_ITEM_BEGINS:
            return f"a comma with nothing behind it, before {following.text!r}", _place(token)
        if changed and token.token_type is TokenType.STAR and following.text.upper() in _ABSENT:
            return _ABSENT[following.text.upper()], _place(following)
        if following.token_type is TokenType.QUALIFY:
            return "Spark has no QUALIFY; filter in a SELECT around this one", _place(following)
    if tokens and tokens[-1].token_type is TokenType.COMMA:
        return "a comma with nothing behind it, at the end", _place(tokens[-1])
    if any(not select.expressions for select in statement.find_all(exp.Select)):
        return "a SELECT without columns; write SELECT * for all of them", (None, None)
    if tokens and tokens[0].token_type is TokenType.FROM:
        return "this begins with FROM; write SELECT * FROM ..", _place(tokens[0])
    return None


def beyond_types(schema: exp.Expr, tokens: Sequence[Token]) -> tuple[str, Place] | None:
    """The first thing in a list of columns that a source's rows cannot have: a type by another database's name,
    parameters out of their range, a DEFAULT."""
    for constraint in schema.find_all(exp.ColumnConstraint):
        if not isinstance(constraint.kind, exp.NotNullColumnConstraint | exp.CommentColumnConstraint):
            column = constraint.find_ancestor(exp.ColumnDef)
            name = column.name if column else ""
            return f"column {name} has more than a name and a type; only NOT NULL and COMMENT may follow", (None, None)
    for token, following in pairwise(tokens):
        word = token.text[:1].isalpha() and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
        if following.token_type is TokenType.L_BRACKET:
            return f"Spark writes a list as ARRAY<type>; {_VALID_TYPES}", _place(token)
        typed = word and following.token_type in _AFTER_A_TYPE and token.token_type is not TokenType.NULL
        if typed and token.text.upper() not in _TYPES:
            return f"{token.text} is no type here; {_VALID_TYPES}", _place(token)
    return next(((what, (None, None)) for what in _parameters(schema)), None)


def _parameters(schema: exp.Expr) -> Iterator[str]:
    for kind in schema.find_all(exp.DataType):
        inside = kind.expressions
        if kind.this is exp.DataType.Type.DECIMAL:
            digits = [int(each.name) if _SHORT.fullmatch(each.name) else _MOST_DIGITS + 1 for each in inside]
            if digits and not (len(digits) <= 2 and 1 <= digits[0] <= _MOST_DIGITS and max(digits) == digits[0]):
                yield f"{_sql(kind)}: DECIMAL(p, s) has 1 to {_MOST_DIGITS} digits, and s of them at most p"
        elif kind.this is exp.DataType.Type.STRUCT:
            if not inside or not all(isinstance(each, exp.ColumnDef) and each.args.get("kind") for each in inside):
                yield f"{_sql(kind)}: the fields of a STRUCT have names and types: STRUCT<name: type, ..>"
        elif len(inside) != _INSIDE.get(kind.this, 0):
            yield f"{_sql(kind)} is no type here; {_VALID_TYPES}"


def _sql(kind: exp.DataType) -> str:
    return kind.sql(dialect="spark")


def _place(token: Token | None) -> Place:
    return (token.line, token.col - len(token.text) + 1) if token is not None else (None, None)
