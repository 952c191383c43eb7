"""Great Expectations on DataFrames of Spark Connect. Imported only by the checking process: GX costs 7 CPU-seconds.

Two phases: every check as cheap as GX can (`BOOLEAN_ONLY`, nothing persisted), then details of the failed ones only.
GX from `BASIC` up reads the data once more for every check, failed or not, so a healthy table would cost the most.
Nothing collects all failing rows: at most `SAMPLE` whole rows a check, which carry the source's position columns.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakeward.quality.plain import plain, sentence
from lakeward.quality.suites import Asked
from lakeward.quality.verdict import Check, State

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame

SAMPLE = 10
_SQL = "unexpected_rows_expectation"


class Checker:
    """One ephemeral GX context for many frames. For one thread: GX's SQL checks share a session's view name."""

    def __init__(self) -> None:
        import great_expectations as gx
        from great_expectations.expectations import expectation as base
        from great_expectations.expectations.registry import get_expectation_impl

        logging.getLogger("great_expectations").setLevel(logging.ERROR)
        self._gx = gx
        context: Any = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        # persist=True, GX's default, caches every frame and never lets go of it
        self._source = context.data_sources.add_spark("lake", persist=False)
        self._implementation = get_expectation_impl
        self._by_row = (base.ColumnMapExpectation, base.ColumnPairMapExpectation, base.MulticolumnMapExpectation)
        self._frames = 0

    def by_row(self, asked: Asked) -> bool:
        """Whether the check decides row by row, so that a failing row belongs to a snapshot."""
        return issubclass(self._implementation(asked.expectation.type), self._by_row)

    def check(self, frame: DataFrame, asked: Sequence[Asked]) -> list[Check]:
        """The result of every check on this frame, in the given order, details included."""
        batch = self._batch(frame)
        rowwise = [each for each in asked if self.by_row(each)]
        others = [each for each in asked if not self.by_row(each)]
        # An aggregate costs the same whether its value is told or not.
        results = self._run(batch, rowwise, "BOOLEAN_ONLY") | self._run(batch, others, "BASIC")
        failed = [each for each in asked if results[each.id].state is State.FAIL]
        detail = {"result_format": "SUMMARY", "include_unexpected_rows": True, "partial_unexpected_count": SAMPLE}
        results |= self._run(batch, [each for each in failed if self.by_row(each)], detail)
        results |= self._run(batch, [each for each in failed if each.expectation.type == _SQL], "COMPLETE")
        return [results[each.id] for each in asked]

    def fails(self, frame: DataFrame, asked: Sequence[Asked]) -> bool | None:
        """Whether any of the checks fails on this frame; None when one could not be computed."""
        states = {each.state for each in self._run(self._batch(frame), asked, "BOOLEAN_ONLY").values()}
        return None if State.ERROR in states else State.FAIL in states

    def _batch(self, frame: DataFrame) -> Any:
        self._frames += 1
        asset = self._source.add_dataframe_asset(f"frame-{self._frames}")
        return asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": frame})

    def _run(self, batch: Any, asked: Sequence[Asked], form: str | dict[str, Any]) -> dict[str, Check]:
        if not asked:
            return {}
        suite = self._gx.ExpectationSuite(
            name=f"suite-{self._frames}",
            expectations=[
                {"type": each.expectation.type, "kwargs": dict(each.expectation.kwargs), "meta": {"id": each.id}}
                for each in asked
            ],
        )
        found = {each.expectation_config.meta["id"]: each for each in batch.validate(suite, result_format=form).results}
        return {each.id: _result(each, found.get(each.id)) for each in asked}


def _result(asked: Asked, found: Any) -> Check:
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
    if asked.expectation.type == _SQL:
        unexpected = observed
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
