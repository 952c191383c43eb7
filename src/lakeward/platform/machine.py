"""Whether this machine is starved of CPU, and how much longer a limit of time is then.

A limit that ends work which is begun again from nothing (a cold start, a batch, a process of one's own) feeds the load
that made it slow. Such limits are longer while the machine is starved. They stay limits: a hang is ended later.
"""

from __future__ import annotations

import os

STARVED_LOAD = 4.0
"""Processes that want to run for each CPU, in the average of a minute."""
LONGER = 4.0


def starved() -> bool:
    """Whether this machine has much more work than CPU: a process may wait for its turn for many seconds."""
    try:
        return os.getloadavg()[0] > STARVED_LOAD * (os.cpu_count() or 1)
    except OSError:
        return False


def patience(seconds: float) -> float:
    """A limit in seconds, longer while the machine is starved."""
    return seconds * LONGER if starved() else seconds
