"""The master of a Spark standalone cluster: whether it answers, and what an application with executors there is told.

Its own process is in client mode: started, found and ended by its identity. What runs elsewhere is the executors, and
they go by themselves when their driver does. See docs/adr/0039.
"""

from __future__ import annotations

import socket
from pathlib import Path

from lakeward import jars
from lakeward.connectors.aws import store
from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.types import SparkMaster

ANSWER_S = 3.0
"""Spark itself tries for a minute, and then ends without the master's name."""
_LOOPBACK = "127."
_JARS = "SPARK_DIST_CLASSPATH"  # of the driver's JVM alone; executors are told of theirs by `spark.jars`


def reach(master: SparkMaster, timeout_s: float = ANSWER_S) -> str:
    """Connect to a master, or to one that stands by; gives the address of this machine that it is reached from.

    Raises:
        DependencyDown: none of them accepts a connection.
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
        next="start it, or correct drivers: in conf/lakeward.yaml, then: lakeward doctor",
     code="LW-3173")  # fmt: skip


def conf(runtime: Runtime, here: str) -> dict[str, str]:
    """What a driver with executors elsewhere adds to its Spark conf, without secrets.

    Args:
        runtime: names the lake and the folder of jars.
        here: the address that executors reach the driver at.
    """
    lake = runtime.lake
    libraries = [*jars.spark_classpath(runtime.jars), jars.own.JAR]
    if store.account_of(lake) is not None:
        libraries += jars.s3_classpath(runtime.jars)
    around = {name: value for name, value in store.environment(lake, runtime.jars).items() if name != _JARS}
    return {
        # Served by the driver: the verified ones, whatever lies on the machines of the cluster.
        "spark.jars": ",".join(str(jar) for jar in libraries),
        # Executors call the driver back. On one machine nobody else needs to be able to.
        "spark.driver.host": here,
        "spark.driver.bindAddress": "127.0.0.1" if here.startswith(_LOOPBACK) else here,
        # A stream runs for months: what its executors print may not fill their disks.
        "spark.executor.logs.rolling.strategy": "size",
        "spark.executor.logs.rolling.maxSize": str(16 * 1024 * 1024),
        "spark.executor.logs.rolling.maxRetainedFiles": "5",
        **{f"spark.executorEnv.{name}": value for name, value in around.items()},
    }


def secret_file(runtime: Runtime, driver: str) -> Path:
    """Where a person puts the secret of the cluster a driver uses."""
    around = runtime.connections or runtime.registry_url_file.parent
    return around / "spark" / f"{driver}.secret"


def secret(runtime: Runtime, driver: str) -> str:
    """The secret of the cluster (`spark.authenticate.secret`) that a driver uses.

    Raises:
        SpecError: it is not there, is empty, or others may read it.
    """
    file = secret_file(runtime, driver)
    try:
        mode, text = file.stat().st_mode & 0o777, file.read_text().strip()
    except OSError as error:
        why = f"{file}: {error.strerror}"
        raise _no_secret(driver, why, "put the secret of the cluster there, mode 0600") from None
    if mode & 0o077:
        raise _no_secret(driver, f"{file} has mode {mode:04o}: others may read it", f"chmod 600 {file}")
    if not text or text != "".join(text.split()):
        raise _no_secret(driver, f"{file} is empty, or holds more than one word", "write the secret, and nothing else")
    return text


def _no_secret(driver: str, why: str, what: str) -> SpecError:
    return SpecError(
        f"Driver {driver} cannot log in to its Spark cluster (authenticate: true)", why=why,
        next=f"{what} (docs/how-to/run-on-a-spark-cluster.md)",
     code="LW-3174")  # fmt: skip
