"""Formats of decoded values: how times, days and decimals are written in records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Decimals = Literal["text", "number"]
WithoutZone = Literal["utc", "refuse"]


@dataclass(frozen=True)
class Formats:
    """The declared formats of one decoder; the defaults are strict.

    Attributes:
        timestamps: `iso`, `epoch_s`, `epoch_ms` or a pattern of Spark.
        dates: `iso` or a pattern.
        decimals: the only JSON token that a DECIMAL may be; None: either, as both are exact.
        without_zone: what an ISO time without a zone is.
    """

    timestamps: str = "iso"
    dates: str = "iso"
    decimals: Decimals | None = None
    without_zone: WithoutZone = "utc"
