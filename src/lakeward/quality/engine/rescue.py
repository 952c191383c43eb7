"""What becomes of checks whose session was lost, whose plan did not end, or whose time is over.

They are computed once more, in ever smaller parts: a check costs no other its verdict. One that is alone and fails so
is an error, and is remembered.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from lakeward.quality.arguments.patterns import patterns_of
from lakeward.quality.engine.bridge.passes import ENDING
from lakeward.quality.engine.suspects import Suspects, endless_pattern, free_text, parts
from lakeward.quality.engine.timeouts import Watch
from lakeward.quality.results.json_values import sentence
from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import Check, State

log = structlog.get_logger(__name__)

ENDLESS = "Spark did not finish the plan of this check in time; compare types in its condition or its query"
DEADLY = "the Spark Connect server ended while it computed this check alone; it may need more memory than there is"
DEEP = "; a group that repeats, such as (a|b)*, takes Java a stack as deep as the text is long: write [ab]*"
LATE = "interrupted: it had no answer in time"


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
    error: Exception | None = None

    def lost_session(self, error: Exception) -> bool:
        """Whether an error means that the session is lost: Spark's own, or any after the watcher closed the session.

        gRPC raises a bare `ValueError` for a statement that begins on a closed channel.
        """
        from pyspark.errors import PySparkException

        return isinstance(error, PySparkException) or (self.watch is not None and self.watch.given_up)

    @property
    def undisturbed(self) -> bool:
        """Whether the watcher ended nothing."""
        return self.watch is None or not (self.watch.given_up or self.watch.planning or self.watch.over)

    @property
    def planning(self) -> bool:
        """Whether a plan took too long."""
        return self.watch is not None and self.watch.planning

    @property
    def over(self) -> bool:
        """Whether the time of all checks is over."""
        return self.watch is not None and self.watch.over

    @property
    def ending(self) -> bool:
        """Whether the server was about to end: it answers a while, but computes nothing any more."""
        words = [str(self.error or ""), *(each.error or "" for each in self.results.values())]
        return any(ENDING.search(each) for each in words)

    def usable(self, session: Session) -> bool:
        """Whether the session can be used after it."""
        return self.error is None and not self.ending and session.answers()

    def undecided(self, checks: Sequence[ConfiguredCheck]) -> list[ConfiguredCheck]:
        """The checks without a verdict."""
        return [each for each in checks if each.id not in self.results or self.results[each.id].state is State.ERROR]


class Session(Protocol):
    """The session of a run, and how to get another."""

    suspects: Suspects

    def answers(self) -> bool:
        """Whether it can still be used."""

    def renew(self) -> None:
        """Make another at the next use."""

    def wait(self, *, ending: bool) -> None:
        """Wait for a server that ended, or is about to, to be back, for a limited time."""

    def heal(self) -> None:
        """Have the server started again if it works on what was given up, and nobody else uses it."""


Compute = Callable[[Sequence[ConfiguredCheck], float | None, float], Attempt]
"""Computes some checks together: the seconds that it may take, None for the time of a run; how many times longer than
usual a plan may take."""
SLOW_READ = 6.0
"""A read whose own plan takes long, e.g. for the metadata of a huge table, gets so many times the limit of a plan."""
_LEAST_S = 10.0
_SHORT = 5
"""Checks whose pattern Java may match without end share this part of the patience of a run, each at most half of
what is left: the next tables wait for them."""


def rescued(
    table: str, checks: Sequence[ConfiguredCheck], session: Session, compute: Compute, patience_s: float
) -> dict[str, Check]:
    """The result of every check.

    Args:
        patience_s: of the first attempt; the parts of a group whose time was over share half of it, each at most half
            of what is left.

    Raises:
        DependencyDown: no server answers.
        Fenced: another process has taken the run over.
    """
    known = session.suspects
    results = {
        each.id: each.blank(State.ERROR, why) for each in checks if (why := known.paused(table, each.id))
    }  # not computed: the server would end again, or plan without end
    computed = [each for each in checks if each.id not in results]
    alone = [each for each in computed if known.alone(table, each)]
    harmed = False
    if together := [each for each in computed if each not in alone]:
        found, harmed = _together(table, together, session, compute, patience_s)
        results |= found
    endless = [each for each in alone if endless_pattern(each)]
    for some, budget in (([each for each in alone if each not in endless], None), (endless, patience_s / _SHORT)):
        if some:
            groups = [[each] for each in some]
            found, more = _apart(table, groups, session, compute, budget, lost=(), sane=_read(together, results))
            results |= found
            harmed = harmed or more
    if harmed:
        session.heal()
    return results


def _together(
    table: str, checks: Sequence[ConfiguredCheck], session: Session, compute: Compute, patience_s: float
) -> tuple[dict[str, Check], bool]:
    """All checks in one attempt, and those without a verdict once more; whether something was given up."""
    made = compute(checks, None, 1)
    lost = made.undecided(checks)
    if not lost or (not made.planning and not made.over and made.usable(session)):
        return made.results, False
    results = dict(made.results)
    if not made.usable(session):
        log.warning("Session lost; checks computed once more", checks=len(lost), error=sentence(str(made.error or "")))
        session.renew()
        session.wait(ending=made.ending)
        if not made.planning and not made.over:  # the server went away, which is no check's fault as far as is known
            made = compute(lost, None, 1)
            results |= made.results
            lost = made.undecided(lost)
            usable = made.usable(session)
            if not lost or (usable and not made.planning and not made.over):
                return results, False
            if not usable:
                session.renew()
                session.wait(ending=made.ending)
    sane = _read(checks, results)
    if len(lost) == 1 and (made.over or (made.planning and sane)):
        results[lost[0].id] = _judged(table, lost[0], made, session)
        return results, True
    what = "A plan took too long" if made.planning else "Time is over" if made.over else "The session was lost twice"
    log.warning(f"{what}; its checks are computed in parts", checks=len(lost))
    groups = parts(lost)
    budget = patience_s / 2 if made.over else None
    found, _ = _apart(table, groups, session, compute, budget, lost=[each.id for each in lost], sane=sane)
    return results | found, True


def _read(checks: Sequence[ConfiguredCheck], results: Mapping[str, Check]) -> bool:
    """Whether a check without text of a person's own read these rows: then the plan of the read itself ends in time."""
    decided = (results[each.id] for each in checks if each.id in results and not free_text(each))
    return any(each.state in (State.PASS, State.FAIL) and each.by != "metadata" for each in decided)


