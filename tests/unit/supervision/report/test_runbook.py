"""The block names a place in the runbook for every state: it must be there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeward.connectors.iceberg import missing_records_table
from lakeward.engine.checkpoint import state_errors
from lakeward.engine.checkpoint.preflight import Finding, Verdict
from lakeward.platform.errors import Blocked
from lakeward.platform.failures import FailureClass
from lakeward.registry import incidents as incident_rows
from lakeward.supervision import incidents, observe
from lakeward.supervision.decide.health import State
from lakeward.supervision.page_links import RUNBOOK

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


IMPORTED = {"RECONCILE": incidents.RECONCILE, "LATE": observe.LATE, "OPERATION": incident_rows.OPERATION,
            "FRESHNESS": incident_rows.FRESHNESS}  # fmt: skip
"""Names that a module which opens an incident imports."""


def _parsed(*names: str) -> Iterator[ast.Module]:
    """The modules whose text has one of the names: to walk all of them takes long."""
    for file in SOURCES.rglob("*.py"):
        text = file.read_text()
        if any(name in text for name in names):
            yield ast.parse(text)


def kinds() -> set[str]:
    """The kinds of incidents that the code opens: the second argument of each `incidents.opened`."""
    found = set()
    for tree in _parsed("incidents.opened"):
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
                name = ast.unparse(kind).removeprefix("incidents.")
                found.add(named.get(name) or IMPORTED.get(name, name))
    return found


COMPUTED = {
    "kind": {"gap", "overlap", "discontinuous"},  # ranges.kind_of
    "str(self.finding)": {str(finding) for finding in Finding if not Verdict(finding).fit},
    "self.reason": set(),  # of a BlockReason, whose own call is found
    "REASON": {state_errors.REASON, missing_records_table.REASON},
    "LATE_REASON": {missing_records_table.LATE_REASON},
    "reason": set(),  # passed on by the class itself
}
"""Reasons that are not written where the block is made, by the expression there."""


def reasons() -> set[str]:
    """The reasons of a block that the code gives: in `Blocked`, in `BlockReason`, and by the guard of positions."""
    found = {str(FailureClass.POISON), str(FailureClass.CONFIG), Blocked("a default").reason}
    for tree in _parsed("Blocked", "BlockReason"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Blocked", "BlockReason"):
                named = {word.arg: word.value for word in node.keywords}
                given = named.get("reason") or (node.args[0] if ast.unparse(node.func) == "BlockReason" else None)
                if given is None:
                    continue  # the default
                written = {each.value for each in _alternatives(given) if isinstance(each, ast.Constant)}
                found |= written or COMPUTED[ast.unparse(given)]
    positions = ast.parse((SOURCES / "tables" / "guard" / "positions.py").read_text())
    for node in ast.walk(positions):
        if isinstance(node, ast.Dict):
            values = [each.value for each in node.values if isinstance(each, ast.Constant)]
            found |= {str(value) for value in values if " " not in str(value)}
    return found


def _alternatives(given: ast.expr) -> list[ast.expr]:
    return [given.body, given.orelse] if isinstance(given, ast.IfExp) else [given]


def test_every_reason_of_a_block_has_its_row_and_every_row_its_reason() -> None:
    there = reasons()
    assert {"rolled-back", "expired-unseen", "damaged-state", "gap", "source-replaced", "state-unfit"} <= there
    table = TEXT.split("## Reasons of a block", 1)[1].split("\n## ", 1)[0]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == there


def test_every_kind_of_incident_has_its_row() -> None:
    there = kinds()
    assert {"stream", "dependency", "quality", "operation"} <= there
    assert [kind for kind in sorted(there) if f"\n| `{kind}` |" not in TEXT] == []
