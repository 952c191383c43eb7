"""A part of the stack: what it prepares, what it runs, and its health check. One class for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from pathlib import Path

from lakeward.stack.program import Program
from lakeward.stack.site import StackContext


class Part(ABC):
    """One supervised program.

    Attributes:
        name: unique, as `stack status` shows it.
        group: the word of `--only` it belongs to.
        listens: the name of the port it serves, None if it serves none.
    """

    name: str
    group: str
    listens: str | None = None
    patience_s: float = 600  # how long a start may take on a slow machine

    def __init__(self, site: StackContext) -> None:
        self.site = site

    @property
    def log(self) -> Path:
        """The file with its output."""
        return self.site.home.logs / f"{self.name}.log"

    def prepare(self) -> None:  # noqa: B027 - most parts have nothing to prepare
        """Create what the program needs, once; safe to repeat."""

    @abstractmethod
    def program(self) -> Program:
        """What to run."""

    @abstractmethod
    def healthy(self, since: datetime) -> bool:
        """Whether it does its work now, by asking it; something older than `since` proves nothing."""
