"""How the workers of a run share the test files: the longest first, and files that share dear fixtures together.

A unit of work is a file. Seconds are those recorded in `tests/durations.json` (`make durations` writes them). A worker
that has started a Spark session, or a Spark Connect server, goes on with the files that use it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadScopeScheduling

DURATIONS = Path(__file__).parents[1] / "durations.json"
DEFAULT_S = {"session": 40.0, "connect": 40.0, "airflow": 60.0, "": 5.0}
"""Of a file that no run has recorded yet."""
STARTS_S = 30.0
"""A file that is shorter does not make a worker start the fixtures of a family."""


def family(scope: str) -> str:
    """The fixtures that a unit of work shares with others; empty for none."""
    parts = scope.split("/")
    if scope == "airflow":
        return "airflow"
    if parts[:2] != ["tests", "spark"]:
        return ""
    return "connect" if parts[2] in ("quality", "tables") else "session"


def scope_of(nodeid: str) -> str:
    """The unit of work of a test: its file. All that use the one Airflow of a run are one unit."""
    file = nodeid.partition("::")[0]
    return "airflow" if file.startswith("tests/dags/") or file.endswith("/test_airflow_survival.py") else file


def recorded(file: Path = DURATIONS) -> dict[str, float]:
    """Seconds of each unit of work."""
    found: defaultdict[str, float] = defaultdict(float)
    if file.exists():
        for name, seconds in json.loads(file.read_text()).items():
            found[scope_of(name)] += seconds
    return dict(found)


def choose(waiting: Mapping[str, float], own: Set[str], begun: Set[str], workers: int) -> str:
    """What a worker takes next.

    A unit so long that the run would end late if it waited goes first. Then the longest of a family this worker has
    begun; then of the family with most left to do that no worker has begun; then of any.

    Args:
        waiting: units that nobody has taken, with their seconds; not empty.
        own: families this worker has begun.
        begun: families any worker has begun.
    """
    ranked = sorted(waiting, key=lambda scope: (-waiting[scope], scope))
    longest, left = ranked[0], sum(waiting.values())
    if waiting[longest] >= max(STARTS_S, left / workers):
        return longest
    totals: defaultdict[str, float] = defaultdict(float)
    for scope, seconds in waiting.items():
        totals[family(scope)] += seconds
    candidates = [each for each in totals if each in own] or [each for each in totals if each not in begun] or [*totals]
    chosen = max(candidates, key=lambda each: (totals[each], each))
    return next(scope for scope in ranked if family(scope) == chosen)


class ByDuration(LoadScopeScheduling):
    """Gives each worker what `choose` says."""

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        self._seconds = recorded()
        self._begun: dict[Any, set[str]] = {}

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        waiting = {scope: self._seconds.get(scope, DEFAULT_S[family(scope)]) for scope in self.workqueue}
        own = self._begun.setdefault(node, set())
        chosen = choose(waiting, own, set().union(*self._begun.values()), self.numnodes)
        own.add(family(chosen))
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)
