"""Every `lakeward ...` command that an error, a doc or a Dag names exists: nobody is sent to a closed door."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeward.cli.app import command_tree

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"(?:^|[`'\"(\s])lakeward ((?:[a-z][a-z-]+ ?){1,2})")
PROSE = {"run", "is", "and", "stack's", "itself", "never", "keeps", "makes", "starts", "does", "has", "here", "on"}


def _known() -> set[str]:
    root = command_tree()
    found: set[str] = set()
    for name, command in root.commands.items():
        found.add(name)
        found |= {f"{name} {verb}" for verb in getattr(command, "commands", {})}
    return found


def _texts() -> Iterator[tuple[str, str]]:
    for file in [*(ROOT / "src").rglob("*.py"), *(ROOT / "dags").glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node.value
    for file in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            if "adr" not in file.parts:
                yield f"{file.relative_to(ROOT)}:{number}", line


def test_every_command_named_anywhere_exists():
    known = _known()
    groups = {name.split()[0] for name in known if " " in name}
    unknown = []
    for where, text in _texts():
        for match in NAMED.finditer(text):
            words = match[1].split()
            if words[0] in PROSE:
                continue
            wanted = " ".join(words[:2]) if words[0] in groups and len(words) > 1 else words[0]
            if wanted not in known:
                unknown.append(f"{where}: lakeward {wanted}")
    assert unknown == []


@pytest.mark.parametrize(
    "name", ["init", "stack", "doctor", "config", "deploy", "demo", "sql", "streams", "tables", "quality"]
)
def test_the_contracts_nouns_are_there(name):
    assert name in _known()
