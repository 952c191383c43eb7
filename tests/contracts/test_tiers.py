"""Each test has one tier, and what runs only at night is named where the promises are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import interpretation
import nightly
import pytest
import seeds
import tiers

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/promises.md").read_text().split("## What holds them", 1)[1]


@cache
def _read(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def _marks(node: ast.AST) -> Iterator[ast.expr]:
    """Each use of the marker below a node: the call, or the bare marker."""
    for part in ast.walk(node):
        named = part.func if isinstance(part, ast.Call) else part
        if isinstance(named, ast.Attribute) and named.attr == "campaign":  # to write each expression as text is slow
            assert ast.unparse(named) == "pytest.mark.campaign"
            yield part


def _held_by(mark: ast.expr) -> str | None:
    """The test of the gate that holds the promise, as a marker names it."""
    if not isinstance(mark, ast.Call):
        return None
    [value] = [each.value for each in mark.keywords if each.arg == "held_by"]
    assert isinstance(value, ast.Constant)
    return str(value.value)


def _tests() -> Iterator[tuple[Path, ast.FunctionDef]]:
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in _read(file).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield file, node


def campaigns() -> Iterator[str]:
    """The tests that carry the marker, or a case of which does, without a test of the gate that holds their promise."""
    for _file, node in _tests():
        marks = [mark for decorator in node.decorator_list for mark in _marks(decorator)]
        calls = {id(mark.func) for mark in marks if isinstance(mark, ast.Call)}
        if any(_held_by(mark) is None for mark in marks if id(mark) not in calls):
            yield node.name


def _of_the_gate(node: ast.FunctionDef) -> bool:
    """Whether some case of a test runs in the gate: no decorator is the marker itself."""
    return not any(ast.unparse(each).startswith("pytest.mark.campaign") for each in node.decorator_list)


def test_what_a_test_of_the_night_is_held_by_runs_in_the_gate() -> None:
    gate = {f"{file.relative_to(ROOT)}::{node.name}" for file, node in _tests() if _of_the_gate(node)}
    wrong = []
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for mark in _marks(_read(file)) if "campaign(" in file.read_text() else ():
            name = _held_by(mark)
            if name is not None:
                full = name if "::" in name else f"{file.relative_to(ROOT)}::{name}"
                if full not in gate:
                    wrong.append(f"{file.relative_to(ROOT)}:{mark.lineno}: {full}")
    assert wrong == []


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE))))
def test_every_test_it_names_is_there(name: str) -> None:
    assert (ROOT / name).exists()


@pytest.mark.parametrize(
    ("nodeid", "own", "tier"),
    [
        ("tests/unit/spec/test_sql.py::test_a", (), "unit"),
        ("tests/contracts/test_tiers.py::test_a", (), "unit"),
        ("tests/spark/driver/test_feed.py::test_a", ("timeout",), "spark"),
        ("tests/dags/test_parse.py::test_a", (), "airflow"),
        ("tests/faults/test_stack.py::test_a", (), "process"),
        ("tests/faults/test_campaign.py::test_a", ("unit",), "unit"),
        ("tests/faults/test_airflow_survival.py::test_a", ("campaign", "airflow"), "campaign"),
    ],
)
def test_a_test_has_the_tier_of_its_folder_unless_it_says_another(nodeid: str, own: tuple[str, ...], tier: str) -> None:
    assert tiers.tier_of(nodeid, own) == tier


def test_the_night_compiles_the_queries_that_the_gate_interprets(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = [each for each in nightly.steps(7, Path("night")) if each.name.startswith("compiled ")]
    tests = {str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("*.py") if _interprets(file)}
    assert len(tests) > 5
    words = tuple(word for step in compiled for word in step.words)
    assert [name for name in sorted(tests) if not name.startswith(words)] == []
    monkeypatch.delenv(seeds.VARIABLE, raising=False)
    assert interpretation.of_the_gate() == interpretation.CONF
    for step in compiled:
        monkeypatch.setenv(seeds.VARIABLE, step.env[seeds.VARIABLE])
        assert interpretation.of_the_gate() == {}


def _interprets(file: Path) -> bool:
    """Whether the queries of a file of tests are interpreted, or those of a folder by its `conftest.py`."""
    if file == Path(__file__) or file.parent in (ROOT / "tests/support", ROOT / "tests/spark"):
        return False
    text = file.read_text()
    named = re.search(r"\b(?:interpreted|speed): None\b|\"speed\"", text)
    return named is not None or "interpretation.of_the_gate()" in text


def test_the_gate_is_everything_but_campaigns_and_its_slowest_are_shown() -> None:
    recipe = re.search(r"^test:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    assert '-m "not campaign"' in recipe[1]
    assert "--durations 25" in recipe[1]
    assert "make test\n" in (ROOT / ".ci/run").read_text()
