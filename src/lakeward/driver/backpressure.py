"""Back-pressure: streams whose table is behind with maintenance commit half as often, or wait for the rewrite."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from lakeward.driver.maintenance_pause import AGAIN_S
from lakeward.driver.running import Running
from lakeward.engine.assignment import DesiredState
from lakeward.registry.backpressure import Level
from lakeward.spec.model.stream import StreamSpec

_log = structlog.get_logger(__name__)


@dataclass
class Backpressure:
    """Keeps which streams are slowed down, and since when."""

    _since: dict[str, tuple[Level, float]] = field(default_factory=dict)

    def turn(self, running: Mapping[str, Running], desired: DesiredState | None, taken: float) -> None:
        """Set the pace of every stream. Without the registry no stream is slowed down."""
        now = time.monotonic()
        requests = desired.request(taken) if desired is not None else None
        pressures = requests.pressures if requests is not None else {}
        for name, query in running.items():
            pressed = pressures.get(_table_of(query.assignment.spec) or "")
            before = self._since.get(name)
            if pressed is None or pressed.level is Level.RELEASED:
                if before is not None:
                    del self._since[name]
                    query.gate.space(0)
                    _log.info("back-pressure released", stream=name, slowed_s=round(now - before[1], 1))
                continue
            if before is None or before[0] is not pressed.level:
                self._since[name] = (pressed.level, before[1] if before is not None else now)
                _log.warning(
                    "back-pressure: stream waits for maintenance"
                    if pressed.level is Level.HOLD
                    else "back-pressure: stream commits half as often",
                    stream=name,
                    why=pressed.why,
                )
            query.gate.space(_distance_s(query.assignment.spec, pressed.level), AGAIN_S)
        for name in self._since.keys() - running.keys():
            del self._since[name]


def _table_of(spec: StreamSpec) -> str | None:
    sink = spec.sink.iceberg or spec.sink.delta
    return str(sink.table) if sink is not None else None


def _distance_s(spec: StreamSpec, level: Level) -> float:
    """Seconds from the start of one batch to the start of the next."""
    if level is Level.HOLD:
        return math.inf
    every = spec.trigger.interval.seconds if spec.trigger.interval is not None else 0
    return min(2.0 * every, float(spec.limits.freshness.seconds))
