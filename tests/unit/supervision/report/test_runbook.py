"""The block names a place in the runbook for every state: it must be there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from lakeward.platform.failures import FailureClass
from lakeward.supervision import incidents, observe
from lakeward.supervision.decide.health import State
from lakeward.supervision.report.advice import RUNBOOK

SOURCES = Path(__file__).parents[4] / "src" / "lakeward"
TEXT = (Path(__file__).parents[4] / RUNBOOK).read_text()


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_its_place_in_the_runbook(state: State) -> None:
    assert f"\n## {state.value}\n" in TEXT


def test_every_line_of_the_block_is_explained(scenes) -> None:
    words = {line[:13].strip() for made in scenes.values() for line in made.lines()[1:]} - {""}
    assert [word for word in sorted(words) if f"`{word}`" not in TEXT] == []


@pytest.mark.parametrize("failure", list(FailureClass))
def test_every_failure_class_has_its_row(failure: FailureClass) -> None:
    assert f"\n| `{failure.value}` |" in TEXT


IMPORTED = {"RECONCILE": incidents.RECONCILE, "LATE": observe.LATE}
"""Names that a module which opens an incident imports."""


def kinds() -> set[str]:
    """The kinds of incidents that the code opens: the second argument of each `incidents.opened`."""
    found = set()
    for file in SOURCES.rglob("*.py"):
        tree = ast.parse(file.read_text())
        named = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name | ast.Tuple):
                names = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else [node.targets[0]]
                values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                named |= {
                    name.id: value.value
                    for name, value in zip(names, values, strict=False)
                    if isinstance(name, ast.Name) and isinstance(value, ast.Constant)
                }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "incidents.opened":
                kind = node.args[1]
                name = kind.id if isinstance(kind, ast.Name) else ""
                found.add(named.get(name) or IMPORTED.get(name, name))
    return found


def test_every_kind_of_incident_has_its_row() -> None:
    there = kinds()
    assert {"stream", "dependency", "quality", "operation"} <= there
    assert [kind for kind in sorted(there) if f"\n| `{kind}` |" not in TEXT] == []
