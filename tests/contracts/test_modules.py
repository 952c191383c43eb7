"""Modules of Lakeward that text names exist: code in strings, commands and pages are not seen by the type checker."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"(?:from |python -m |\"-m\", \"|`)(lakeward(?:\.[a-z_][a-z_0-9]*)+)")
KINDS = {".py", ".md", ".toml", ".yaml", ".yml", ".conf"}
OTHERS = re.compile(r"lakeward\.(stream|attempt|rebuild|retired|quality_results|yaml)\b")
"""Table properties, a table and a file."""


def _there(name: str) -> bool:
    """Whether the name is a package, a module, or something in a module or package."""
    parts = name.split(".")
    for end in (len(parts), len(parts) - 1):
        file = ROOT.joinpath("src", *parts[:end])
        if file.with_suffix(".py").exists() or (file.is_dir() and end == len(parts)):
            return True
        if file.is_dir() and re.search(rf"\b{parts[-1]}\b", (file / "__init__.py").read_text(encoding="utf-8")):
            return True
    return False


def _unknown(text: str) -> set[str]:
    named = {name for name in NAMED.findall(text) if not OTHERS.match(name)}
    return {name for name in named if not _there(name)}


def test_every_module_named_in_text_exists() -> None:
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    unknown: dict[str, list[str]] = {}
    for file in files:
        path = ROOT / file
        if path.suffix in KINDS and path.exists() and path != Path(__file__):
            for name in _unknown(path.read_text(encoding="utf-8")):
                unknown.setdefault(name, []).append(file)
    assert unknown == {}


def test_a_module_that_moved_is_found() -> None:
    assert _unknown("from lakeward.quality.lint_of_old import known_types") == {"lakeward.quality.lint_of_old"}
    assert _unknown("from lakeward.platform.errors import Internal, `lakeward.platform.errors.expect`") == set()
