"""The grammar of a condition: comparisons, IN, BETWEEN, LIKE 'begins%', IS NULL, IS NAN, AND, OR, NOT, parentheses.

Its own reader and not PyIceberg's, which takes no name with a dot or a letter beyond ASCII, reads decimals as floats,
and rounds a number to the column's type: `id = 1.5` would erase the rows of 2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from lakeward.tables.erase.fields import NO_NAMES, PLAIN, Part

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.types import IcebergType

_TOKEN = re.compile(
    rf"""\s*(?:(?P<text>'(?:[^']|'')*')|(?P<quoted>`(?:[^`]|``)+`|"(?:[^"]|"")+")"""
    rf"""|(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w$@]|[^\x00-\x7f\s])"""
    rf"""|(?P<word>{PLAIN})|(?P<sign><=|>=|<>|!=|==|[=<>(),.])|(?P<end>$))"""
)
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SIGNS = ("<", "<=", ">", ">=", "=", "==", "!=", "<>")
_DEEPEST = 100
"""Parentheses within parentheses; what reads the expression afterwards calls itself for each."""
_FORMS = {
    "date": "'2026-03-01'",
    "time": "'12:00:00'",
    "timestamp": "'2026-03-01T12:00:00', without a zone",
    "timestamptz": "'2026-03-01T12:00:00+00:00', with its zone",
    "double": "a number; IS NAN finds the values that are none",
    "float": "a number; IS NAN finds the values that are none",
}
_DIGITS = Context(prec=100)
"""More digits than a DECIMAL has: nothing is rounded."""


class NotACondition(ValueError):
    """Raised with the reason; it quotes no value of the condition."""


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def read(text: str, resolve: Callable[[Sequence[Part]], tuple[str, IcebergType]]) -> BooleanExpression:
    """The expression of a condition.

    Args:
        resolve: the parts of a name -> the name in the expression, and the type of the column.

    Raises:
        NotACondition: it cannot be read, or a value does not fit the type of its column.
    """
    return _Reader(text, resolve).whole()


class _Reader:
    def __init__(self, text: str, resolve: Callable[[Sequence[Part]], tuple[str, IcebergType]]) -> None:
        self.tokens = _tokens(text)
        self.at = 0
        self.depth = 0
        self.resolve = resolve

    def whole(self) -> BooleanExpression:
        found = self._any()
        if self._next.kind != "end":
            raise self._unread()
        return found

    @property
    def _next(self) -> _Token:
        return self.tokens[self.at]

    def _take(self, *texts: str) -> str:
        """The next token's text in lower case if it is one of these words or signs, else nothing."""
        token = self._next
        if token.kind in ("word", "sign") and token.text.lower() in texts:
            self.at += 1
            return token.text.lower()
        return ""

    def _need(self, *texts: str) -> str:
        found = self._take(*texts)
        if not found:
            raise self._unread()
        return found

    def _unread(self) -> NotACondition:
        return NotACondition(f"it cannot be parsed from character {self._next.at + 1} on")

    def _any(self) -> BooleanExpression:
        from pyiceberg.expressions import Or

        found = [self._all()]
        while self._take("or"):
            found.append(self._all())
        return found[0] if len(found) == 1 else Or(*found)

    def _all(self) -> BooleanExpression:
        from pyiceberg.expressions import And

        found = [self._one()]
        while self._take("and"):
            found.append(self._one())
        return found[0] if len(found) == 1 else And(*found)

    def _one(self) -> BooleanExpression:
        from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, Not

        self.depth += 1
        if self.depth > _DEEPEST:
            raise NotACondition(f"it is nested more than {_DEEPEST} deep")
        try:
            if self._take("not"):
                return Not(self._one())
            if self._take("("):
                found = self._any()
                self._need(")")
                return found
            if self._next.kind == "word" and self.tokens[self.at + 1].text not in _SIGNS:
                if self._take("true"):
                    return AlwaysTrue()
                if self._take("false"):
                    return AlwaysFalse()
            return self._predicate()
        finally:
            self.depth -= 1

    def _predicate(self) -> BooleanExpression:
        if self._is_value():
            value = self._value()
            sign = self._need(*_SIGNS)
            name, kind = self._column()
            return _compared(_TURNED.get(sign, sign), name, kind, fit(value, kind))
        name, kind = self._column()
        if sign := self._take(*_SIGNS):
            return _compared(sign, name, kind, fit(self._value(), kind))
        if self._take("is"):
            return self._is(name)
        return self._negatable(name, kind, bool(self._take("not")))

    def _is(self, name: str) -> BooleanExpression:
        from pyiceberg.expressions import IsNaN, IsNull, NotNaN, NotNull

        negated = bool(self._take("not"))
        if self._need("null", "nan") == "null":
            return NotNull(term=name) if negated else IsNull(term=name)
        return NotNaN(term=name) if negated else IsNaN(term=name)

    def _negatable(self, name: str, kind: IcebergType, negated: bool) -> BooleanExpression:
        """IN, LIKE and BETWEEN, each also after NOT."""
        from pyiceberg.expressions import And, In, Not, NotIn

        word = self._need("in", "like", "between")
        if word == "between":
            low = fit(self._value(), kind)
            self._need("and")
            high = fit(self._value(), kind)
            found: BooleanExpression = And(_compared(">=", name, kind, low), _compared("<=", name, kind, high))
            return Not(found) if negated else found
        if word == "like":
            found = _like(name, kind, self._value())
            return Not(found) if negated else found
        self._need("(")
        values = [fit(self._value(), kind)]
        while self._take(","):
            values.append(fit(self._value(), kind))
        self._need(")")
        return NotIn(term=name, literals=values) if negated else In(term=name, literals=values)

    def _column(self) -> tuple[str, IcebergType]:
        parts = [self._part()]
        while self._take("."):
            parts.append(self._part())
        return self.resolve(parts)

    def _part(self) -> Part:
        token = self._next
        if token.kind == "quoted":
            mark = token.text[0]
            self.at += 1
            return token.text[1:-1].replace(mark * 2, mark), True
        if token.kind != "word" or token.text.lower() in NO_NAMES:
            raise self._unread()
        self.at += 1
        return token.text, False

    def _is_value(self) -> bool:
        boolean = self._next.kind == "word" and self._next.text.lower() in ("true", "false")
        return boolean or self._next.kind in ("text", "number")

    def _value(self) -> str | int | Decimal | bool:
        if not self._is_value():
            raise self._unread()
        token = self._next
        self.at += 1
        if token.kind == "text":
            return token.text[1:-1].replace("''", "'")
        if token.kind == "word":
            return token.text.lower() == "true"
        return int(token.text) if re.fullmatch(r"[+-]?\d+", token.text) else Decimal(token.text)


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while not tokens or tokens[-1].kind != "end":
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise NotACondition(f"it cannot be parsed from character {at + 1} on")
        tokens.append(_Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup)))
        at = found.end()
    return tokens


