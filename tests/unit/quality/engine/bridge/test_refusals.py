"""Errors of Great Expectations as sentences of a check."""

from __future__ import annotations

from lakeward.quality.engine.bridge.checks import _refusal


def test_an_expectation_that_spark_does_not_compute_says_what_to_write_instead() -> None:
    error = RuntimeError(
        "No provider found for column_values.match_like_pattern.unexpected_count using SparkDFExecutionEngine"
    )
    assert _refusal(error) == (
        "Great Expectations does not compute this expectation on Spark; write it as unexpected_rows_expectation"
    )
    assert _refusal(RuntimeError("No provider found")) == "No provider found"
