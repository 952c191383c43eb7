"""Which tables are maintained first when not all can be: by what readers gain, what it costs, and how long it waited.

Gain and cost are scaled over the tables that compete. Waiting is not: whatever its score, a table comes first in the
end, so none starves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from lakeward.platform.text import span
from lakeward.tables.plan.model import Action, Plan

GAIN, COST, PER_HOUR = 0.7, 0.3, 0.05
_A_SNAPSHOT: Final = 0.1  # of a file: no reader opens it, but every commit writes it again into the metadata


@dataclass(frozen=True)
class Candidate:
    """A table with something due.

    Attributes:
        plan: its plan.
        waiting: since when something has been due, and nothing was done.
        reads: weight of who reads it; 1 where nobody is known.
    """

    plan: Plan
    waiting: timedelta = timedelta()
    reads: float = 1.0

    @property
    def gain(self) -> float:
        return self.reads * sum(_removed(each) for each in self.plan.actions)

    @property
    def cost_s(self) -> float:
        return sum(each.expected_s for each in self.plan.actions)


@dataclass(frozen=True)
class Ranked:
    """A table that is maintained now, with its score."""

    table: str
    score: float
    cost_s: float


@dataclass(frozen=True)
class LeftOut:
    """A table that waits although something is due. `next_at`: when those before it should be done."""

    table: str
    why: str
    next_at: datetime


def rank(candidates: Sequence[Candidate], budget_s: float, now: datetime) -> tuple[list[Ranked], list[LeftOut]]:
    """The tables maintained now, best first, and the ones left out.

    Args:
        candidates: tables; those with nothing due are passed over.
        budget_s: expected seconds that may be spent. A table dearer than the whole budget is taken only when it comes
            first.
        now: the moment `next_at` is measured from.
    """
    due = [each for each in candidates if each.plan.actions]
    gains, costs = _scaled([each.gain for each in due]), _scaled([each.cost_s for each in due])
    scored = [
        (GAIN * gain - COST * cost + PER_HOUR * (each.waiting / timedelta(hours=1)), each)
        for each, gain, cost in zip(due, gains, costs, strict=True)
    ]
    scored.sort(key=lambda pair: (-pair[0], pair[1].plan.table))
    chosen: list[Ranked] = []
    left: list[tuple[int, Candidate, float]] = []
    spent = 0.0
    for place, (score, each) in enumerate(scored, start=1):
        if chosen and spent + each.cost_s > budget_s:
            left.append((place, each, budget_s - spent))
            continue
        chosen.append(Ranked(each.plan.table, score, each.cost_s))
        spent += each.cost_s
    free = now + timedelta(seconds=spent)
    return chosen, [
        LeftOut(
            each.plan.table,
            f"place {place} of {len(scored)}: needs {span(each.cost_s)}, {span(max(rest, 0))} of the budget's "
            f"{span(budget_s)} were left",
            free,
        )
        for place, each, rest in left
    ]


def _removed(action: Action) -> float:
    if action.action == "compact":
        return max(sum(each.takes - each.gives for each in action.rewrites), 0)
    return action.files * (_A_SNAPSHOT if action.action == "expire" else 1.0)


def _scaled(values: Sequence[float]) -> list[float]:
    """From 0, the least, to 1, the most; all 0 where all are the same."""
    least, most = min(values, default=0.0), max(values, default=0.0)
    return [(each - least) / (most - least) if most > least else 0.0 for each in values]