def _apart(
    table: str,
    groups: Sequence[Sequence[ConfiguredCheck]],
    session: Session,
    compute: Compute,
    budget_s: float | None,
    lost: Collection[str],
    sane: bool,
) -> tuple[dict[str, Check], bool]:
    """The checks of each group together; a group without verdicts is computed check by check.

    Args:
        budget_s: for all of them; None for the time of a run each.
        sane: whether the plan of the read itself is known to end in time. Otherwise, if no check without text of a
            person's own shows it, plans get longer: an error must be the fault of its check.
        lost: checks that were computed when a session was lost. Any other is computed once more before it is accused.
    """
    results: dict[str, Check] = {}
    waiting, harmed, before = deque(list(each) for each in groups), False, set(lost)
    longer = 1.0 if sane or any(not free_text(each) for group in groups for each in group) else SLOW_READ
    end = time.monotonic() + (budget_s or 0.0)
    while waiting:
        group = waiting.popleft()
        limit = None if budget_s is None else max((end - time.monotonic()) / 2, _LEAST_S)
        made = compute(group, limit, longer)
        results |= made.results
        usable = made.usable(session)
        if usable and not made.planning and not made.over:
            continue
        harmed = True
        remaining = made.undecided(group)
        if made.over and waiting:
            session.heal()  # a thread that matches on is one less for the next check
        if not usable:
            session.renew()
            session.wait(ending=made.ending)
        once_more = not made.planning and not made.over and not before.issuperset(each.id for each in remaining)
        before.update(each.id for each in remaining)
        if made.planning and not made.over and longer < SLOW_READ and not sane and not any(map(free_text, group)):
            longer = SLOW_READ  # not the text of a check: the read itself is planned for so long
            waiting.appendleft(remaining)
        elif len(group) > 1 or once_more:
            waiting.extend([each] for each in remaining)
        elif remaining:
            results[remaining[0].id] = _judged(table, remaining[0], made, session)
    return results, harmed


def _judged(table: str, configured: ConfiguredCheck, made: Attempt, session: Session) -> Check:
    """The error of a check that was computed alone, and what is remembered of it."""
    if made.over and (pattern := endless_pattern(configured)):
        session.suspects.accuse(table, configured.id, f"{LATE}: {pattern}")
        return configured.blank(State.ERROR, f"{LATE}: {pattern}")
    if made.over:
        session.suspects.suspect(table, configured.id)
        return configured.blank(State.ERROR, LATE)
    why = ENDLESS if made.planning else DEADLY
    session.suspects.accuse(table, configured.id, why)
    detail = f": {sentence(str(made.error))}" if made.error is not None and not made.planning else ""
    hint = DEEP if why == DEADLY and patterns_of(configured.kwargs) else ""
    return configured.blank(State.ERROR, f"{why}{hint}{detail}")
