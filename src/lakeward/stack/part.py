"""A part of the stack: its preparation, its program and its health check. Each part is a class."""

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
        group: its group in `--only`.
        listens: the name of its port, None without one.
    """

    name: str
    group: str
    listens: str | None = None
    patience_s: float = 600  # timeout of a start, for a slow machine

    def __init__(self, site: StackContext) -> None:
        self.site = site

    @property
    def log(self) -> Path:
        """The log file with the output of the program."""
        return self.site.home.logs / f"{self.name}.log"

    def prepare(self) -> None:  # noqa: B027 - most parts have nothing to prepare
        """Create what the program needs. Idempotent."""

    @abstractmethod
    def program(self) -> Program:
        """The program to run."""

    @abstractmethod
    def healthy(self, since: datetime) -> bool:
        """Whether the part answers now; evidence older than `since` does not count."""
