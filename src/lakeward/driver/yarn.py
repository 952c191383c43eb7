"""Entry point of a driver in a container of YARN: `python -m lakeward.driver.yarn LAUNCH_ID URL_FILE`.

Spark's `PythonRunner`, in the application master, starts this process below the JVM that it is to use. The launch, with
its token, is a row of the registry, whose address is in a file of this node. The folder of the driver is that of the
container's logs: YARN collects what is there (`yarn logs`), and what Python and the JVM print goes there, too.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from lakeward.driver.__main__ import end
from lakeward.driver.cluster import run_launch
from lakeward.registry.drivers import Handle

_CONTAINER = re.compile(r"container_(?:e\d+_)?(\d+)_(\d+)_\d+_\d+")


def main(arguments: list[str]) -> int:
    """Run the driver of a launch."""
    folder = Path(os.environ.get("LOG_DIRS", "").split(",")[0] or Path.cwd())
    return run_launch("lakeward.driver.yarn", arguments, folder, handle())


def handle() -> Handle:
    """The application that this container belongs to."""
    found = _CONTAINER.fullmatch(os.environ.get("CONTAINER_ID", ""))
    return {"application": f"application_{found[1]}_{found[2]}" if found else ""}


if __name__ == "__main__":
    end(main(sys.argv[1:]))
