"""Tokens of JSON: what stood in a record, as text, with numbers as they were written.

Spark reads a number into STRING through DOUBLE (`12345678.9` becomes `1.23456789E7`) and does not say whether a text
was a string or a number. So a record is rewritten first: each number, `true` and `false` becomes a string that begins
with a secret mark. Parsed by a schema of STRING only, every value is its exact text, and the mark tells a literal
from a string.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

_LITERAL = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false"
_BEFORE = r'(?:[^"0-9tf\-]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+'
"""Everything up to the next literal: what is no literal, and whole strings. Possessive: no recursion in Java."""
_AFTER = r"(?=\s*(?:[,\]}]|$))"
"""A literal ends where JSON lets it end. `007`, `1.` and a number as a key are left for the parser to refuse."""
_LITERALS = rf"(?s)\G({_BEFORE})({_LITERAL}){_AFTER}"
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
LONE_SURROGATE = rf"((?:^|[^\\])(?:\\\\)*)(?:{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW})"
"""Half of a character: UTF-8 cannot hold it, and Java writes `?` instead. Its group is what precedes it."""


@dataclass(frozen=True)
class Token:
    """One value of a record.

    Attributes:
        text: as it was written; null if missing or null.
        literal: whether it may be a number or a boolean.
        string: whether it may be a text. In CSV every value may be both.
    """

    text: Column
    literal: Column
    string: Column


@dataclass(frozen=True)
class Marks:
    """Marks literals of a JSON text, and reads them back."""

    mark: str

    @classmethod
    def drawn(cls) -> Marks:
        """With a mark that a writer of records cannot know."""
        return cls("lit_" + secrets.token_hex(8) + ":")

    def marked(self, text: Column) -> Column:
        """The same JSON with every literal as a marked string."""
        from pyspark.sql import functions as F

        return F.regexp_replace(text, F.lit(_LITERALS), F.lit(f'$1"{self.mark}$2"'))

    def token(self, text: Column) -> Token:
        """The value that the parser read as `text`."""
        from pyspark.sql import functions as F

        literal = F.startswith(text, F.lit(self.mark))
        plain = F.when(literal, F.substring(text, len(self.mark) + 1, 1 << 30)).otherwise(text)
        return Token(plain, literal, ~literal)

    def plain(self, text: Column) -> Column:
        """What the parser read as `text`, without marks: literals as they were written, also in an object or array."""
        from pyspark.sql import functions as F

        return F.regexp_replace(self.token(text).text, F.lit(f'"{self.mark}([^"]*)"'), F.lit("$1"))
