"""Maintenance pause: streams that change rows of a table pause between two batches while maintenance rewrites it.

Two leases. Maintenance holds `window` of the table: while it is live, drivers start no batch. The driver holds `rests`
of the stream: it confirms that no batch is running. If either side dies, its lease expires and the other side
continues.
"""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection

from lakeward.registry import leases

WINDOW, RESTS = "window", "rests"
TTL = timedelta(seconds=15)
"""A stream continues at the latest after this time if maintenance died."""


def requested(connection: Connection) -> dict[str, str]:
    """Table -> token of its maintenance pause, of pauses that are in force now."""
    return {name: lease.token for name, lease in leases.current(connection, WINDOW).items() if lease.live}


def running(connection: Connection, streams: list[str]) -> list[str]:
    """Those of these streams that may be inside a batch: they run, and no pause is confirmed."""
    runs, rests = leases.current(connection, "stream", streams), leases.current(connection, RESTS, streams)
    live = {name for name, lease in runs.items() if lease.live}
    return sorted(name for name in live if name not in rests or not rests[name].live)
