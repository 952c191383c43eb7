"""Ranks the tables to maintain when not all can be: by gain for readers, cost, and waiting time. Pure.

Gain and cost are scaled over the competing tables. Waiting time is not: it raises every table to the top in the end, so
none starves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from lakeward.platform.text import span
from lakeward.tables.plan.model import Action, Plan

GAIN, COST, PER_HOUR = 0.7, 0.3, 0.05
_A_SNAPSHOT: Final = 0.1  # relative to a file: readers do not open it, but every commit rewrites it in the metadata


@dataclass(frozen=True)
class Candidate:
    """A table with due actions.

    Attributes:
        plan: its plan.
        waiting: how long an action has been due.
        reads: weight by its readers; 1 without a known reader.
    """

    plan: Plan
    waiting: timedelta = timedelta()
    reads: float = 1.0

    @property
    def gain(self) -> float:
        return self.reads * sum(_removed(action) for action in self.plan.actions)

    @property
    def cost_s(self) -> float:
        return sum(action.expected_s for action in self.plan.actions)


@dataclass(frozen=True)
class Ranked:
    """A table to maintain now, with its score."""

    table: str
    score: float
    cost_s: float


@dataclass(frozen=True)
class LeftOut:
    """A table that waits although actions are due. `next_at`: when those before it should have ended."""

    table: str
    why: str
    next_at: datetime


def rank(candidates: Sequence[Candidate], budget_s: float, now: datetime) -> tuple[list[Ranked], list[LeftOut]]:
    """The tables to maintain now, best first, and those that wait.

    Args:
        candidates: tables; those without due actions are ignored.
        budget_s: expected seconds that may be spent. A table that exceeds the whole budget is chosen only if it ranks
            first.
        now: the moment `next_at` is measured from.
    """
    due = [candidate for candidate in candidates if candidate.plan.actions]
    gains, costs = _scaled([candidate.gain for candidate in due]), _scaled([candidate.cost_s for candidate in due])
    scored = [
        (GAIN * gain - COST * cost + PER_HOUR * (each.waiting / timedelta(hours=1)), each)
        for each, gain, cost in zip(due, gains, costs, strict=True)
    ]
    scored.sort(key=lambda pair: (-pair[0], pair[1].plan.table))
    chosen: list[Ranked] = []
    left_out: list[tuple[int, Candidate, float]] = []
    spent = 0.0
    for place, (score, each) in enumerate(scored, start=1):
        if chosen and spent + each.cost_s > budget_s:
            left_out.append((place, each, budget_s - spent))
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
        for place, each, rest in left_out
    ]


def _removed(action: Action) -> float:
    if action.action == "compact":
        return max(sum(rewrite.takes - rewrite.gives for rewrite in action.rewrites), 0)
    return action.files * (_A_SNAPSHOT if action.action == "expire" else 1.0)


def _scaled(values: Sequence[float]) -> list[float]:
    """Scaled from 0 (the least) to 1 (the most); all 0 if all are equal."""
    least, most = min(values, default=0.0), max(values, default=0.0)
    return [(each - least) / (most - least) if most > least else 0.0 for each in values]
