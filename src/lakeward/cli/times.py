"""A time as people give it on a command line: a moment, or how long from now."""

from __future__ import annotations

from datetime import UTC, datetime

from lakeward.platform.errors import SpecError
from lakeward.spec.model.types import Duration


def until_when(until: str | None, for_: str | None) -> datetime | Duration:
    """What a person said: a time, or how long from now.

    Raises:
        SpecError: neither, both, or not readable.
    """
    if (until is None) == (for_ is None):
        raise SpecError("Until when?", why="give one of --until and --for", next="--for 2h", code="LW-1239")
    try:
        if for_ is not None:
            return Duration(for_)
        found = datetime.fromisoformat(str(until))
    except ValueError as error:
        raise SpecError(
            f"{until or for_} cannot be read", why=str(error), next="--until 2026-11-21T06:00:00Z", code="LW-1240"
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
