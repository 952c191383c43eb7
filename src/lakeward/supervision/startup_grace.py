"""Calm: for one lease's life after the registry answers again nothing is launched, so that drivers can renew first.

A driver cut off from the registry lands on; its lease lapses meanwhile. The mark of the outage is a file, because
the registry is what was away and each pass is a process of its own.
"""

from __future__ import annotations

import time
from pathlib import Path

from lakeward.platform.text import span
from lakeward.registry.leases import STREAM_TTL

_AWAY = "away"


class StartupGracePeriod:
    """Remembers on this machine that the registry was away."""

    def __init__(self, folder: Path, ttl_s: float = STREAM_TTL.total_seconds()) -> None:
        self._file = folder / ".registry-away"
        self._ttl_s = ttl_s

    def lost(self) -> None:
        """The registry could not be reached."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(_AWAY)

    def answered(self, *, server_up_s: float) -> str | None:
        """The registry answers. Returns why nothing may be launched yet, or None.

        Args:
            server_up_s: for how long its server has been up: a restart nobody noticed counts as an outage too.
        """
        # A server younger than nothing: its clock was set back, which says nothing about a restart.
        restarted = self._ttl_s - server_up_s if server_up_s >= 0 else 0.0
        left = max(restarted, self._left())
        if left <= 0:
            self._file.unlink(missing_ok=True)
            return None
        return f"the registry answers again only since a moment: drivers renew for {span(left)} before anything starts"

    def _left(self) -> float:
        try:
            text = self._file.read_text()
        except FileNotFoundError:
            return 0.0
        now = time.time()
        try:
            since = float(text)
        except ValueError:
            since = now + 1  # the first answer after an outage
        if since > now:  # or somebody has set the clock back since: the wait begins anew, and is no longer for it
            self._file.write_text(str(now))
            since = now
        return self._ttl_s - (now - since)
