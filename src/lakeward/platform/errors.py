"""Errors: one base class for every expected error.

An expected error says what failed, why (the value, its location, the valid values) and the next command; it is printed
without a stack trace. `Terminal` and `Transient` are types, because the restart policy reads the type, not the text.
Exit codes are those of the command line contract.
"""

from __future__ import annotations

import re
from typing import TypeVar

T = TypeVar("T")
_CODE = re.compile(r"\[(LW-\d{4})\]")
_REPORT = "an invariant of Lakeward does not hold: this is a bug"


class LakewardError(Exception):
    """Raised when an expected error occurs.

    Args:
        what: what failed, one sentence without a full stop needed.
        why: the value, its location and the valid values; may be empty.
        next: the command or edit that helps; may be empty.
        code: `LW-` and four digits, used by docs/reference/errors.md and by alerts.
    """

    exit_code = 1

    def __init__(self, what: str, *, why: str = "", next: str = "", code: str = "") -> None:
        super().__init__(what, why, next)
        self.what = what
        self.why = why
        self.next = next
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process boundaries (Airflow, multiprocessing): keyword-only arguments are not pickled by default.
        return _rebuild, (type(self), self.what, self.why, self.next, self.code)

    @property
    def headline(self) -> str:
        """What failed, and the code."""
        return f"{self.what} [{self.code}]" if self.code else self.what

    def __str__(self) -> str:
        lines = [self.headline]
        if self.why:
            lines.append(f"  why:  {self.why}")
        if self.next:
            lines.append(f"  next: {self.next}")
        return "\n".join(lines)


def _rebuild(kind: type[LakewardError], what: str, why: str, next: str, code: str) -> LakewardError:
    return kind(what, why=why, next=next, code=code)


def code_in(text: str | None) -> str | None:
    """The code in the first line of an error's text; None without one."""
    match = _CODE.search((text or "").partition("\n")[0])
    return match[1] if match else None


class Internal(LakewardError):
    """Raised when Lakeward broke an invariant of its own: a bug, not a mistake of a user.

    The command line prints its stack trace. It replaces `assert` in production code, which `python -O` removes.
    """


def expect(value: T | None, what: str) -> T:
    """The value, which the code around the call guarantees.

    Args:
        what: what must be there, as a noun phrase.

    Raises:
        Internal: it is None.
    """
    if value is None:
        raise Internal(f"Internal error: {what} is missing", why=_REPORT, code="LW-9001")
    return value


def expect_type(value: object, kind: type[T], what: str) -> T:
    """The value as the type that the code around the call guarantees.

    Raises:
        Internal: it is of another type.
    """
    if not isinstance(value, kind):
        raise Internal(
            f"Internal error: {what} is {type(value).__name__}, not {kind.__name__}", why=_REPORT, code="LW-9002"
        )
    return value


class Terminal(LakewardError):
    """Raised when a retry cannot help: a person has to change something."""


class Transient(LakewardError):
    """Raised when a retry may succeed."""


class SpecError(Terminal):
    """Raised when a file a user wrote is wrong. The text lists every problem with file:line:column."""

    exit_code = 2


class Awaited(SpecError):
    """Raised when what a file names does not exist yet: a command is wrong, a stream waits and asks again."""


class Unhealthy(LakewardError):
    """Raised when a component is not healthy, or a check failed."""

    exit_code = 3


class Refused(Terminal):
    """Raised when a guard, a lease or a missing approval forbids the operation."""

    exit_code = 4


class TimedOut(Transient):
    """Raised when the wait timed out; the operation continues."""

    exit_code = 5


class DependencyDown(Transient):
    """Raised when a broker, catalog, store or registry could not be reached."""

    exit_code = 3


class Blocked(Terminal):
    """Raised when a stream must stop until a person acts: continuing could lose or duplicate rows.

    The reason is a short code (`diverged`, `gap`, `rolled-back` ...); the text has the exact ranges.
    """

    def __init__(
        self, what: str, *, why: str = "", next: str = "", reason: str = "blocked", code: str = ""
    ) -> None:  # fmt: skip
        super().__init__(what, why=why, next=next, code=code)
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_blocked, (self.what, self.why, self.next, self.reason, self.code)


def _rebuild_blocked(what: str, why: str, next: str, reason: str, code: str) -> Blocked:
    return Blocked(what, why=why, next=next, reason=reason, code=code)


class Poison(LakewardError):
    """Raised when a batch's own records make its work fail: it fails again until the work or the records change."""


class NotTheRecords(LakewardError):
    """Raised when a batch fails and its records are not the cause: to skip them would not help."""


class Fenced(Terminal):
    """Raised when another launch of the same stream holds a newer token or moved the table's position.

    A driver that is fenced ends with exit code 75 (EX_TEMPFAIL of sysexits.h) and is never restarted for that token.
    """

    exit_code = 75
