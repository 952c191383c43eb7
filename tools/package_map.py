"""Write the map of packages in CONTRIBUTING.md from their docstrings; with `--check`, fail when it differs."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ROOT / "src" / "lakeward"
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN = "<!-- packages: written by tools/package_map.py from the packages' docstrings -->"
END = "<!-- packages end -->"


def rows() -> list[str]:
    """One table row a package: its name and the first sentence of its docstring.

    Raises:
        SystemExit: a package says nothing of itself.
    """
    found = ["| package | what it holds |", "|---|---|"]
    for file in sorted(PACKAGES.rglob("__init__.py")):
        folder = file.parent
        if folder == PACKAGES:
            continue
        summary = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]
        if not summary:
            raise SystemExit(f"{file.relative_to(ROOT)}: a package needs a docstring: what it holds, in one sentence")
        name = ".".join(folder.relative_to(PACKAGES).parts)
        found.append(f"| `{name}` | {' '.join(summary.split())} |")
    return found


def main() -> int:
    """Write the map, or compare it; returns the exit code."""
    before = PAGE.read_text(encoding="utf-8")
    head, begin, rest = before.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} lacks the lines {BEGIN!r} and {END!r}")
    after = "\n".join([head + BEGIN, *rows(), END]) + tail
    if "--check" in sys.argv[1:]:
        if after != before:
            sys.stderr.write(f"{PAGE.name}: the map of packages is not current: python {Path(__file__).name}\n")
        return int(after != before)
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
