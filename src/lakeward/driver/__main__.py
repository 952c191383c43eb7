"""`python -m lakeward.driver <launch.json>`: what a backend starts."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import NoReturn

from lakeward.driver.main import run
from lakeward.platform.runtime import Launch


def main(arguments: list[str]) -> int:
    """Run the driver described by the one argument, a launch file."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m lakeward.driver LAUNCH.json\n")
        return 2
    return run(Launch.read(Path(arguments[0])))


def end(code: int) -> NoReturn:
    """End the process for good: no thread that still waits for a broker, a registry or the JVM may hold it up."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    end(main(sys.argv[1:]))
