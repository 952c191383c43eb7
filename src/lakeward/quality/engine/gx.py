"""Great Expectations on DataFrames of Spark Connect. Imported by the checking process only: GX costs 7 CPU-seconds.

The bridge computes the checks it covers in one pass. The others go to stock GX in two phases: first as cheaply as GX
allows (`BOOLEAN_ONLY`, nothing persisted), then details of the failed ones only. From `BASIC` up GX reads the data once
more for every check, failed or not, so a healthy table would cost the most. Failing rows are never collected as a
whole: at most `SAMPLE` rows a check, which carry the source's position columns.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from lakeward.platform.errors import LakewardError
from lakeward.quality.engine import settling
from lakeward.quality.engine.bridge import checks as bridge
from lakeward.quality.engine.bridge.results import SAMPLE, SQL, as_check
from lakeward.quality.ranges.file_statistics import FileStatistics
from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import Check, State

_QUANTILES = "expect_column_quantile_values_to_be_between"

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame


class Checker:
    """One ephemeral GX context for many frames. Not thread-safe: GX's SQL checks share a session's view name.

    Raises:
        Moved: the bridge does not support the installed GX version.
    """

    def __init__(self) -> None:
        assert_known()
        import great_expectations as gx
        from great_expectations.expectations import expectation as base
        from great_expectations.expectations.registry import get_expectation_impl

        logging.getLogger("great_expectations").setLevel(logging.ERROR)
        self._gx = gx
        context: Any = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        # persist=True, GX's default, caches every frame and never releases it
        self._source = context.data_sources.add_spark("lake", persist=False)
        self._implementation = get_expectation_impl
        self._by_row = (base.ColumnMapExpectation, base.ColumnPairMapExpectation, base.MulticolumnMapExpectation)
        self._frames = 0

    def by_row(self, configured: ConfiguredCheck) -> bool:
        """Whether the check judges row by row, so that a failing row belongs to a snapshot."""
        return issubclass(self._implementation(configured.expectation.type), self._by_row)

    def check(
        self, frame: DataFrame, checks: Sequence[ConfiguredCheck], footers: FileStatistics | None = None
    ) -> list[Check]:
        """The result of every check on this frame, in the given order, with details.

        `footers` are the file statistics of exactly the frame's rows; checks that they answer read no rows.
        """
        sound, results = settling.settle_all(checks, frame)
        results |= bridge.check(frame, sound, footers)
        results |= self._stock(frame, [check for check in sound if check.id not in results])
        return [results[check.id] for check in checks]

    def fails(self, frame: DataFrame, checks: Sequence[ConfiguredCheck]) -> bool | None:
        """Whether any of the checks fails on this frame; None when one could not be computed."""
        sound, results = settling.settle_all(checks, frame)
        results |= bridge.check(frame, sound, sampled=False)
        remaining = [check for check in sound if check.id not in results]
        results |= self._run(self._batch(frame), remaining, "BOOLEAN_ONLY") if remaining else {}
        states = {result.state for result in results.values()}
        return None if State.ERROR in states else State.FAIL in states

    def least(self, frame: DataFrame, checks: Sequence[ConfiguredCheck], value: str) -> Any:
        """The least value of a SQL expression among the rows that fail any of the checks, each row judged alone."""
        return bridge.least(frame, settling.settle_all(checks, frame)[0], value)

    def stock(self, frame: DataFrame, checks: Sequence[ConfiguredCheck]) -> dict[str, Check]:
        """Every check by stock GX alone, in its usual form: the reference for the bridge's results."""
        return self._run(self._batch(frame), checks, "BASIC")

    def _stock(self, frame: DataFrame, checks: Sequence[ConfiguredCheck]) -> dict[str, Check]:
        if not checks:
            return {}
        batch = self._batch(frame)
        rowwise = [check for check in checks if self.by_row(check)]
        others = [check for check in checks if not self.by_row(check)]
        # An aggregate costs the same whether its value is returned or not.
        results = self._run(batch, rowwise, "BOOLEAN_ONLY") | self._run(batch, others, "BASIC")
        failed = [check for check in checks if results[check.id].state is State.FAIL]
        detail = {"result_format": "SUMMARY", "include_unexpected_rows": True, "partial_unexpected_count": SAMPLE}
        results |= self._run(batch, [check for check in failed if self.by_row(check)], detail)
        return results | self._run(batch, [check for check in failed if check.expectation.type == SQL], "COMPLETE")

    def _batch(self, frame: DataFrame) -> Any:
        self._frames += 1
        asset = self._source.add_dataframe_asset(f"frame-{self._frames}")
        return asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": frame})

    def _run(self, batch: Any, checks: Sequence[ConfiguredCheck], form: str | dict[str, Any]) -> dict[str, Check]:
        if not checks:
            return {}
        alone = [check for check in checks if check.expectation.type == _QUANTILES]
        if alone and len(checks) > 1:  # GX gives all of them on one column the quantiles of the first
            results = self._run(batch, [check for check in checks if check not in alone], form)
            return results | {name: made for each in alone for name, made in self._run(batch, [each], form).items()}
        suite = self._gx.ExpectationSuite(
            name=f"suite-{self._frames}",
            expectations=[
                {"type": check.expectation.type, "kwargs": check.kwargs, "meta": {"id": check.id}} for check in checks
            ],
        )
        found = {
            result.expectation_config.meta["id"]: result for result in batch.validate(suite, result_format=form).results
        }
        return {check.id: replace(as_check(check, found.get(check.id)), by="stock") for check in checks}


WRITTEN_FOR = "1.24"
"""Supported minor version. For a newer one tests/spark/quality/test_equality.py must pass first."""


class UnsupportedGxVersion(LakewardError):
    """Raised when the bridge does not support the installed Great Expectations: verdicts could be wrong."""


def assert_known(installed: str | None = None) -> None:
    """Refuse any other minor version than `WRITTEN_FOR`.

    Raises:
        UnsupportedGxVersion: another version is installed.
    """
    found = installed or version("great-expectations")
    if found.rsplit(".", 1)[0] != WRITTEN_FOR:
        raise UnsupportedGxVersion(
            f"Great Expectations {found} is not supported",
            why=f"The bridge uses internal metrics of version {WRITTEN_FOR}; other versions could give wrong verdicts.",
            next=f"pip install 'great-expectations=={WRITTEN_FOR}.*'   (a source checkout: make install)",
            code="LW-5027",
        )