def _compared(sign: str, name: str, kind: IcebergType, value: Any) -> BooleanExpression:
    """A comparison. NaN is above every number, as in Spark; bounds of files leave it out, so the condition names it."""
    from pyiceberg.expressions import (
        And,
        EqualTo,
        GreaterThan,
        GreaterThanOrEqual,
        IsNaN,
        LessThan,
        LessThanOrEqual,
        NotEqualTo,
        NotNaN,
        Or,
    )  # fmt: skip
    from pyiceberg.types import DoubleType, FloatType

    kinds: dict[str, Any] = {
        "<": LessThan, "<=": LessThanOrEqual, ">": GreaterThan, ">=": GreaterThanOrEqual,
        "=": EqualTo, "==": EqualTo, "!=": NotEqualTo, "<>": NotEqualTo,
    }  # fmt: skip
    found: BooleanExpression = kinds[sign](term=name, value=value)
    if not isinstance(kind, FloatType | DoubleType):
        return found
    if sign in (">", ">="):
        return Or(found, IsNaN(term=name))
    return And(found, NotNaN(term=name)) if sign in ("<", "<=") else found


def _like(name: str, kind: IcebergType, value: Any) -> BooleanExpression:
    from pyiceberg.expressions import EqualTo, StartsWith
    from pyiceberg.types import StringType

    if not isinstance(value, str) or not isinstance(kind, StringType):
        raise NotACondition(f"LIKE compares a text column with a text, not {kind}")
    begins = value.endswith("%") and not value.endswith("\\%")
    rest = value[:-1] if begins else value
    if re.search(r"(?<!\\)[%_]", rest):
        raise NotACondition("LIKE takes % at the end only, and no _; \\% and \\_ are the characters themselves")
    rest = re.sub(r"\\([%_])", r"\1", rest)
    return StartsWith(term=name, value=rest) if begins else EqualTo(term=name, value=rest)


def fit(value: Any, kind: IcebergType) -> Any:
    """A value (text, whole number, decimal or boolean) as a literal of exactly the column's type.

    Raises:
        NotACondition: it is none; the value itself is not named.
    """
    from pyiceberg.expressions.literals import literal
    from pyiceberg.types import (
        BooleanType,
        DecimalType,
        IntegerType,
        LongType,
        TimestampType,
        TimestamptzType,
        UUIDType,
    )  # fmt: skip

    if not kind.is_primitive:
        raise NotACondition(f"{_words(kind)} is compared with nothing; a field of a struct is named with a dot")
    if isinstance(value, bool) and not isinstance(kind, BooleanType):
        raise NotACondition(f"true and false are no values of {kind}")
    try:
        if isinstance(kind, IntegerType | LongType | DecimalType):
            scale = kind.scale if isinstance(kind, DecimalType) else 0
            number = Decimal(value)
            exact = number.quantize(Decimal(1).scaleb(-scale), context=_DIGITS)
            most = Decimal(10) ** (kind.precision - scale) - 1 if isinstance(kind, DecimalType) else kind.max
            least = -most - 1 if isinstance(kind, DecimalType) else kind.min
            if exact != number or not least <= number < most + 1:
                raise ValueError(kind)
            return literal(exact if isinstance(kind, DecimalType) else int(exact))
        if isinstance(kind, UUIDType):
            return literal(str(UUID(value)))
        if isinstance(kind, TimestampType | TimestamptzType) and isinstance(value, str):
            value = re.sub(r"[Zz]$", "+00:00", re.sub(r"^([\d-]{10}) ", r"\1T", value))
        literal(value).to(kind)
        return literal(value)
    except (TypeError, ValueError, ArithmeticError, AttributeError):
        form = _FORMS.get(str(kind))
        raise NotACondition(
            f"a value is not exactly one of type {kind}" + (f" (one is written as {form})" if form else "")
        ) from None


def _words(kind: IcebergType) -> str:
    return "a struct" if kind.is_struct else "a list or a map"
