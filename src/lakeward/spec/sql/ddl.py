"""DDL of columns with Spark types, by Spark's own grammar of a table schema (`colTypeList` of its SqlBaseParser).

sqlglot accepts much more: trailing commas, names with dots, types of other databases; it reads `unique` as a
constraint, Spark as a name.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, NoReturn

from pydantic import AfterValidator, Field

from lakeward.spec.read.problems import nearest
from lakeward.spec.read.text_positions import place_of
from lakeward.spec.sql.statements import SqlProblem, quote

_EXPECTED = "a schema is columns with Spark types: carrier STRING, dep_delay DOUBLE"
_TYPES = {
    "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "BYTE": "TINYINT", "SMALLINT": "SMALLINT", "SHORT": "SMALLINT",
    "INT": "INT", "INTEGER": "INT", "BIGINT": "BIGINT", "LONG": "BIGINT", "FLOAT": "FLOAT", "REAL": "FLOAT",
    "DOUBLE": "DOUBLE", "DECIMAL": "DECIMAL", "DEC": "DECIMAL", "NUMERIC": "DECIMAL", "STRING": "STRING",
    "BINARY": "BINARY", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP", "TIMESTAMP_LTZ": "TIMESTAMP_LTZ",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ", "ARRAY": "ARRAY", "MAP": "MAP", "STRUCT": "STRUCT",
}  # fmt: skip
"""Name of a type -> canonical name. Spark's other types (CHAR, VARIANT, INTERVAL) are not types of a record."""
_VALID = ("valid: BOOLEAN, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, BINARY, DATE, TIMESTAMP, "
          "TIMESTAMP_NTZ, ARRAY<type>, MAP<type, type>, STRUCT<name: type>")  # fmt: skip
_MOST_DIGITS = 38
_TOKEN = re.compile(
    r"(?:[ \t\r\n]+|--[^\n]*|/\*.*?\*/)*"
    r"(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"
    r"|(?P<word>[A-Za-z0-9_]+)|(?P<sign>.)|(?P<end>\Z))",
    re.DOTALL,
)
_NUMBER = re.compile(r"[0-9]+(?:L|S|Y|F|D|BD|E[0-9]+)?", re.IGNORECASE)  # numbers for Spark, not names
_SHORT = re.compile(r"[0-9]{1,3}")
_CLAUSES = {"DEFAULT", "GENERATED", "PRIMARY", "UNIQUE", "CHECK", "REFERENCES", "CONSTRAINT", "AS", "COLLATE", "NULL",
            "NOT", "COMMENT"}  # fmt: skip


def ddl_columns(ddl: str) -> dict[str, str]:
    """Column name -> Spark type of a DDL list such as `carrier STRING, dep_delay DOUBLE`.

    Raises:
        SqlProblem: the text is not a list of columns with types.
    """
    return dict(_columns(ddl))


@lru_cache(maxsize=64)  # the checks of a file call it several times
def _columns(ddl: str) -> dict[str, str]:
    try:
        return _Reader(ddl).columns()
    except RecursionError:
        raise SqlProblem("these types are nested too deeply to read") from None


