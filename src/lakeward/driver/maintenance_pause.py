"""Maintenance pause: which streams pause between batches while their table is rewritten, and for how long at most."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from lakeward.driver.running import Running
from lakeward.engine.assignment import DesiredState
from lakeward.spec.model.stream import StreamSpec

_log = structlog.get_logger(__name__)

AGAIN_S = 15.0
"""How long a gate pauses unless renewed: a hanging control loop or a missing registry must not stop streams."""
CHANGES_ROWS = ("upsert", "complete")


@dataclass
class MaintenancePause:
    """Keeps since when each stream pauses in which maintenance window."""

    _since: dict[str, tuple[str, float]] = field(default_factory=dict)

    def turn(self, running: Mapping[str, Running], desired: DesiredState | None, taken: float) -> frozenset[str]:
        """Pause the requested streams within their freshness limit; returns those that pause between batches now."""
        now = time.monotonic()
        requests = desired.request(taken) if desired is not None else None
        windows = requests.windows if requests is not None else {}
        for name, query in running.items():
            token = windows.get(table_of(query.assignment.spec) or "")
            before = self._since.get(name)
            if token is None:
                if before is not None:
                    del self._since[name]
                    query.gate.pause_for(0)
                    _log.info("maintenance pause ended", stream=name, rested_s=round(now - before[1], 1))
                continue
            if before is None or before[0] != token:
                before = self._since[name] = (token, now)
                _log.info("maintenance pause started", stream=name, at_most_s=_budget_s(query.assignment.spec))
            remaining = before[1] + _budget_s(query.assignment.spec) - now
            query.gate.pause_for(min(AGAIN_S, max(0.0, remaining)))
        for name in self._since.keys() - running.keys():
            del self._since[name]
        return frozenset(name for name in self._since if running[name].gate.paused)


def table_of(spec: StreamSpec) -> str | None:
    """The table whose rows the batches change; None if the stream only appends, which a rewrite does not disturb."""
    sink = spec.sink.iceberg or spec.sink.delta
    return str(sink.table) if sink is not None and sink.mode in CHANGES_ROWS else None


def _budget_s(spec: StreamSpec) -> float:
    """The longest pause: the stream's freshness limit."""
    return float(spec.limits.freshness.seconds)
