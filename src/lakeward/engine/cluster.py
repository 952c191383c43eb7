"""A driver whose executors are on a Spark standalone cluster: which, and how Spark gets its secret."""

from __future__ import annotations

import os

from lakeward.connectors.kafka.spark_options import escaped
from lakeward.connectors.spark import master
from lakeward.platform import private
from lakeward.platform.runtime import Launch
from lakeward.spec.model.types import SparkMaster

PYTHON = "spark.pyspark.python"


def master_of(launch: Launch) -> SparkMaster | None:
    """The master of a launch's cluster; None where the driver works by itself."""
    found = launch.conf.get("spark.master", "")
    return SparkMaster(found) if found.startswith("spark://") else None


def hand_over_secret(launch: Launch) -> None:
    """Give Spark the cluster's secret, if it has one: in a private folder of conf, read by the JVM when it starts.

    Spark takes it from its conf alone (its `secret.file` is for Kubernetes), and whatever `SparkSession.builder` is
    told stands on the JVM's command line.

    Raises:
        SpecError: the secret is not there, is empty, or others may read it.
    """
    if launch.conf.get("spark.authenticate") != "true":
        return
    text = master.secret(launch.runtime, launch.driver)
    folder = private.folder(launch.folder / "conf")
    private.write(folder / "spark-defaults.conf", f"spark.authenticate.secret={escaped(text)}\n")
    os.environ["SPARK_CONF_DIR"] = str(folder)


def forget_secret(launch: Launch) -> None:
    """Remove what `hand_over_secret` wrote: the JVM has read it."""
    (launch.folder / "conf" / "spark-defaults.conf").unlink(missing_ok=True)
