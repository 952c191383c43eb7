"""Whether the Connect server is ended, so that its supervisor starts it again. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PATIENCE_S = 600.0
"""Others who use the server are waited for so long; then their statements fail and are repeated."""


class Act(StrEnum):
    """What to do with the server.

    Attributes:
        LEAVE: nothing works on what was given up.
        WAIT: others use it; look again after the next run.
        WARN: it has to be restarted, and this process cannot do it.
        END: end it.
    """

    LEAVE = "leave"
    WAIT = "wait"
    WARN = "warn"
    END = "end"


@dataclass(frozen=True)
class ServerFacts:
    """What is known of a server on which something was given up.

    Attributes:
        local: whether its process is on this machine and ours.
        working: threads of it that plan or run tasks although no statement of this process is open.
        others: who else uses it, e.g. `compact of nyc.flights`.
        since_s: seconds since something was given up.
    """

    local: bool
    working: int
    others: tuple[str, ...]
    since_s: float


def decide(facts: ServerFacts) -> Act:
    """What to do."""
    if not facts.local:
        return Act.WARN
    if facts.working == 0:
        return Act.LEAVE
    if facts.others and facts.since_s < PATIENCE_S:
        return Act.WAIT
    return Act.END
