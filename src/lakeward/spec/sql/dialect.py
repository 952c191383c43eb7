"""Syntax that sqlglot accepts and Spark does not, found in the tokens, which have positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

Place = tuple[int | None, int | None]
"""1-based line and column in the text; None if unknown."""

_PLACEHOLDERS = (TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.L_BRACE, TokenType.COLON)
_NO_ITEM_BEGINS = (TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY,
                   TokenType.LIMIT, TokenType.R_PAREN, TokenType.COMMA)  # fmt: skip
_ABSENT = {
    "EXCLUDE": "Spark has no EXCLUDE; write SELECT * EXCEPT (column)",
    "REPLACE": "Spark has no SELECT * REPLACE; write SELECT * EXCEPT (column), expression AS column",
    "RENAME": "Spark has no SELECT * RENAME; write SELECT * EXCEPT (old), old AS new",
}


def beyond_spark(statement: exp.Expr, tokens: Sequence[Token]) -> tuple[str, Place] | None:
    """The first syntax in a SELECT that Spark does not support, or the first unfilled parameter."""
    if statement.find(exp.Placeholder, exp.Parameter):
        first = next((token for token in tokens if token.token_type in _PLACEHOLDERS), None)
        return "placeholders (?, :x, ${x}, {{ x }}) are not supported; write the value itself", _place(first)
    changed = any(any(star.args.values()) for star in statement.find_all(exp.Star))
    for token, following in pairwise(tokens):
        if token.token_type is TokenType.COMMA and following.token_type in _NO_ITEM_BEGINS:
            return f"a trailing comma, before {following.text!r}", _place(token)
        if changed and token.token_type is TokenType.STAR and following.text.upper() in _ABSENT:
            return _ABSENT[following.text.upper()], _place(following)
        if following.token_type is TokenType.QUALIFY:
            return "Spark has no QUALIFY; filter in a SELECT around this one", _place(following)
    if tokens and tokens[-1].token_type is TokenType.COMMA:
        return "a trailing comma, at the end", _place(tokens[-1])
    if any(not select.expressions for select in statement.find_all(exp.Select)):
        return "a SELECT without columns; write SELECT * for all of them", (None, None)
    if tokens and tokens[0].token_type is TokenType.FROM:
        return "this starts with FROM; write SELECT * FROM ..", _place(tokens[0])
    return None


def beginning(meta: Mapping[str, Any]) -> Place:
    """The start of a sqlglot node, which has the line and column of its last character."""
    if "col" not in meta:
        return None, None
    return meta["line"], max(1, meta["col"] - (meta["end"] - meta["start"]))


def keyword(
    tokens: Sequence[Token], kind: TokenType, *, before: exp.Expr | None = None, after: exp.Expr | None = None
) -> Place:
    """The position of a clause's keyword, `before` or `after` another part of the statement.

    sqlglot has positions of names and literals only: the keyword is the nearest of its kind.
    """
    first, last = min(_starts(before), default=None), max(_starts(after), default=None)
    matching = [token for token in tokens if token.token_type is kind
             and (first is None or token.start < first) and (last is None or token.start > last)]  # fmt: skip
    if not matching:
        return None, None
    return _place(matching[-1] if first is not None else matching[0])


def _starts(node: exp.Expr | None) -> list[int]:
    return [part.meta["start"] for part in node.walk() if "start" in part.meta] if node is not None else []


def _place(token: Token | None) -> Place:
    if token is None:
        return None, None
    return token.line, max(1, token.col - (token.end - token.start))
