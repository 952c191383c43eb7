"""What a cluster says about the place of a driver, for `doctor` and `config validate --deep`."""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.platform.errors import LakewardError

CONNECTION = tuple(f"LW-{number}" for number in range(2581, 2589))
"""Codes of what is wrong with the connection of a driver."""


@dataclass(frozen=True)
class Answer:
    """What was found at the place of one driver.

    Attributes:
        driver, place, found: the driver, where it is to run, and what was found there.
        next: the command that repairs it; empty if it can run there.
        key: the key of its entry that is wrong; empty for the whole entry.
    """

    driver: str
    place: str
    found: str
    next: str = ""
    key: str = ""


def of_error(driver: str, place: str, error: LakewardError) -> Answer:
    """The answer for an error; one of the connection is at its key."""
    key = "connection" if error.code in CONNECTION else ""
    return Answer(driver, place, f"{error.headline}: {error.why}", error.next, key)
