"""Columns nobody should read in a message: their values are cut out of what a run keeps and tells. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from lakeward.quality.verdicts.verdict import Check
from lakeward.telemetry.mask import MASK


def masked(checks: Iterable[Check], columns: Collection[str]) -> list[Check]:
    """The checks without the values of these columns, in sample rows and as observed; a null stays a null."""
    hidden = {each.lower() for each in columns}
    return [_masked(each, hidden) for each in checks] if hidden else list(checks)


def _masked(check: Check, hidden: set[str]) -> Check:
    sample = tuple(_row(each, hidden) for each in check.sample)
    about = {str(check.kwargs[key]).lower() for key in ("column", "column_A", "column_B") if key in check.kwargs}
    # Of rows Great Expectations tells how many fail; of anything else, e.g. a maximum, the value itself.
    told = check.observed is not None and check.unexpected_count is None and bool(about & hidden)
    return replace(check, sample=sample, observed=MASK if told else check.observed)


def _row(row: Any, hidden: set[str]) -> Any:
    if not isinstance(row, dict):
        return MASK if row is not None else None
    return {name: MASK if name.lower() in hidden and value is not None else value for name, value in row.items()}
