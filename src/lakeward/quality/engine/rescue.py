"""What becomes of checks whose session was lost: the session is renewed, and they are computed once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import structlog

from lakeward.quality.engine.timeouts import Watch
from lakeward.quality.results.json_values import sentence
from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import Check, State

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

log = structlog.get_logger(__name__)


@dataclass
class Attempt:
    """One computation of some checks.

    Attributes:
        results: by check id; some may be missing if `error` is set.
        watch: what the watcher did.
        error: the session failed, not a check.
    """

    results: dict[str, Check] = field(default_factory=dict)
    watch: Watch | None = None
    error: PySparkException | None = None

    @property
    def planning(self) -> bool:
        """Whether a plan took too long."""
        return self.watch is not None and self.watch.planning

    @property
    def over(self) -> bool:
        """Whether the time of all checks is over."""
        return self.watch is not None and self.watch.over

    def undecided(self, asked: Sequence[ConfiguredCheck]) -> list[ConfiguredCheck]:
        """The checks without a verdict."""
        return [each for each in asked if each.id not in self.results or self.results[each.id].state is State.ERROR]


class Session(Protocol):
    """The session of a run, and how to get another."""

    def answers(self) -> bool:
        """Whether it can still be used."""

    def renew(self) -> None:
        """Make another at the next use."""


Compute = Callable[[Sequence[ConfiguredCheck]], Attempt]


def rescued(asked: Sequence[ConfiguredCheck], session: Session, compute: Compute) -> dict[str, Check]:
    """The result of every check; a lost session or a plan without end costs no other check its verdict.

    Raises:
        PySparkException: the session was lost twice.
        DependencyDown: no server answers.
    """
    first = compute(asked)
    lost = first.undecided(asked)
    usable = not lost or session.answers()
    if not lost or (first.error is None and usable and not first.planning) or first.over:
        return _complete(first, asked, session, usable)
    if not usable or first.error is not None:
        log.warning("Session lost; checks computed once more", checks=len(lost), error=sentence(str(first.error or "")))
        session.renew()
    if first.planning:
        log.warning("A plan took too long; its checks are computed one by one", checks=len(lost))
        return first.results | _apart(lost, session, compute)
    again = compute(lost)
    return first.results | _complete(again, lost, session, session.answers())


def _apart(asked: Sequence[ConfiguredCheck], session: Session, compute: Compute) -> dict[str, Check]:
    """Each check alone; one whose plan does not end is an error, with a new session for the next."""
    results: dict[str, Check] = {}
    for each in asked:
        if len(asked) == 1:
            results[each.id] = _endless(each)
            break
        made = compute([each])
        if made.planning or made.error is not None:
            results[each.id] = _endless(each) if made.planning else each.blank(State.ERROR, sentence(str(made.error)))
            if made.error is not None or not session.answers():
                session.renew()
        else:
            results[each.id] = made.results[each.id]
    return results


def _endless(asked: ConfiguredCheck) -> Check:
    return asked.blank(
        State.ERROR, "Spark did not finish the plan of this check in time; compare types in its condition or its query"
    )


def _complete(made: Attempt, asked: Sequence[ConfiguredCheck], session: Session, usable: bool) -> dict[str, Check]:
    """The results of an attempt that is the last one."""
    if not usable or made.error is not None:
        session.renew()  # the next run, or the rest of this one, has a session that works
    if made.error is not None and not made.over:
        raise made.error
    missing = {each.id: each.blank(State.ERROR, "interrupted: it had no answer in time") for each in asked}
    return missing | made.results
