"""The values of a condition in texts: in records that could not be decoded, their keys and headers, and in errors."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

_NUMBER = re.compile(r"(?<![\w.])[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?(?![\w.])")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}(?:\\u[0-9a-fA-F]{4})*|[\"\\/bfnrt])")
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0e-\x1f]")
"""Characters of binary formats, e.g. the magic byte of a schema registry or the length of a field in Avro."""


@dataclass(frozen=True)
class Values:
    """The values that rows of a condition contain, as they are searched for."""

    literals: tuple[Any, ...]

    def found(self, text: str) -> bool:
        """Whether one of them is in a text, with the escapes of JSON or the doubled quotes of CSV too."""
        if any(word.search(spelled) for spelled in _spellings(text) for word in self._words):
            return True
        return bool(self._numbers) and any(Decimal(each[0]) in self._numbers for each in _NUMBER.finditer(text))

    @cached_property
    def _words(self) -> list[re.Pattern[str]]:
        words = {str(each).lower() if isinstance(each, bool) else each for each in self.literals if not _number(each)}
        return [_pattern(each) for each in sorted(words - {""})]

    @cached_property
    def _numbers(self) -> set[Decimal]:
        return {Decimal(each) for each in self.literals if _number(each)}


def _number(literal: Any) -> bool:
    return isinstance(literal, int | Decimal) and not isinstance(literal, bool)


def _pattern(text: str) -> re.Pattern[str]:
    literal = re.escape(text)
    whole = literal if re.search(r"[^\d.-]", text) else rf"(?<![\w.]){literal}(?![\w.])"
    return re.compile(whole, re.IGNORECASE if _UUID.fullmatch(text) else 0)


def _spellings(text: str) -> Iterator[str]:
    yield text
    if "\\" in text:
        yield _ESCAPE.sub(_unescaped, text)
    if '""' in text:
        yield text.replace('""', '"')


def _unescaped(found: re.Match[str]) -> str:
    try:
        return str(json.loads(f'"{found[0]}"'))
    except ValueError:
        return found[0]


def text_of(value: Any) -> str | None:
    """A value of a column as text; None for bytes that are not text. Headers are their names and values, bytes that are
    not text with their printable part."""
    if isinstance(value, bytes):
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return None
        return None if _NO_TEXT.search(text) else text
    if value is None:
        return ""
    return value if isinstance(value, str) else "\n".join(_inner(value))


def _inner(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        for each in value:
            yield from _inner(each)
    elif value is not None:
        yield value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def literals_of(found: Any) -> list[Any]:
    """The literals of `=`, `IN` and `LIKE` that matching rows contain."""
    literals: list[Any] = []
    waiting = [(found, False)]
    while waiting:
        each, negated = waiting.pop()
        waiting += [(part, negated or _is_not(each)) for part in _parts(each)]
        if not negated:
            literals += _own(each)
    return literals


def needs_a_literal(found: Any, searchable: Collection[str]) -> bool:
    """Whether an expression is true only for rows that contain one of its literals as a text spells it.

    Args:
        searchable: the columns whose values have one spelling.
    """
    from pyiceberg.expressions import And, Or

    if isinstance(found, And | Or):
        return (any if isinstance(found, And) else all)(needs_a_literal(each, searchable) for each in _parts(found))
    own = _own(found)
    return bool(own) and "" not in own and found.term.name in searchable


def _own(found: Any) -> list[Any]:
    from pyiceberg.expressions import EqualTo, In, StartsWith

    if isinstance(found, EqualTo | StartsWith):
        return [found.literal.value]
    return [each.value for each in found.literals] if isinstance(found, In) else []


def _parts(found: Any) -> Iterable[Any]:
    return [part for name in ("left", "right", "child") if (part := getattr(found, name, None)) is not None]


def _is_not(found: Any) -> bool:
    from pyiceberg.expressions import Not

    return isinstance(found, Not)
