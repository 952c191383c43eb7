from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from lakeward.platform.errors import DependencyDown
from lakeward.registry import heartbeats, incidents
from lakeward.registry.incidents import Incident
from lakeward.supervision.alarm import Alarm
from lakeward.supervision.heartbeat_monitor import HeartbeatMonitor


class Heard:
    """A channel that only keeps what it was given."""

    name = "heard"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def send(self, incident: Incident) -> dict[str, Any]:
        self.texts.append(incident.text)
        return {}


@pytest.fixture
def heard() -> Heard:
    return Heard()


def test_missing_passes_are_reported_by_somebody_else_and_once(connected, runtime, backend, heard) -> None:
    watchman, alarm = HeartbeatMonitor(connected, heard), Alarm(connected, runtime, backend)
    alarm.poll()
    assert watchman.poll() is None
    with connected() as connection:
        heartbeats.record(connection, "reconcile", duration_s=0.1)
        connection.execute(text("UPDATE ticks SET at = now() - interval '400 seconds'"))
    assert any("7 min" in reason for reason in alarm.poll())
    assert "7 min" in str(watchman.poll())
    assert watchman.poll() is not None
    assert len(heard.texts) == 1, "said once"
    with connected() as connection:
        incidents.closed(connection, "reconcile", "streams", "A reconcile pass succeeded again")
    assert watchman.poll() is None, "its end is told by the pass that ends it"


def test_a_registry_that_is_away_is_no_reason_to_stop_watching(heard) -> None:
    def away():
        raise DependencyDown("The registry cannot be reached")

    assert HeartbeatMonitor(away, heard).poll() is None