class _Reader:
    """Reads one list of columns, token by token."""

    def __init__(self, ddl: str) -> None:
        self.ddl = ddl
        self.at = 0
        self._step()

    def columns(self) -> dict[str, str]:
        if self.kind == "end":
            raise SqlProblem(_EXPECTED)
        columns: dict[str, str] = {}
        while True:
            start = self.start
            name = self._name()
            if self._is(":"):
                self._refuse(f"remove the colon between column and type; write: {_quoted(name)} STRING")
            kind = self._type(f"column {name} has no type; write: {_quoted(name)} STRING")
            self._after(name)
            if name.lower() in (known.lower() for known in columns):
                self._refuse(f"column {name} is listed twice", start)
            columns[name] = kind
            if self.kind == "end":
                return columns
            self._separator()

    def _step(self) -> None:
        token = _TOKEN.match(self.ddl, self.at)
        self.kind = str(token.lastgroup) if token else "end"
        self.token = str(token[self.kind]) if token else ""
        self.start, self.at = token.span(self.kind) if token else (self.at, self.at)

    def _is(self, *words: str) -> bool:
        return self.kind in ("word", "sign") and self.token.upper() in words

    def _took(self, *words: str) -> bool:
        if self._is(*words):
            self._step()
            return True
        return False

    def _refuse(self, message: str, start: int | None = None) -> NoReturn:
        place = place_of(self.ddl, self.start if start is None else start)
        raise SqlProblem(message, place.line, place.column)

    def _separator(self) -> None:
        comma = self.start
        if not self._took(","):
            if self.kind in ("word", "quoted"):
                self._refuse(f"a comma is missing before {self.token!r}; {_EXPECTED}")
            self._refuse(f"unexpected {self.token!r}; {_EXPECTED}")
        if self.kind == "end" or self._is(",", ">"):
            self._refuse("a trailing comma", comma)

    def _name(self) -> str:
        token = self.token
        if self.kind == "quoted":
            self._step()
            return token[1:-1].replace("``", "`")
        if self.kind == "text":
            self._refuse(f"{token} is text; write a column name without quotes, or in backquotes")
        if self._is(","):
            self._refuse("a comma without a column before it")
        if self.kind != "word" or _NUMBER.fullmatch(token):
            self._refuse(f"{token!r} is not a valid column name; quote it in backquotes; {_EXPECTED}")
        self._step()
        if self._is(".", "-"):
            sign, start = self.token, self.start
            self._step()
            rest = self.token if self.kind == "word" else ".."
            self._refuse(f"a name with {sign!r} needs backquotes: `{token}{sign}{rest}`", start)
        return token

    def _type(self, missing: str) -> str:
        if self.kind == "end" or self._is(",", ">", ")"):
            self._refuse(missing)
        start, written = self.start, self.token
        name = _TYPES.get(written.upper()) if self.kind == "word" else None
        if name is None:
            like = nearest(written, _TYPES)
            self._refuse(f"{written} is not a type here; {f'did you mean {like}?' if like else _VALID}")
        self._step()
        if name in ("ARRAY", "MAP", "STRUCT"):
            return self._nested(name, start)
        if name == "DECIMAL" and self._took("("):
            name = self._decimal(start)
        if self._is("["):
            self._refuse(f"Spark writes a list as ARRAY<type>; {_VALID}", start)
        if self._is("(", "<"):
            self._refuse(f"{self._until(start)} is not a type here; {_VALID}", start)
        return name

    def _nested(self, name: str, start: int) -> str:
        if not self._took("<"):
            self._refuse(f"{name} is not a type here; {_VALID}", start)
        fields: set[str] = set()
        if name == "STRUCT":
            inside = [self._field(start, fields)]
        else:
            inside = [self._type(f"{name}<> is not a type here; {_VALID}")]
        while not self._took(">"):
            if self.kind == "end":
                self._refuse(f"{name} is never closed with >", start)
            self._separator()
            inside.append(self._field(start, fields) if name == "STRUCT" else self._type(_EXPECTED))
        written = f"{name}<{', '.join(inside)}>"
        if name != "STRUCT" and len(inside) != (1 if name == "ARRAY" else 2):
            self._refuse(f"{written} is not a type here; {_VALID}", start)
        return written

    def _field(self, start: int, known: set[str]) -> str:
        """One field of a struct. `known`: the names before it in lower case, which is how Spark compares them."""
        syntax = "the fields of a STRUCT have names and types: STRUCT<name: type, ..>"
        if self._is(">"):
            self._refuse(syntax, start)
        at = self.start
        name = self._name()
        if name.lower() in known:
            self._refuse(f"field {name} is listed twice in a STRUCT; Spark does not tell names apart by case", at)
        known.add(name.lower())
        self._took(":")
        kind = self._type(syntax)
        self._after(name)
        return f"{_quoted(name)}: {kind}"

    def _after(self, name: str) -> None:
        if self._took("NOT") and not self._took("NULL"):
            self._refuse(f"NULL is missing behind NOT; {_EXPECTED}")
        if self._took("COMMENT"):
            if self.kind != "text":
                self._refuse(f"a comment is text: COMMENT 'why'; {_EXPECTED}")
            self._step()
        if self.kind == "word" and self.token.upper() in _CLAUSES:
            self._refuse(f"column {name} has more than a name and a type; only NOT NULL and COMMENT may follow")

    def _decimal(self, start: int) -> str:
        digits: list[int] = []
        while self.kind == "word":
            digits.append(int(self.token) if _SHORT.fullmatch(self.token) else _MOST_DIGITS + 1)
            self._step()
            if not self._took(","):
                break
        written = f"DECIMAL({', '.join(map(str, digits))})"
        good = self._took(")") and 1 <= len(digits) <= 2 and 1 <= digits[0] <= _MOST_DIGITS and max(digits) == digits[0]
        if not good:
            what = f"DECIMAL(p, s) has 1 to {_MOST_DIGITS} digits, and s of them at most p"
            self._refuse(f"{self._until(start)}: {what}", start)
        return written

    def _until(self, start: int) -> str:
        """The text from `start` to the end of its brackets."""
        end = self.ddl.find(")", start) + 1
        return self.ddl[start : end or self.at]


def _quoted(name: str) -> str:
    """A column's name as DDL takes it."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else quote(name)


def _checked(text: str) -> str:
    ddl_columns(text)
    return text


Ddl = Annotated[str, AfterValidator(_checked), Field(examples=["carrier STRING, dep_delay DOUBLE"])]
"""Columns with Spark types, checked when the spec is read."""
