"""A driver whose executors are on a Spark standalone cluster: what Spark is told so that they find everything.

The driver's own process is the one of every driver, in client mode: started, found and ended by its identity. What runs
elsewhere is the executors, and they go by themselves when their driver does. See docs/adr/0039.
"""

from __future__ import annotations

import os
from pathlib import Path

from lakeward import jars, private
from lakeward.connectors.aws import store
from lakeward.connectors.kafka.java import escaped
from lakeward.errors import SpecError
from lakeward.runtime import Launch
from lakeward.spec.types import SparkMaster

PYTHON = "spark.pyspark.python"
_LOOPBACK = "127."
_JARS = "SPARK_DIST_CLASSPATH"  # of the driver's JVM alone; executors are told of theirs by `spark.jars`


def master_of(launch: Launch) -> SparkMaster | None:
    """The master of a launch's cluster; None where the driver works by itself."""
    found = launch.conf.get("spark.master", "")
    return SparkMaster(found) if found.startswith("spark://") else None


def conf(launch: Launch, here: str) -> dict[str, str]:
    """What a driver with executors elsewhere adds to its Spark conf, without secrets.

    Args:
        here: the address that executors reach the driver at.
    """
    lake = launch.runtime.lake
    libraries = [*jars.spark_classpath(launch.runtime.jars), jars.own.JAR]
    if store.account_of(lake) is not None:
        libraries += jars.s3_classpath(launch.runtime.jars)
    around = {name: value for name, value in store.environment(lake, launch.runtime.jars).items() if name != _JARS}
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


def secret_file(launch: Launch) -> Path:
    """Where a person puts the secret of the cluster this driver uses."""
    around = launch.runtime.connections or launch.runtime.registry_url_file.parent
    return around / "spark" / f"{launch.driver}.secret"


def hand_over_secret(launch: Launch) -> None:
    """Give Spark the cluster's secret, if it has one: in a private folder of conf, read by the JVM when it starts.

    Spark takes it from its conf alone (its `secret.file` is for Kubernetes), and whatever `SparkSession.builder` is
    told stands on the JVM's command line.

    Raises:
        SpecError: the secret is not there, is empty, or others may read it.
    """
    if launch.conf.get("spark.authenticate") != "true":
        return
    file = secret_file(launch)
    try:
        mode, text = file.stat().st_mode & 0o777, file.read_text().strip()
    except OSError as error:
        why = f"{file}: {error.strerror}"
        raise _no_secret(launch, why, "put the secret of the cluster there, mode 0600") from None
    if mode & 0o077:
        raise _no_secret(launch, f"{file} has mode {mode:04o}: others may read it", f"chmod 600 {file}")
    if not text or text != "".join(text.split()):
        raise _no_secret(launch, f"{file} is empty, or holds more than one word", "write the secret, and nothing else")
    folder = private.folder(launch.folder / "conf")
    private.write(folder / "spark-defaults.conf", f"spark.authenticate.secret={escaped(text)}\n")
    os.environ["SPARK_CONF_DIR"] = str(folder)


def forget_secret(launch: Launch) -> None:
    """Remove what `hand_over_secret` wrote: the JVM has read it."""
    (launch.folder / "conf" / "spark-defaults.conf").unlink(missing_ok=True)


def _no_secret(launch: Launch, why: str, what: str) -> SpecError:
    return SpecError(
        f"Driver {launch.driver} cannot log in to its Spark cluster (authenticate: true)", why=why,
        next=f"{what} (docs/how-to/run-on-a-spark-cluster.md)",
    )  # fmt: skip
