"""The bridge's answers are stock Great Expectations' answers, and the page of the docs says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import gx_matrix
import pytest
from seeds import seed

from lakeward.platform.runtime import Runtime
from lakeward.quality.runs.process import environment

pytestmark = pytest.mark.timeout(3600)  # stock Great Expectations asks some 400 queries for the whole matrix

SEED = os.environ.get("LAKEWARD_MATRIX_SEED") or str(seed(31))
"""Draws the cells of this run; `whole` takes them all, as `make nightly` does."""


@pytest.fixture(scope="module")
def cells(connect_server: Runtime) -> list[dict[str, Any]]:
    """Both answers to the drawn cells, in a process set up as the checking process is."""
    print(f"cells of LAKEWARD_MATRIX_SEED={SEED}")
    drawn = [] if SEED == "whole" else [SEED]
    ran = subprocess.run(
        [sys.executable, gx_matrix.__file__, *drawn], input=connect_server.model_dump_json(),
        env=environment(connect_server), capture_output=True, text=True, timeout=3500,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_every_cell_is_equal(cells) -> None:
    assert [cell for cell in cells if not gx_matrix.same(cell)] == []
    states = {cell["bridge"]["state"] for cell in cells}
    assert {"pass", "fail"} <= states, "data on which nothing fails compare nothing"


def test_what_the_docs_say_of_each_cell_is_what_was_found(cells) -> None:
    found = gx_matrix.held(cells)
    kept = json.loads(gx_matrix.HELD.read_text())
    assert len(found) == len(kept), "every case has a cell in every draw"
    for row, stands in zip(found, kept, strict=True):
        assert row == {**stands, "states": {column: stands["states"][column] for column in row["states"]}}
        assert SEED != "whole" or row == stands


def test_failing_rows_come_with_every_check_that_decides_by_row(cells) -> None:
    lone = [
        cell
        for cell in cells
        if cell["bridge"]["state"] == "fail" and cell["bridge"]["unexpected_count"]
        and cell["sample"] != min(10, cell["bridge"]["unexpected_count"])
    ]  # fmt: skip
    assert lone == []
