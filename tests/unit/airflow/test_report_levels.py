"""A red report: what tells a problem is an error, what is a fact is not."""

from __future__ import annotations

import pytest

from lakeward.airflow.tasks.operation import is_problem


@pytest.mark.parametrize(
    "line",
    [
        "data lost?   YES: landed rows are missing",
        "data lost?   NOT KNOWN: the table could not be asked",
        "data lost?   AT RISK: records wait",
        "at risk      YES: the source keeps records 7 days",
        "failure      poison 130 s ago: [CAST_INVALID_INPUT]",
        "supervised   NO: no reconcile pass has succeeded",
        "no answer    Kafka does not answer",
    ],
)
def test_a_problem_is_an_error(line: str) -> None:
    assert is_problem(5, line)


@pytest.mark.parametrize(
    "line",
    [
        "data lost?   NO: every record is in the table",
        "data lost?   NO, but 3 late records were dropped",
        "at risk      no: the source keeps records",
        "last commit  52 s ago",
        "next         lakeward streams start flights",
        "log tail     2026-11-21 error failed",
    ],
)
def test_a_fact_is_not(line: str) -> None:
    assert not is_problem(5, line)
    assert is_problem(0, "flights is BLOCKED for 75 s"), "the first line of a red report is the problem"
