"""Windows: maintenance asks the streams that change a table's rows to rest between two batches while it rewrites.

Two leases. `window` of a table is maintenance's: while it is live, drivers let no batch in. `rests` of a stream is its
driver's word that none is inside. Either side may die: its lease lapses, and the other goes on.
"""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection

from lakeward.registry import leases

WINDOW, RESTS = "window", "rests"
TTL = timedelta(seconds=15)
"""A stream whose maintenance died goes on after this long at the latest."""


def opened(connection: Connection) -> dict[str, str]:
    """Table -> token of the windows that are open now."""
    return {name: each.token for name, each in leases.current(connection, WINDOW).items() if each.live}


def awake(connection: Connection, streams: list[str]) -> list[str]:
    """Which of these streams may be inside a batch: somebody runs them, and does not say that they rest."""
    runs, rests = leases.current(connection, "stream", streams), leases.current(connection, RESTS, streams)
    live = {name for name, each in runs.items() if each.live}
    return sorted(name for name in live if name not in rests or not rests[name].live)
