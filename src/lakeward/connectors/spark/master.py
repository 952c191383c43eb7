"""Spark standalone cluster: reachability of its master, and the Spark conf of a driver with executors there.

The driver runs in client mode as a process of this machine. Only executors run on the cluster, and they end with their
driver. See docs/adr/0039.
"""

from __future__ import annotations

import socket
from pathlib import Path

from lakeward import jars
from lakeward.connectors.iceberg import catalog
from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.types import SparkMaster

ANSWER_S = 3.0
"""Spark itself would retry for a minute and report an error without the name of the master."""
_LOOPBACK = "127."


def reach(master: SparkMaster, timeout_s: float = ANSWER_S) -> str:
    """Connect to a master or its standby; returns the local address of the connection.

    Raises:
        DependencyDown: no master accepts a connection.
    """
    tried = []
    for place in master.places:
        try:
            with socket.create_connection(place, timeout=timeout_s) as link:
                return str(link.getsockname()[0])
        except OSError as error:
            tried.append(f"{place[0]}:{place[1]}: {error.strerror or error}")
    raise DependencyDown(
        f"The Spark master {master} does not answer", why="; ".join(tried),
        next="start the master, or correct drivers: in conf/lakeward.yaml, then: lakeward doctor",
     code="LW-3173")  # fmt: skip


def conf(runtime: Runtime, here: str) -> dict[str, str]:
    """The additional Spark conf of a driver with executors on a cluster, without secrets.

    Args:
        runtime: has the lake and the folder of jars.
        here: the address at which executors reach the driver.
    """
    lake = runtime.lake
    libraries = [*jars.spark_classpath(runtime.jars), *jars.own.libraries(), *catalog.libraries(lake, runtime.jars)]
    return {
        # The driver serves the verified jars, independent of the jars on the machines of the cluster.
        "spark.jars": ",".join(str(jar) for jar in libraries),
        # Executors connect to the driver. On a single machine loopback is enough.
        "spark.driver.host": here,
        "spark.driver.bindAddress": "127.0.0.1" if here.startswith(_LOOPBACK) else here,
        # A stream runs for months: the output of its executors must not fill their disks.
        "spark.executor.logs.rolling.strategy": "size",
        "spark.executor.logs.rolling.maxSize": str(16 * 1024 * 1024),
        "spark.executor.logs.rolling.maxRetainedFiles": "5",
        **{f"spark.executorEnv.{name}": value for name, value in catalog.variables_of(lake).items()},
    }


def secret_file(runtime: Runtime, driver: str) -> Path:
    """The file in which a person stores the secret of the cluster that a driver uses."""
    folder = runtime.connections or runtime.registry_url_file.parent
    return folder / "spark" / f"{driver}.secret"


def secret(runtime: Runtime, driver: str) -> str:
    """The secret of the cluster (`spark.authenticate.secret`) that a driver uses.

    Raises:
        SpecError: the file is missing or empty, or other users can read it.
    """
    file = secret_file(runtime, driver)
    try:
        mode, text = file.stat().st_mode & 0o777, file.read_text().strip()
    except OSError as error:
        why = f"{file}: {error.strerror}"
        raise _no_secret(driver, why, "write the secret of the cluster to this file, mode 0600") from None
    if mode & 0o077:
        raise _no_secret(driver, f"{file} has mode {mode:04o}: other users can read it", f"chmod 600 {file}")
    if not text or text != "".join(text.split()):
        raise _no_secret(driver, f"{file} is empty or contains white space", "write the secret, and nothing else")
    return text


def _no_secret(driver: str, why: str, what: str) -> SpecError:
    return SpecError(
        f"Driver {driver} cannot authenticate to its Spark cluster", why=why,
        next=f"{what} (docs/how-to/run-on-a-spark-cluster.md)",
     code="LW-3174")  # fmt: skip
