"""Fail when a lint suppression carries no reason.

`# noqa: X` and `# type: ignore[x]` need a reason on the same line after a dash or in a second comment, and skips and
expected failures need a `reason=`. A suppression with an explanation can be judged; a bare one cannot.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SUPPRESSION = re.compile(r"#\s*(noqa(?::\s*[A-Z0-9, ]+)?|type:\s*ignore(?:\[[^\]]*\])?|pragma: no cover)(?P<rest>.*)$")
SKIP = re.compile(r"pytest\.(mark\.)?(skip|skipif|xfail)\b(?!.*reason=)")


def problems(file: Path) -> list[str]:
    """The suppressions of one file that explain nothing, as `file:line: text`."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        match = SUPPRESSION.search(line)
        if match and len(match["rest"].strip(" -#:")) < 8:
            found.append(f"{file}:{number}: suppression without a reason: {line.strip()}")
        if SKIP.search(line) and "(" in line and file.name != "no_cheat.py" and '"' not in line.split("(", 1)[1]:
            found.append(f"{file}:{number}: skip without a reason: {line.strip()}")
    return found


def main() -> int:
    """Check every tracked Python file; returns the exit code."""
    tracked = subprocess.run(["git", "ls-files", "*.py"], check=True, capture_output=True, text=True).stdout.split()
    found = [text for name in tracked if name != "tools/no_cheat.py" for text in problems(Path(name))]
    sys.stderr.write("".join(text + "\n" for text in found))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
