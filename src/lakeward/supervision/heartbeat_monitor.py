"""Heartbeat monitor: sends the incident that reconcile passes are missing.

The reconcile pass sends the messages of all incidents. When no pass succeeds (`supervision.dead_mans_switch`), this
monitor, which runs in the triggerer, sends them.
"""

from __future__ import annotations

import structlog

from lakeward.platform.errors import DependencyDown
from lakeward.registry import incidents
from lakeward.supervision.incidents import RECONCILE, STREAMS
from lakeward.supervision.notify.channel import Channel
from lakeward.supervision.notify.deliver import deliver
from lakeward.supervision.observe import Connect

log = structlog.get_logger(__name__)


class HeartbeatMonitor:
    """Sends pending messages while the incident of missing passes is open. The pass that closes it sends the end."""

    def __init__(self, connect: Connect, channel: Channel) -> None:
        self._connect, self._channel = connect, channel
        self._logged: int | None = None

    def poll(self) -> str | None:
        """Why the streams are not supervised; None if they are, or if the registry cannot be reached."""
        try:
            with self._connect() as connection:
                missing = incidents.open_ones(connection).get((RECONCILE, STREAMS))
            if missing is None:
                return None
            deliver(self._connect, self._channel)
        except DependencyDown:
            return None
        if missing.id != self._logged:
            log.error(
                "reconcile passes missing", text=missing.text, incident=missing.id, next=missing.fields.get("next")
            )
            self._logged = missing.id
        return missing.text
