"""`python -m lakeward.jars`: download missing jars, verify all jars, and create the class archive.

`pin` rewrites `jars.sha256` after a change of the list. `own` compiles Lakeward's own jars after a change of a source.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lakeward.jars import archive, check, ivy, own
from lakeward.platform.errors import LakewardError


def _print(text: str) -> None:
    sys.stderr.write(text + "\n")


def main(arguments: list[str]) -> int:
    """Entry point; returns the exit code."""
    try:
        if arguments == ["pin"]:
            return _pin()
        if arguments == ["own"]:
            for jar in own.SOURCES:
                _print(f"compiled {own.build(jar)}")
            return 0
        at = ivy.ensure(lambda name: _print(f"  {name}"))
        _print(f"{len(check.listed())} jars verified in {at}")
        archive.ensure(_print)
    except LakewardError as error:
        _print(str(error))
        return error.exit_code
    return 0


def _pin() -> int:
    with tempfile.TemporaryDirectory() as name:
        fresh = Path(name) / "jars"
        ivy.retrieve(fresh, lambda line: _print(f"  {line}"))
        lines = [f"{check.digest_of(fresh / jar)}  {jar}\n" for jar in check.names(fresh)]
    check.LIST.write_text("".join(lines))
    _print(f"{len(lines)} digests written to {check.LIST}: review the difference")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
