"""The watchman: tells people that nobody looks after the streams any more. He is not the one who does.

The reconcile pass sends the messages of all incidents. When it stays away (`control.deadman`), somebody else must.
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
    """Sends what is unsaid while the incident of the missing passes is open. The pass that ends it tells its end."""

    def __init__(self, connect: Connect, channel: Channel) -> None:
        self._connect, self._channel = connect, channel
        self._logged: int | None = None

    def look(self) -> str | None:
        """Why nobody looks after the streams; None if somebody does, or if the registry cannot say."""
        try:
            with self._connect() as connection:
                missing = incidents.open_ones(connection).get((RECONCILE, STREAMS))
            if missing is None:
                return None
            deliver(self._connect, self._channel)
        except DependencyDown:
            return None
        if missing.id != self._logged:
            log.error(missing.text, incident=missing.id, next=missing.fields.get("next"))
            self._logged = missing.id
        return missing.text
