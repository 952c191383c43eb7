"""What docs/reference/check-arguments.md says of Great Expectations on pandas: verdicts on odd arguments."""

from __future__ import annotations

import os
import warnings
from typing import Any

import pytest

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # before the import, which would send a network request


@pytest.fixture(scope="module")
def batch() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations as gx
        import pandas as pd

    rows = {"n": [1, 2, 3], "code": ["01234", "x", "y"], "pay": ["paid", "bad", None], "a": ["x", "x", "z"]}
    context: Any = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asset = context.data_sources.add_pandas("p").add_dataframe_asset("rows")
    return asset.add_batch_definition_whole_dataframe("rows").get_batch({"dataframe": pd.DataFrame(rows)})


READ_HALF = {"row_condition": 'col("a") == "x" and 1 > 2', "condition_parser": "great_expectations"}
NULL_PAIRS = [["paid", 1], ["bad", 2], [None, 3]]


@pytest.mark.parametrize(
    ("kind", "kwargs", "passes"),
    [
        ("values_to_be_in_set", {"column": "n", "value_set": [1, 2, 3, "n/a"]}, True),
        ("values_to_be_in_set", {"column": "code", "value_set": [1234]}, False),
        ("values_to_be_in_set", {"column": "n", "value_set": ["1", "2", "3"]}, False),
        ("values_to_be_in_set", {"column": "pay", "value_set": ["paid", None]}, False),
        ("values_to_be_in_set", {"column": "pay", "value_set": ["paid", "bad", None]}, True),
        ("values_to_not_be_in_set", {"column": "pay", "value_set": ["bad", None]}, False),
        ("distinct_values_to_be_in_set", {"column": "pay", "value_set": ["paid", "bad", None]}, True),
        ("distinct_values_to_contain_set", {"column": "pay", "value_set": ["paid", None]}, False),
        ("pair_values_to_be_in_set", {"column_A": "pay", "column_B": "n", "value_pairs_set": NULL_PAIRS}, True),
        ("values_to_be_in_set", {"column": "n", "value_set": [1, 2], **READ_HALF}, True),
        ("values_to_be_in_set", {"column": "n", "value_set": [1], **READ_HALF}, False),
    ],
)  # fmt: skip
def test_a_verdict_of_pandas(batch: Any, kind: str, kwargs: dict[str, Any], passes: bool) -> None:
    import great_expectations as gx

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suite = gx.ExpectationSuite(name="odd", expectations=[{"type": f"expect_column_{kind}", "kwargs": kwargs}])
        assert batch.validate(suite).results[0].success is passes
