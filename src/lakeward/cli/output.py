"""Output of commands: commands pass data, this module prints it.

`-o json` puts one JSON document, and nothing else, on stdout; messages go to stderr. The table form is for people.
Commands never print by themselves.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lakeward.platform.errors import LakewardError, expect_type
from lakeward.platform.text import rfc3339, size

_PIPE_WIDTH = 10_000
_BYTES = "_bytes"


class Form(StrEnum):
    """The value of `-o`."""

    table = "table"
    json = "json"


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"not a JSON value: {type(value).__name__}")


def json_text(data: object) -> str:
    """The data as JSON. Numbers that JSON lacks become text, as in Spark: `"NaN"`, `"Infinity"`."""
    try:
        return json.dumps(data, default=_plain, indent=2, allow_nan=False)
    except ValueError:
        plain = json.loads(json.dumps(data, default=_plain), parse_constant=str)
        return json.dumps(plain, indent=2)


class Output(ABC):
    """Where a command's result goes."""

    def __init__(self) -> None:
        self.messages = Console(stderr=True, highlight=False)

    def note(self, text: str) -> None:
        """One line for the person at the terminal; never part of the data."""
        self.messages.print(Text(text), soft_wrap=True)

    def error(self, error: LakewardError) -> None:
        """Print an expected error: what, why, next. No stack trace."""
        self.messages.print(Text(error.headline, style="bold red"), soft_wrap=True)
        if error.why:
            self.messages.print(Text(f"  why:  {error.why}"), soft_wrap=True)
        if error.next:
            self.messages.print(Text(f"  next: {error.next}"), soft_wrap=True)  # a command is copied whole

    @abstractmethod
    def show(
        self,
        data: Mapping[str, object],
        rows: str | None = None,
        columns: Sequence[str] | None = None,
        people: Mapping[str, object] | None = None,
    ) -> None:
        """Print `data`.

        Args:
            rows: the key whose list of records is the table of the human form.
            columns: those of the table; None: all.
            people: what the human form shows instead of `data`.
        """

    @abstractmethod
    def text(self, text: str) -> None:
        """Print preformatted text: a log tail, YAML, a report."""

    @abstractmethod
    def either(self, data: Mapping[str, object], text: str) -> None:
        """Print `data` as JSON, or `text` for people if a table does not fit."""


class JsonOutput(Output):
    """One JSON document on stdout."""

    def show(
        self,
        data: Mapping[str, object],
        rows: str | None = None,
        columns: Sequence[str] | None = None,
        people: Mapping[str, object] | None = None,
    ) -> None:
        sys.stdout.write(json_text(data) + "\n")

    def text(self, text: str) -> None:
        self.show({"text": text})

    def either(self, data: Mapping[str, object], text: str) -> None:
        self.show(data)


class ConsoleOutput(Output):
    """Tables and key-value lists for people; honours NO_COLOR (rich does)."""

    def __init__(self) -> None:
        super().__init__()
        # A pipe has no width: folded paths cannot be copied, and cut lines cannot be searched.
        width = None if sys.stdout.isatty() else _PIPE_WIDTH
        self.console = Console(highlight=False, width=width, soft_wrap=width is not None)

    def show(
        self,
        data: Mapping[str, object],
        rows: str | None = None,
        columns: Sequence[str] | None = None,
        people: Mapping[str, object] | None = None,
    ) -> None:
        data = data if people is None else people
        if rows is None:
            self._pairs(data)
            return
        records = expect_type(data[rows], list, f"{rows} of the data")
        rest = {key: value for key, value in data.items() if key != rows}
        if rest:
            self._pairs(rest)
        if not records:
            self.console.print(f"no {rows}")
            return
        shown = list(columns or records[0].keys())
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in shown:
            table.add_column(column.removesuffix(_BYTES).replace("_", " "), overflow="fold")
        for record in records:
            table.add_row(*(Text(_sized(column, record.get(column))) for column in shown))
        self._print(table)

    def text(self, text: str) -> None:
        self.console.print(Text(text), soft_wrap=True)

    def either(self, data: Mapping[str, object], text: str) -> None:
        self.text(text)

    def _pairs(self, data: Mapping[str, object]) -> None:
        grid = Table.grid(padding=(0, 2))
        for key, value in data.items():
            grid.add_row(Text(key.replace("_", " "), style="bold"), Text(_cell(value)))
        self._print(grid)

    def _print(self, table: Table) -> None:
        """Print a table without trailing blanks."""
        with self.console.capture() as captured:
            self.console.print(table)
        sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _sized(column: str, value: object) -> str:
    """A cell of a table; sizes with units."""
    return size(value) if column.endswith(_BYTES) and isinstance(value, int) else _cell(value)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return "  ".join(f"{key}={_cell(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_cell(item) for item in value) or "-"
    return str(value)


def make(form: Form) -> Output:
    """The output for the value of `-o`."""
    return JsonOutput() if form is Form.json else ConsoleOutput()
