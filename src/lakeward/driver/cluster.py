"""Entry point of a driver that a worker of a cluster starts: `python -m lakeward.driver.cluster LAUNCH_ID URL_FILE`.

Spark's `PythonRunner` starts this process below the JVM that it is to use. The launch, with its token, is a row of the
registry. The registry's address is in a file of this machine: `LAKEWARD_REGISTRY_URL_FILE` names it, else URL_FILE.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from lakeward.driver.__main__ import end
from lakeward.driver.launch_row import LaunchReporter
from lakeward.driver.main import run
from lakeward.platform.errors import LakewardError, SpecError
from lakeward.platform.runtime import Launch
from lakeward.registry import engine, launches
from lakeward.registry.drivers import Handle

URL_FILE = "LAKEWARD_REGISTRY_URL_FILE"
_HOW = "docs/how-to/run-on-a-spark-cluster.md"


@dataclass(frozen=True)
class Address:
    """The registry as this machine reaches it."""

    url_file: Path
    url: str
    pgpass: Path | None

    @classmethod
    def of(cls, given: str) -> Address:
        """From the environment, else from the path given.

        Raises:
            SpecError: the file is not there.
        """
        file = Path(os.environ.get(URL_FILE) or given)
        try:
            url = file.read_text().strip()
        except OSError as error:
            raise SpecError(
                "A driver on a cluster does not find the address of the registry",
                why=f"{file}: {error.strerror}",
                next=f"put the file there (in a pod: registry.url in its Secret), or name it in {URL_FILE} ({_HOW})",
                code="LW-2524",
            ) from None
        named = os.environ.get("PGPASSFILE")
        passwords = Path(named) if named else file.parent / "pgpass"
        return cls(file, url, passwords if passwords.is_file() else None)


def take(launch_id: str, address: Address, folder: Path) -> Launch:
    """The launch, with the addresses and the folder of this machine.

    Raises:
        SpecError: there is no such launch, or this version cannot read it.
        DependencyDown: the registry cannot be reached.
    """
    with engine.connect(address.url, address.pgpass) as connection:
        document = launches.document(connection, launch_id)
    if document is None:
        raise SpecError(
            f"The registry has no launch {launch_id}",
            why="it was purged, or this machine has the address of another registry",
            next=f"correct the file that {URL_FILE} names in its environment ({_HOW})",
            code="LW-2525",
        )
    try:
        launch = Launch.model_validate(document)
    except ValidationError as error:
        raise SpecError(
            f"The Lakeward of this driver cannot read launch {launch_id}",
            why="; ".join(".".join(map(str, item["loc"])) or item["msg"] for item in error.errors(include_url=False)),
            next="install the same version of Lakeward on workers and in images as beside Airflow",
            code="LW-2526",
        ) from None
    passwords = address.pgpass or launch.runtime.pgpass
    runtime = launch.runtime.model_copy(update={"registry_url_file": address.url_file, "pgpass": passwords})
    return launch.model_copy(update={"runtime": runtime, "folder": folder})


def main(arguments: list[str]) -> int:
    """Run the driver of a launch."""
    # The worker's folder of this driver alone; its name is the submission.
    return run_launch("lakeward.driver.cluster", arguments, Path.cwd())


def run_launch(module: str, arguments: list[str], folder: Path, handle: Handle | None = None) -> int:
    """Run the driver of the launch that the arguments of an entry point name.

    Args:
        module: the entry point, for its usage.
        folder: of this driver alone.
        handle: its identity; None: that of a submission.
    """
    if len(arguments) != 2:
        sys.stderr.write(f"usage: python -m {module} LAUNCH_ID URL_FILE\n")
        return 2
    launch_id, given = arguments
    try:
        address = Address.of(given)
        launch = take(launch_id, address, folder)
    except LakewardError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return run(launch, LaunchReporter(launch, address.url, address.pgpass, handle=handle))


if __name__ == "__main__":
    end(main(sys.argv[1:]))
