"""What a cluster says about the place of a driver, for `doctor` and `config validate --deep`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """What was found at the place of one driver. `next`: the command that repairs it; empty if it can run there."""

    driver: str
    place: str
    found: str
    next: str = ""
