"""What a cluster says about the place of a driver, for `doctor` and `config validate --deep`."""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.connectors.cluster.connection import BadConnection
from lakeward.platform.errors import LakewardError


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
    key = "connection" if isinstance(error, BadConnection) else ""
    return Answer(driver, place, f"{error.headline}: {error.why}", error.next, key)
