"""The bridge's answers are stock Great Expectations' answers, and the page of the docs says so."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import gx_matrix
import pytest

from lakeward.quality.ask import environment
from lakeward.runtime import Runtime

pytestmark = pytest.mark.timeout(900)  # stock Great Expectations asks some 400 queries


@pytest.fixture(scope="module")
def cells(connect_server: Runtime) -> list[dict[str, Any]]:
    """Both answers to every cell, in a process set up as the checking process is."""
    ran = subprocess.run(
        [sys.executable, gx_matrix.__file__], input=connect_server.model_dump_json(),
        env=environment(connect_server), capture_output=True, text=True, timeout=800,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_every_cell_is_equal(cells) -> None:
    assert [cell for cell in cells if cell["bridge"] != cell["stock"]] == []
    states = {cell["bridge"]["state"] for cell in cells}
    assert {"pass", "fail"} <= states, "data on which nothing fails compare nothing"


def test_what_the_docs_say_of_each_cell_is_what_was_found(cells) -> None:
    assert gx_matrix.held(cells) == json.loads(gx_matrix.HELD.read_text())


def test_failing_rows_come_with_every_check_that_decides_by_row(cells) -> None:
    lone = [
        cell
        for cell in cells
        if cell["bridge"]["state"] == "fail" and cell["bridge"]["unexpected_count"]
        and cell["sample"] != min(10, cell["bridge"]["unexpected_count"])
    ]  # fmt: skip
    assert lone == []
