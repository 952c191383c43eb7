"""Every `module.function` that docs/explanation/architecture.md names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "lakeward"
PACKAGES = {folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").exists()}
TEXT = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
NAMES = sorted({name for name in re.findall(r"`([A-Za-z_]+(?:\.\w+)+)`", TEXT) if name.split(".")[0] in PACKAGES})


def _defined(tree: ast.AST) -> set[str]:
    """Names that a module or a class binds: definitions, assignments, imports."""
    names: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def _missing(name: str) -> str | None:
    """The part of a dotted name that does not exist; None if all of it does."""
    place, parts = SOURCE, name.split(".")
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    is_module = bool(parts) and (place / f"{parts[0]}.py").exists()
    file = place / (f"{parts.pop(0)}.py" if is_module else "__init__.py")
    tree: ast.AST = ast.parse(file.read_text(encoding="utf-8"))
    for part in parts:
        if part not in _defined(tree):
            return part
        tree = next((node for node in ast.iter_child_nodes(tree) if getattr(node, "name", None) == part), tree)
    return None


def test_the_page_names_enough_steps() -> None:
    assert len(NAMES) > 80


@pytest.mark.parametrize("name", NAMES)
def test_a_step_exists(name: str) -> None:
    assert _missing(name) is None


def test_a_step_that_does_not_exist_is_found() -> None:
    assert _missing("engine.batch.BatchFunction.__call__") is None
    assert _missing("engine.batch.BatchFunction.gone") == "gone"
    assert _missing("engine.gone.step") == "gone"
