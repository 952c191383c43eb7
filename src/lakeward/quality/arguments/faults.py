"""What is wrong with an argument of an expectation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakeward.spec.read.document import Path_
from lakeward.spec.read.messages import Finding


@dataclass(frozen=True)
class Fault:
    """One argument that no run may use.

    Attributes:
        path: below `kwargs`.
        message: a sentence without a full stop.
        value: the argument as written.
        valid, near: valid values, and the one probably meant.
        at: 1-based (line, column) inside of a text.
    """

    path: Path_
    message: str
    value: Any = None
    valid: tuple[str, ...] = ()
    near: str | None = None
    at: tuple[int | None, int | None] | None = None

    def finding(self, expectation: Path_) -> Finding:
        """The problem of the suite's file; `expectation` is the path of the expectation in it."""
        place = (self.at[0], self.at[1]) if self.at else None
        return Finding((*expectation, "kwargs", *self.path), self.message, self.value, self.valid, self.near, at=place)

    def text(self) -> str:
        """As one clause of an error."""
        path = ".".join(str(each) for each in self.path)
        meant = f"; did you mean {self.near}?" if self.near else ""
        return f"{path}: {self.message}{meant}"
