"""`python -m lakeward.jars`: fetch what is missing, verify all, make the class archive.

With `pin`: rewrite `jars.sha256` after a change. With `own`: compile the jar that is our own after a change.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lakeward.jars import archive, check, ivy, own
from lakeward.platform.errors import LakewardError


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def main(arguments: list[str]) -> int:
    """Entry point; returns the exit code."""
    try:
        if arguments == ["pin"]:
            return _pin()
        if arguments == ["own"]:
            _say(f"compiled {own.build()}")
            return 0
        at = ivy.ensure(lambda name: _say(f"  {name}"))
        _say(f"{len(check.listed())} jars verified in {at}")
        archive.ensure(_say)
    except LakewardError as error:
        _say(str(error))
        return error.exit_code
    return 0


def _pin() -> int:
    with tempfile.TemporaryDirectory() as name:
        fresh = Path(name) / "jars"
        ivy.retrieve(fresh, lambda line: _say(f"  {line}"))
        lines = [f"{check.digest_of(fresh / jar)}  {jar}\n" for jar in check.names(fresh)]
    check.LIST.write_text("".join(lines))
    _say(f"{len(lines)} digests written to {check.LIST}: review the difference")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
