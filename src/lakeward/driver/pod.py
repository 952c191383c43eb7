"""Entry point of a driver in a pod of Kubernetes: `python -m lakeward.driver.pod LAUNCH_ID`.

The launch, with its token, is a row of the registry. The registry's address and password are files of a Secret. The
folder of the driver is the pod's work folder; what Python and the JVM print goes there, too, and to the pod's log.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lakeward.connectors.kubernetes import container
from lakeward.connectors.kubernetes.names import pod_name
from lakeward.driver.__main__ import end
from lakeward.driver.cluster import Address, take
from lakeward.driver.launch_row import LaunchReporter
from lakeward.driver.main import PRINTED, run
from lakeward.platform import private
from lakeward.platform.errors import LakewardError, expect
from lakeward.platform.runtime import Launch, PodPlace
from lakeward.registry.drivers import Handle

UID = "LAKEWARD_POD_UID"


def main(arguments: list[str]) -> int:
    """Run the driver of a launch."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m lakeward.driver.pod LAUNCH_ID\n")
        return 2
    folder = Path.cwd()
    try:
        address = own_passwords(Address.of("/etc/lakeward/registry/registry.url"), folder)
        launch = take(arguments[0], address, folder)
        handle = _handle(launch)
        own_secrets(expect(launch.pod, "the pod of a launch").secrets)
    except LakewardError as error:
        sys.stderr.write(f"{error}\n")  # the pod's termination message
        return error.exit_code
    tee(folder / PRINTED)
    reporter = LaunchReporter(
        launch, address.url, address.pgpass, handle=handle, printed=(PRINTED,), jvm_given=False
    )  # fmt: skip
    return run(launch, reporter)


def own_passwords(address: Address, folder: Path) -> Address:
    """The address with a password file that is this user's alone: libpq reads no other. A file of a Secret is not."""
    if address.pgpass is None:
        return address
    mine = private.write(folder / "pgpass", address.pgpass.read_text())
    os.environ["PGPASSFILE"] = str(mine)
    return Address(address.url_file, address.url, mine)


def own_secrets(paths: Mapping[str, str]) -> None:
    """Copy the files of Secrets to where they are looked for, for this user alone: no other logins are read.

    Args:
        paths: the folder of each Secret.
    """
    mounted = Path(os.environ.get(container.SECRETS_FOLDER, PodPlace.SECRETS))
    for name, path in paths.items():
        folder = Path(path)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in (mounted / name).iterdir():
            if not file.name.startswith("."):  # the kubelet's own links
                private.write(folder / file.name, file.read_text())


def tee(file: Path) -> None:
    """From now on write what this process and its children print to a file as well."""
    copier = subprocess.Popen(["tee", "-a", str(file)], stdin=subprocess.PIPE, start_new_session=True)
    given = expect(copier.stdin, "the pipe to the process")
    sys.stdout.flush()
    for descriptor in (1, 2):
        os.dup2(given.fileno(), descriptor)
    given.close()


def _handle(launch: Launch) -> Handle:
    place = expect(launch.pod, "the pod of a launch")
    name = pod_name(launch.driver, launch.id)
    return {"pod": name, "namespace": place.namespace, "uid": os.environ.get(UID, "")}


if __name__ == "__main__":
    end(main(sys.argv[1:]))
