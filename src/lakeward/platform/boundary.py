"""The boundary of one item: whatever fails while a table, stream, suite, incident or file is looked at becomes a value.

A loop over items calls `attempt` for each. The failure of one item is a row beside the others, with its words; lists
show it, health and exit codes count it, and the loop goes on. Broad `except` for that purpose is used here and nowhere
else. A loop whose items share a dependency names the error that concerns all of them in `through`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict, TypeVar

import structlog

from lakeward.platform.errors import DependencyDown, LakewardError, Transient, Unhealthy
from lakeward.platform.failures import FailureClass, classify

log = structlog.get_logger(__name__)

T = TypeVar("T")
_PACKAGE: Final = "lakeward"
_LONGEST: Final = 500
_AWAY: Final = "check the service that does not answer and the network, then repeat the command: the item is as it was"
_REMEMBERED: Final = 1000
_reported: dict[str, str] = {}
"""Item -> its failure as it was logged last: a process that looks every few seconds logs a failure once."""


class FailureDocument(TypedDict):
    """A failure as JSON. `kind` is the type of the error, `where` the line of Lakeward that met it."""

    what: str
    why: str
    next: str
    code: str
    kind: str
    where: str


@dataclass(frozen=True)
class Failure:
    """Why an item could not be looked at.

    Attributes:
        item: the item with its kind, e.g. `table nyc.flights`.
        what, why, next, code: as in `LakewardError`; another error has no code.
        kind: the type of the error.
        where: `module.py:line` of the innermost line of Lakeward.
        foreseen: whether it is an error of Lakeward's own, with words and a next command.
        transient: whether it is an error that a retry may solve.
    """

    item: str
    what: str
    why: str = ""
    next: str = ""
    code: str = ""
    kind: str = ""
    where: str = ""
    foreseen: bool = False
    transient: bool = False

    @property
    def words(self) -> str:
        """A foreseen error as what and why; another as its type and text alone, for a text that names the item."""
        return f"{self.what}: {self.why}" if self.foreseen else self.why

    @property
    def text(self) -> str:
        """The failure in one line: what, code, why."""
        headline = f"{self.what} [{self.code}]" if self.code else self.what
        return f"{headline}: {self.why}" if self.why else headline

    def document(self) -> FailureDocument:
        """As JSON."""
        return {
            "what": self.what,
            "why": self.why,
            "next": self.next,
            "code": self.code,
            "kind": self.kind,
            "where": self.where,
        }

    def error(self, next: str = "") -> LakewardError:
        """The failure as an error, for a command about this item alone: `DependencyDown` if what the item is read from
        does not answer.

        Args:
            next: the next command, if the failure names none and is the item's own.
        """
        why = f"{self.why} (at {self.where})" if self.where else self.why
        if self.transient and not self.foreseen:
            return DependencyDown(self.what, why=why, next=_AWAY, code="LW-9149")
        return Unhealthy(self.what, why=why, next=self.next or next, code=self.code or "LW-9148")


def attempt(
    item: str,
    function: Callable[[], T],
    *,
    through: tuple[type[Exception], ...] = (),
    within: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> T | Failure:
    """The result of the function, or its failure, which is logged.

    Args:
        item: the item with its kind, e.g. `table nyc.flights`.
        function: looks at this item alone.
        through: errors that concern all items, e.g. of the registry they are read from; they are raised.
        within: opens what the item must leave as it found it, e.g. a savepoint of the transaction that all items share.

    Raises:
        Exception: one of `through`.
    """
    try:
        with within():
            result = function()
    except through:
        raise
    except Exception as error:  # noqa: BLE001  # named boundary: one odd item must not stop the others
        failure = failure_of(item, error)
        _report(failure)
        return failure
    _reported.pop(item, None)
    return result


def worded(item: str, function: Callable[[], T], *, through: tuple[type[Exception], ...] = (), next: str = "") -> T:
    """The result of the function; its failure is raised with words, also if it is of an unexpected type.

    Args:
        item: the item with its kind, e.g. `table nyc.flights`.
        function: looks at this item alone.
        through: errors that the caller words itself.
        next: the next command, if the error names none.

    Raises:
        LakewardError: the function's own; `DependencyDown` if what the item is read from does not answer; `Unhealthy`
            for any other error.
    """
    try:
        return function()
    except LakewardError:
        raise
    except through:
        raise
    except Exception as error:  # named boundary: a command about one item shows words, no stack trace
        raise failure_of(item, error).error(next) from error


def failure_of(item: str, error: Exception) -> Failure:
    """An error as the failure of an item."""
    kind = type(error).__name__
    if isinstance(error, LakewardError):
        cause = error.__cause__
        return Failure(
            item,
            error.what,
            error.why,
            error.next,
            error.code,
            kind,
            _where(cause) if cause else "",
            foreseen=True,
            transient=isinstance(error, Transient),
        )
    text = " ".join(str(error).split())
    cut = f"{text[:_LONGEST]}..." if len(text) > _LONGEST else text
    why = f"{kind}: {cut}" if cut else kind
    away = classify(error=error, text=f"{kind}: {error}") is FailureClass.DEPENDENCY
    return Failure(item, f"Cannot read {item}", why, kind=kind, where=_where(error), transient=away)


def _report(failure: Failure) -> None:
    if _reported.get(failure.item) == failure.text:
        return
    if len(_reported) >= _REMEMBERED:
        _reported.clear()
    _reported[failure.item] = failure.text
    fields = {name: value for name, value in failure.document().items() if value and name != "next"}
    log.warning("item failed, the others go on", item=failure.item, **fields)


def _where(error: BaseException) -> str:
    """The innermost line of Lakeward that the error passed; its very last line if it passed none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _PACKAGE in Path(frame.filename).parts and frame.filename != __file__]
    last = next(reversed(own or frames), None)
    return "" if last is None else f"{Path(last.filename).name}:{last.lineno}"
