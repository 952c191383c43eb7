"""Every state, failure class, incident and reason of a block has a walk, or the reason why it has none."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from lakeward.platform.failures import FailureClass
from lakeward.supervision.decide.health import State
from lakeward.supervision.page_links import RUNBOOK

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/promises.md").read_text().split("\n## What was caused on real parts\n", 1)[1]
ROWS = {
    (kind, name): cell for kind, name, cell in re.findall(r"^\| (\w+) \| `([\w-]+)` \| (.+) \|$", PAGE, re.MULTILINE)
}
WALK = re.compile(r"`(remedies\w*)::(\w+)`")
SHORTEST = 20
"""Letters of a reason."""


def of_runbook(title: str) -> set[str]:
    """The names in a table of the runbook, which `tests/unit/supervision/report/test_runbook.py` compares with the
    code."""
    table = (ROOT / RUNBOOK).read_text().split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    return set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE))


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("state", {state.value for state in State}),
        ("class", {failure.value for failure in FailureClass}),
        ("incident", of_runbook("Incidents")),
        ("block", of_runbook("Reasons of a block")),
    ],
)
def test_each_has_its_row_and_no_row_is_left_over(kind: str, names: set[str]) -> None:
    assert len(names) > 4
    assert {name for of, name in ROWS if of == kind} == names


@pytest.mark.parametrize("row", sorted(ROWS), ids="/".join)
def test_a_row_names_a_walk_that_is_there_or_gives_a_reason(row: tuple[str, str]) -> None:
    walks = WALK.findall(ROWS[row])
    for module, name in walks:
        tree = ast.parse((ROOT / f"tests/faults/test_{module}.py").read_text())
        assert f"test_{name}" in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert walks or len(re.sub(r"`[^`]*`", "", ROWS[row])) >= SHORTEST, f"{row} has neither a walk nor a reason"
    for path in re.findall(r"`(tests/[\w/]+(?:\.py)?)`", ROWS[row]):
        assert (ROOT / path).exists(), path
