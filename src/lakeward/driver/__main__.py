"""`python -m lakeward.driver <launch.json>`: what a backend starts."""

from __future__ import annotations

import sys
from pathlib import Path

from lakeward.driver.main import run
from lakeward.runtime import Launch


def main(arguments: list[str]) -> int:
    """Run the driver described by the one argument, a launch file."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m lakeward.driver LAUNCH.json\n")
        return 2
    return run(Launch.read(Path(arguments[0])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
