"""Options `--until` and `--for`: a time, or a duration from now."""

from __future__ import annotations

from datetime import UTC, datetime

from lakeward.platform.errors import SpecError
from lakeward.spec.model.types import Duration


def until_when(until: str | None, for_: str | None) -> datetime | Duration:
    """The value of `--until` or `--for`.

    Raises:
        SpecError: neither or both are given, or the value is not valid.
    """
    if (until is None) == (for_ is None):
        raise SpecError(
            "Missing option --until or --for" if until is None else "Options --until and --for exclude each other",
            why="exactly one of them names the end",
            next="give a duration: --for 2h",
            code="LW-1239",
        )
    try:
        if for_ is not None:
            return Duration(for_)
        time = datetime.fromisoformat(str(until))
    except ValueError as error:
        raise SpecError(
            f"Cannot read {until or for_}",
            why=str(error),
            next="give a duration from now: --for 2h",
            code="LW-1240",
        ) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
