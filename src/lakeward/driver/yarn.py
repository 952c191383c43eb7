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
from lakeward.driver.cluster import Address, take
from lakeward.driver.launch_row import LaunchReporter
from lakeward.driver.main import run
from lakeward.platform.errors import LakewardError
from lakeward.registry.drivers import Handle

_CONTAINER = re.compile(r"container_(?:e\d+_)?(\d+)_(\d+)_\d+_\d+")


def main(arguments: list[str]) -> int:
    """Run the driver of a launch."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m lakeward.driver.yarn LAUNCH_ID URL_FILE   (in a container of YARN)\n")
        return 2
    launch_id, given = arguments
    folder = Path(os.environ.get("LOG_DIRS", "").split(",")[0] or Path.cwd())
    try:
        address = Address.of(given)
        launch = take(launch_id, address, folder)
    except LakewardError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return run(launch, LaunchReporter(launch, address.url, address.pgpass, handle=handle()))


def handle() -> Handle:
    """The application that this container belongs to."""
    found = _CONTAINER.fullmatch(os.environ.get("CONTAINER_ID", ""))
    return {"application": f"application_{found[1]}_{found[2]}" if found else ""}


if __name__ == "__main__":
    end(main(sys.argv[1:]))
