"""Suites to Great Expectations and back are what they were; what cannot be carried is named."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.platform.errors import SpecError
from lakeward.quality.suite.exchange import exported, imported
from lakeward.quality.suite.yaml_text import suite_text
from lakeward.spec.model.suite import Suite
from lakeward.spec.read.document import read_document

A, AB, SOME, LIMITS = {"column": "a"}, {"column_A": "a", "column_B": "b"}, {"value_set": [1, "x"]}, {"min_value": 1}
COLUMNS = {"column_list": ["a", "b"]}
# Every expectation of Great Expectations with arguments it takes: a type that is new there fails the test with GX.
# None stands at its default: those Great Expectations leaves out of what it writes.
GALLERY: dict[str, dict[str, Any]] = {
    "expect_column_distinct_values_to_be_in_set": {**A, **SOME},
    "expect_column_distinct_values_to_contain_set": {**A, **SOME},
    "expect_column_distinct_values_to_equal_set": {**A, **SOME},
    "expect_column_kl_divergence_to_be_less_than": {
        **A, "partition_object": {"values": ["x", "y"], "weights": [0.5, 0.5]}, "threshold": 0.1,
    },
    "expect_column_max_to_be_between": {**A, **LIMITS, "strict_min": True},
    "expect_column_mean_to_be_between": {**A, **LIMITS, "max_value": 2.5},
    "expect_column_median_to_be_between": {**A, **LIMITS},
    "expect_column_min_to_be_between": {**A, "min_value": "2026-01-01T00:00:00"},
    "expect_column_most_common_value_to_be_in_set": {**A, **SOME, "ties_okay": True},
    "expect_column_pair_values_a_to_be_greater_than_b": {**AB, "or_equal": True},
    "expect_column_pair_values_to_be_equal": {**AB, "ignore_row_if": "either_value_is_missing"},
    "expect_column_pair_values_to_be_in_set": {**AB, "value_pairs_set": [[1, 2], [3, 4]]},
    "expect_column_proportion_of_non_null_values_to_be_between": {**A, "min_value": 0.5},
    "expect_column_proportion_of_unique_values_to_be_between": {**A, "min_value": 0.5},
    "expect_column_quantile_values_to_be_between": {
        **A, "quantile_ranges": {"quantiles": [0.1, 0.9], "value_ranges": [[0, 1], [2, None]]},
    },
    "expect_column_stdev_to_be_between": {**A, **LIMITS},
    "expect_column_sum_to_be_between": {**A, **LIMITS},
    "expect_column_to_exist": {**A, "column_index": 2},
    "expect_column_type_to_be": {**A, "type_": "LongType"},
    "expect_column_unique_value_count_to_be_between": {**A, **LIMITS},
    "expect_column_value_lengths_to_be_between": {**A, **LIMITS},
    "expect_column_value_lengths_to_equal": {**A, "value": 3},
    "expect_column_value_z_scores_to_be_less_than": {**A, "threshold": 3.5, "double_sided": True},
    "expect_column_values_to_be_between": {**A, **LIMITS, "mostly": 0.99},
    "expect_column_values_to_be_dateutil_parseable": A,
    "expect_column_values_to_be_decreasing": {**A, "strictly": True},
    "expect_column_values_to_be_in_set": {**A, **SOME, "row_condition": "b > 1", "condition_parser": "spark"},
    "expect_column_values_to_be_in_type_list": {**A, "type_list": ["LongType"]},
    "expect_column_values_to_be_increasing": A,
    "expect_column_values_to_be_json_parseable": A,
    "expect_column_values_to_be_null": A,
    "expect_column_values_to_be_of_type": {**A, "type_": "LongType"},
    "expect_column_values_to_be_unique": A,
    "expect_column_values_to_match_json_schema": {**A, "json_schema": {"type": "object", "required": ["k"]}},
    "expect_column_values_to_match_like_pattern": {**A, "like_pattern": "A%"},
    "expect_column_values_to_match_like_pattern_list": {**A, "like_pattern_list": ["A%"]},
    "expect_column_values_to_match_regex": {**A, "regex": "^[A-Z]{2}$"},
    "expect_column_values_to_match_regex_list": {**A, "regex_list": ["a", "b"], "match_on": "all"},
    "expect_column_values_to_match_strftime_format": {**A, "strftime_format": "%Y-%m-%d"},
    "expect_column_values_to_not_be_in_set": {**A, **SOME},
    "expect_column_values_to_not_be_null": A,
    "expect_column_values_to_not_be_outliers": A,
    "expect_column_values_to_not_match_like_pattern": {**A, "like_pattern": "A%"},
    "expect_column_values_to_not_match_like_pattern_list": {**A, "like_pattern_list": ["A%"]},
    "expect_column_values_to_not_match_regex": {**A, "regex": "x"},
    "expect_column_values_to_not_match_regex_list": {**A, "regex_list": ["x"]},
    "expect_compound_columns_to_be_unique": COLUMNS,
    "expect_multicolumn_sum_to_equal": {**COLUMNS, "sum_total": 10},
    "expect_multicolumn_values_to_be_equal": COLUMNS,
    "expect_query_results_to_match_comparison": {
        "base_query": "SELECT 1", "comparison_data_source_name": "other", "comparison_query": "SELECT 1",
    },
    "expect_select_column_values_to_be_unique_within_record": COLUMNS,
    "expect_table_column_count_to_be_between": {"min_value": 1, "max_value": 9},
    "expect_table_column_count_to_equal": {"value": 3},
    "expect_table_columns_to_match_ordered_list": COLUMNS,
    "expect_table_columns_to_match_set": {"column_set": ["a"], "exact_match": False},
    "expect_table_row_count_to_be_between": {"min_value": 1},
    "expect_table_row_count_to_equal": {"value": 3},
    "expect_table_row_count_to_equal_other_table": {"other_table_name": "b"},
    "unexpected_rows_expectation": {"unexpected_rows_query": "SELECT * FROM {batch}\nWHERE a < 0"},
}  # fmt: skip
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t"), min_size=1, max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
META = st.none() | st.dictionaries(TEXT.filter(lambda key: key != "lakeward"), JSON, min_size=1, max_size=2)


@st.composite
def suites(draw: Any) -> Suite:
    types = draw(st.lists(st.sampled_from(sorted(GALLERY)), min_size=1, max_size=3, unique=True))
    listed = [
        {
            "type": name,
            "kwargs": {**GALLERY[name], **draw(st.dictionaries(TEXT, JSON, max_size=1))},
            "severity": draw(st.sampled_from(["critical", "warning", "info"])),
            "on_fail": draw(st.sampled_from(["record", "warn", "hold", "quarantine"])),
            "scope": draw(st.sampled_from(["increment", "window", "table"])),
            "why": draw(st.none() | TEXT),
            "waive_until": draw(st.none() | st.dates().map(str)),
            "meta": draw(META),
        }
        for name in types
    ]
    return Suite.model_validate({"table": "n.t", "owner": draw(TEXT), "meta": draw(META), "expectations": listed})


@settings(max_examples=60, deadline=None)
@given(suites())
def test_there_and_back_is_the_same_suite_and_so_is_its_file(suite: Suite) -> None:
    back = imported(json.loads(json.dumps(exported(suite))), "n.t", None, "nobody")
    assert back.left == ()
    assert Suite.model_validate(back.document) == suite
    written = read_document(suite_text(back.document, ["by a test"], {0: ["the first\nof all"]}))
    assert written.data == back.document, suite_text(back.document)


_THROUGH_GX = """
import json, sys
from lakeward.quality.suite.lint import known_types
types = known_types()
from great_expectations import ExpectationSuite
suite = ExpectationSuite(**json.load(sys.stdin))
print(json.dumps({"types": types, "suite": suite.to_json_dict()}))
"""


def test_text_that_looks_like_a_sign_of_yaml_is_read_back_whole() -> None:
    kwargs = {"?0": ":0", "value_set": ["?", "?a", ":-", {"?b": "\x85", "\x850": ":#"}]}
    document = {"table": "n.t", "owner": "me", "expectations": [{"type": "expect_a", "kwargs": kwargs}]}
    assert read_document(suite_text(document)).data == document


def test_a_suite_without_a_check_is_read_back() -> None:
    document = {"table": "nyc.flights", "owner": "a@b.c", "expectations": []}
    assert read_document(suite_text(document, ["No check of `a`: it has a backtick."])).data == document


def test_great_expectations_reads_every_type_and_what_it_writes_is_the_same_suite() -> None:
    listed = [
        {"type": name, "kwargs": kwargs, "severity": "info", "on_fail": "hold", "why": "w", "meta": {"k": [1]}}
        for name, kwargs in GALLERY.items()
    ]
    suite = Suite.model_validate({"table": "n.t", "owner": "me", "meta": {"m": 1}, "expectations": listed})
    done = subprocess.run(
        [sys.executable, "-c", _THROUGH_GX], input=json.dumps(exported(suite)), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert set(said["types"]) == set(GALLERY)
    back = imported(said["suite"], "n.t", None, "nobody")
    assert [each for each in back.left if not each.startswith("id")] == []
    assert Suite.model_validate(back.document).expectations == suite.expectations


def test_what_cannot_be_carried_is_named() -> None:
    found = {
        "expectation_suite_name": "old",
        "ge_cloud_id": None,
        "evaluation_parameters": {"low": 1},
        "meta": {"great_expectations_version": "0.18.22", "team": "x"},
        "expectations": [
            {
                "expectation_type": "expect_column_values_to_not_be_null",
                "kwargs": {"column": "a", "result_format": "BASIC"},
                "meta": {"notes": {"format": "markdown", "content": ["one", "two"]}, "k": 1},
                "id": "0",
            },
            {"type": "expect_column_max_to_be_between", "kwargs": {"column": "a", "max_value": {"$PARAMETER": "low"}}},
            {"type": "expect_column_to_exist", "kwargs": {"column": "a"}, "description": "d", "rendered_content": [1]},
            {"kwargs": {}},
            3,
        ],
    }
    back = imported(found, "n.t", "me", "nobody")
    assert back.document == {
        "table": "n.t",
        "owner": "me",
        "meta": {"team": "x"},
        "expectations": [
            {
                "type": "expect_column_values_to_not_be_null",
                "kwargs": {"column": "a"},
                "why": "one\ntwo",
                "meta": {"k": 1},
            },
            {"type": "expect_column_to_exist", "kwargs": {"column": "a"}, "why": "d"},
        ],
    }
    left = "\n".join(back.left)
    for each in (
        "evaluation_parameters: ",
        "expectations[1]: left out: expect_column_max_to_be_between: kwargs.max_value",
        "expectations[3]: left out: it has no type",
        "expectations[4]: left out",
        "id: an id of Great",
        "kwargs.result_format: the run decides it (1 expectation)",
        "rendered_content: ",
    ):
        assert each in left
    assert len(back.left) == 7


@pytest.mark.parametrize("found", [[], {}, {"expectations": {}}, "x", {"expectations": []}, {"expectations": [{}]}])
def test_what_is_no_suite_is_refused(found: Any) -> None:
    with pytest.raises(SpecError):
        imported(found, "n.t", None, "nobody")


def test_the_key_of_ours_in_meta_is_refused() -> None:
    one = {"type": "expect_a", "meta": {"lakeward": 1}}
    with pytest.raises(ValueError, match="belongs to Lakeward"):
        Suite.model_validate({"table": "n.t", "owner": "x", "expectations": [one]})
