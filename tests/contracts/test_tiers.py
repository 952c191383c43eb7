"""Each test has one tier, and what runs only at night is named where the promises are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiers

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/promises.md").read_text().split("## What holds them", 1)[1]


def campaigns() -> Iterator[str]:
    """The tests that carry the marker, or a case of which does."""
    for file in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef) and any(
                "mark.campaign" in ast.unparse(d) for d in node.decorator_list
            ):
                yield node.name


def test_what_runs_only_at_night_is_named_and_nothing_else() -> None:
    assert set(re.findall(r"`(test_\w+)`", PAGE)) == set(campaigns())


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


def test_the_gate_is_everything_but_campaigns_and_its_slowest_are_shown() -> None:
    recipe = re.search(r"^test:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    assert '-m "not campaign"' in recipe[1]
    assert "--durations 25" in recipe[1]
    assert "make test\n" in (ROOT / ".ci/run").read_text()
