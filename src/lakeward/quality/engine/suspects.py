"""Checks that ended the server, or whose plan did not end: they are computed alone, and not again at once. Pure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from lakeward.quality.arguments.patterns import patterns_of, slow
from lakeward.quality.suite.configured import ConfiguredCheck

PAUSE_S = 600.0
"""A check that harmed the server is computed again after so long, or as soon as its arguments change."""
_QUERY = "unexpected_rows_query"


@dataclass
class Suspects:
    """What a checking process knows of checks that cost others their verdict, by table and check id.

    Attributes:
        harmful: why each is not computed, and until which monotonic time.
        apart: those that are computed alone.
    """

    harmful: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)
    apart: set[tuple[str, str]] = field(default_factory=set)

    def suspect(self, table: str, check: str) -> None:
        """Compute the check alone from now on."""
        self.apart.add((table, check))

    def accuse(self, table: str, check: str, why: str, now: float | None = None) -> None:
        """Do not compute the check for a while: it alone ended the server, or its plan did not end."""
        self.suspect(table, check)
        self.harmful[table, check] = why, (time.monotonic() if now is None else now) + PAUSE_S

    def paused(self, table: str, check: str, now: float | None = None) -> str:
        """Why the check is not computed now, as a sentence; empty if it is."""
        why, until = self.harmful.get((table, check), ("", 0.0))
        left = until - (time.monotonic() if now is None else now)
        if not why or left <= 0:
            return ""
        return f"{why}; it is computed again after {left / 60:.0f} min, or when its arguments change"

    def alone(self, table: str, configured: ConfiguredCheck) -> bool:
        """Whether the check is computed alone: it is suspect, or Java may match its pattern without end."""
        return (table, configured.id) in self.apart or bool(endless_pattern(configured))


def endless_pattern(configured: ConfiguredCheck) -> str:
    """Why Java may match a pattern of the check without end, as a clause; empty if nothing shows it."""
    return next((why for each in patterns_of(configured.kwargs).values() if (why := slow(each))), "")


def free_text(configured: ConfiguredCheck) -> bool:
    """Whether the check has SQL or a pattern of a person's own, and so may be the one without an end."""
    kwargs = configured.kwargs
    return bool(_QUERY in kwargs or kwargs.get("row_condition") or patterns_of(kwargs))


def parts(checks: Sequence[ConfiguredCheck]) -> list[list[ConfiguredCheck]]:
    """The checks to compute together: first all without text of a person's own, then each of the others."""
    plain = [each for each in checks if not free_text(each)]
    several = [plain] if plain and len(plain) < len(checks) else [[each] for each in plain]
    return [*several, *([each] for each in checks if free_text(each))]
