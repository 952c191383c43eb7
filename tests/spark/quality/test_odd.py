"""What the docs say of odd arguments is what three engines say: stock on Spark, stock on pandas, and Lakeward."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gx_odd
import pytest
from seeds import seed

from lakeward.platform.runtime import Runtime
from lakeward.quality.runs.process import environment

pytestmark = pytest.mark.timeout(3600)

SEED = os.environ.get("LAKEWARD_MATRIX_SEED") or str(seed(47))
"""Draws the cells of this run; `whole` takes them all, as `make nightly` does. LAKEWARD_MATRIX_KEEP names a file for
the answers, of which the page is made."""


@pytest.fixture(scope="module")
def cells(connect_server: Runtime, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The answers to the drawn cells, from a process set up as the checking process is."""
    print(f"cells of LAKEWARD_MATRIX_SEED={SEED}")
    drawn = [] if SEED == "whole" else [SEED]
    answers = Path(os.environ.get("LAKEWARD_MATRIX_KEEP") or tmp_path_factory.mktemp("odd") / "answers.jsonl")
    with answers.open("w") as sink:
        ran = subprocess.run(
            [sys.executable, gx_odd.__file__, *drawn], input=connect_server.model_dump_json(), stdout=sink,
            env=environment(connect_server), stderr=subprocess.PIPE, text=True, timeout=3500, check=False,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return [json.loads(line) for line in answers.read_text().splitlines()]


def test_what_the_docs_say_of_each_odd_cell_is_what_was_found(cells) -> None:
    kept = json.loads(gx_odd.HELD.read_text())
    found = gx_odd.held(cells)
    assert found, "no cell"
    for cell, row in zip(cells, found, strict=True):
        stands = kept[cell["case"]]  # the words of an error of Spark's have numbers that change
        assert {**row, "words": ""} == {**stands, "words": ""}
    assert SEED != "whole" or len(found) == len(kept)
