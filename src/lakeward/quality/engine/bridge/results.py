"""A result of Great Expectations as ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakeward.quality.results.json_values import plain, sentence
from lakeward.quality.suite.configured import Asked
from lakeward.quality.verdicts.verdict import Check, State

SAMPLE = 10
"""Most rows kept of a check."""
SQL = "unexpected_rows_expectation"
_OF_VALUES = "expect_column_distinct_values_"


def as_check(asked: Asked, found: Any) -> Check:
    """What GX found; None stands for no result."""
    blank = asked.blank(State.ERROR)
    if found is None:
        return replace(blank, error="Great Expectations gave no result for this check")
    error = _error(found.exception_info or {})
    if error is not None:
        return replace(blank, error=sentence(error))
    result: dict[str, Any] = found.result or {}
    passed, strict = bool(found.success), asked.strict
    unexpected = result.get("unexpected_count", 0 if passed and strict and "observed_value" not in result else None)
    details: dict[str, Any] = result.get("details") or {}
    sample = result.get("unexpected_rows") or details.get("unexpected_rows") or []
    observed = result.get("observed_value")
    if asked.expectation.type == SQL:
        unexpected = observed
    if str(asked.expectation.type).startswith(_OF_VALUES):
        told = {"values are not in the set": unexpected, "of the set are missing": result.get("missing_count")}
        observed = ", ".join(f"{count} {words}" for words, count in told.items() if count is not None)
        unexpected = None  # rows are not counted
    if observed is None and result.get("unexpected_percent") is not None:
        observed = f"{result['unexpected_percent']:.4g}% of {result.get('element_count')} rows fail"
    return replace(
        blank,
        state=State.PASS if passed else State.FAIL,
        observed=plain(observed),
        rows=result.get("element_count"),
        unexpected_count=unexpected,
        sample=tuple(plain(row) for row in list(sample)[:SAMPLE]),
    )


def _error(info: dict[str, Any]) -> str | None:
    """GX tells an exception in two shapes: flat, or by the metric that raised."""
    for each in (info, *info.values()):
        if isinstance(each, dict) and each.get("raised_exception"):
            return str(each.get("exception_message") or _cause(str(each.get("exception_traceback") or "")))
    return None


def _cause(traceback: str) -> str:
    """What raised first, where GX kept no message: the last line of the first of the chained tracebacks."""
    lines = traceback.split("\n\n")[0].strip().splitlines()
    return lines[-1].strip() if lines else "the check raised an exception"
