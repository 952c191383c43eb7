"""Startup grace period: no launch for one lease lifetime after a registry outage, so that drivers renew first.

A driver that cannot reach the registry continues to land, while its lease expires. The outage is recorded in a file,
because the registry was down and each pass is a process of its own.
"""

from __future__ import annotations

import time
from pathlib import Path

from lakeward.platform.text import span
from lakeward.registry.leases import STREAM_TTL

_AWAY = "away"


class StartupGracePeriod:
    """Remembers on this machine that the registry was not reachable."""

    def __init__(self, folder: Path, ttl_s: float = STREAM_TTL.total_seconds()) -> None:
        self._file = folder / ".registry-away"
        self._ttl_s = ttl_s

    def lost(self) -> None:
        """Record that the registry could not be reached."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(_AWAY)

    def answered(self, *, server_up_s: float) -> str | None:
        """Record that the registry answers. Returns why nothing may be launched yet, or None.

        Args:
            server_up_s: uptime of its server: an unnoticed restart counts as an outage, too.
        """
        # A negative uptime: the server's clock was set back, which is no restart.
        restarted = self._ttl_s - server_up_s if server_up_s >= 0 else 0.0
        remaining = max(restarted, self._remaining())
        if remaining <= 0:
            self._file.unlink(missing_ok=True)
            return None
        return f"the registry was down until now: nothing is launched for {span(remaining)}, drivers renew first"

    def _remaining(self) -> float:
        try:
            text = self._file.read_text()
        except FileNotFoundError:
            return 0.0
        now = time.time()
        try:
            since = float(text)
        except ValueError:
            since = now + 1  # the first answer after an outage
        if since > now:  # or the clock was set back: the period starts again, and is not longer for it
            self._file.write_text(str(now))
            since = now
        return self._ttl_s - (now - since)
