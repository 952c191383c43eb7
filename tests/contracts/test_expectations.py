"""The page of expectations is made from the kept matrix, in which the bridge and stock GX agree everywhere."""

from __future__ import annotations

import json
import subprocess
import sys

import gx_matrix
import gx_odd
from gx_odd_whys import why_of

from lakeward.quality.engine.gx import WRITTEN_FOR

ROWS = json.loads(gx_matrix.HELD.read_text())


def test_the_page_is_made_from_the_matrix() -> None:
    assert gx_matrix.PAGE.read_text() == gx_matrix.page(ROWS, WRITTEN_FOR), "python tests/support/gx_matrix.py page"


def test_every_case_is_there_and_agrees() -> None:
    assert [(row["expectation"], row["kwargs"]) for row in ROWS] == [tuple(case) for case in gx_matrix.ALL]
    states = {state for row in ROWS for state in row["states"].values()}
    assert states <= {"pass", "fail", "error"}, states


def test_every_expectation_is_seen_to_pass_and_to_fail() -> None:
    """One that fails on no data shows nothing about what it finds."""
    seen: dict[str, set[str]] = {}
    for row in ROWS:
        seen.setdefault(row["expectation"], set()).update(row["states"].values())
    assert [name for name, states in seen.items() if not {"pass", "fail"} <= states and states != {"error"}] == []


def test_what_is_an_error_on_spark_each_time_is_what_lint_refuses() -> None:
    asks = "from lakeward.quality.suite.lint import *; print(*(each for each in known_types() if not on_spark(each)))"
    said = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True).stdout
    assert set(said.split()) == {row["expectation"] for row in ROWS if set(row["states"].values()) == {"error"}}


ODD = json.loads(gx_odd.HELD.read_text())


def test_the_page_of_odd_cells_is_made_from_what_was_found() -> None:
    assert gx_odd.PAGE.read_text() == gx_odd.page(ODD, gx_odd.PAGE.read_text()), "python tests/support/gx_odd.py page"


def test_every_odd_case_is_there_and_every_difference_has_its_reason() -> None:
    asked = [(row["kind"], row["expectation"], row["kwargs"], row["data"]) for row in ODD]
    assert asked == [tuple(case) for case in gx_odd.CASES]
    without = [(row["expectation"], row["kwargs"]) for row in ODD if gx_odd.differs(row) and not why_of(row)]
    assert without == []
