"""Entry point of a driver process: `python -m lakeward.driver <launch.json>`, started by a backend."""

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
    """End the process at once, without waiting for threads that wait for a broker, the registry or the JVM."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    end(main(sys.argv[1:]))
