"""Back-pressure: whether streams commit faster than their table is compacted, and whether to slow them down. Pure.

Commits count only while a rewrite is due. A stream of large files needs none and is never slowed down; a stream whose
table is in its cooldown, or held by a person, would wait in vain.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakeward.platform.text import minute
from lakeward.registry.backpressure import Level
from lakeward.spec.model.policy import Compact
from lakeward.spec.model.policy import Pressure as Limits
from lakeward.tables.facts import TableFacts
from lakeward.tables.plan.model import NotPlanned, Plan


@dataclass(frozen=True)
class Pressure:
    """The decision.

    Attributes:
        level: `warn` warns a person, `lengthen` doubles the trigger interval of its streams, `hold` pauses them.
        commits: on main since the last successful rewrite, as far as history is retained.
        why: one sentence, empty for level `ok`.
    """

    level: Level
    commits: int
    why: str = ""


def pressure(facts: TableFacts, compact: Compact, limits: Limits, rewritten: datetime | None, plan: Plan) -> Pressure:
    """Decide for a table.

    Args:
        facts: the table now.
        compact, limits: its policy.
        rewritten: when its last successful compaction ended; None: never.
        plan: its plan; without a due rewrite no stream is slowed down.
    """
    since = [
        snapshot
        for snapshot in facts.main()
        if snapshot.operation != "replace" and (rewritten is None or snapshot.at > rewritten)
    ]
    commits = len(since)
    waiting = max((part.fragments for part in facts.profile.partitions), default=0)
    reached = [level for level, limit in _limits(limits) if limit is not None and commits >= limit]
    if not reached or waiting < compact.min_fragments:
        return Pressure(Level.OK, commits)
    last = f"the last good rewrite at {minute(rewritten)}" if rewritten else "its history began, none rewritten"
    why = f"{commits} commits since {last}, {waiting} fragments in one partition"
    stopped = _stopped(plan)
    if reached[-1] is Level.WARN or stopped is None:
        return Pressure(reached[-1], commits, why)
    return Pressure(Level.WARN, commits, f"{why}; its streams are not slowed down, no rewrite is due: {stopped}")


def _limits(limits: Limits) -> tuple[tuple[Level, int | None], ...]:
    """From the least to the most."""
    return (Level.WARN, limits.warn), (Level.LENGTHEN, limits.lengthen), (Level.HOLD, limits.hold)


def _stopped(plan: Plan) -> str | None:
    """Why no rewrite is due; None where one is."""
    if any(action.action == "compact" for action in plan.actions):
        return None
    found: NotPlanned | None = next((item for item in plan.not_planned if item.action == "compact"), None)
    return found.why if found is not None else "compaction was not planned"
