"""Problems of spec files: position, message, invalid value, valid values, nearest known key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lakeward.platform.errors import SpecError

_LONGEST_VALUE = 200
_SHORT = 60
_MANY = 8


@dataclass(frozen=True)
class Problem:
    """One problem of one file.

    Attributes:
        file: relative to the project, if it is inside.
        line, column: 1-based; 1 if only the file is known.
        path: dotted keys, e.g. `sink.iceberg.mode`; empty for the whole file.
        message: one sentence without a full stop.
        value: the invalid value (cut at 200 characters); None if missing or a possible secret.
        valid: the valid values, if they are a list.
        nearest: the valid word closest to the value.
        severity: only an `error` refuses the files.
    """

    file: str
    line: int
    column: int
    path: str
    message: str
    value: Any = None
    valid: tuple[str, ...] = ()
    nearest: str | None = None
    severity: Literal["error", "warning"] = "error"

    def text(self) -> str:
        """The problem as one line of text."""
        warning = "warning: " if self.severity == "warning" else ""
        text = f"{self.file}:{self.line}:{self.column}  {warning}{self.path + ': ' if self.path else ''}{self.message}"
        if self.value not in (None, "") and not _quoted(self.value, self.message):
            here = " ".join(str(self.value).split())
            text += f" (here: {here if len(here) <= _SHORT else here[:_SHORT] + '…'})"
        if self.nearest:
            text += f"; did you mean {self.nearest}?"
        if self.valid and not (self.nearest and len(self.valid) > _MANY):
            text += f"{'' if self.nearest else ';'} valid: {', '.join(self.valid)}"
        return text

    def document(self) -> dict[str, Any]:
        """The problem as JSON data."""
        return asdict(self)


def _quoted(shown: object, message: str) -> bool:
    """Whether the message already shows the value as a separate word: `5` in `5m` does not count.

    A number in the middle of a message is usually a bound, not the value.
    """
    value = str(shown)
    if not isinstance(shown, str):
        return message.startswith((f"{value} ", f"{value}:"))
    return re.search(rf"(?<![\w.]){re.escape(value)}(?![\w.])", message) is not None


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to `word`, if one is similar."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(str(word).lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def shown(value: Any) -> Any:
    """A value for display in a problem: JSON data, short."""
    if isinstance(value, dict | list | tuple):
        return None  # a whole mapping is not shown; its position is
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = str(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


NO_PROJECT = "conf/streams"
"""The file of the one problem that a folder without a project has."""


def raise_if_any(problems: Sequence[Problem], next: str = "lakeward config validate") -> None:
    """Raise if the problems include an error.

    Raises:
        SpecError: its text lists every error.
    """
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        count = "1 problem" if len(errors) == 1 else f"{len(errors)} problems"
        listed = "\n        ".join(problem.text() for problem in errors)
        if all(problem.file == NO_PROJECT for problem in errors):
            next = "lakeward init lakehouse   creates a project there; or name yours: --project DIR"
            raise SpecError("There is no Lakeward project here", why=listed, next=next, code="LW-1385")
        raise SpecError(f"The specs have {count}", why=listed, next=f"correct the file, then: {next}", code="LW-1005")
