"""Drivers on a Spark standalone cluster: the master, and the hand-over of the cluster's secret."""

from __future__ import annotations

import os

from lakeward.connectors.kafka.spark_options import escaped
from lakeward.connectors.spark import master
from lakeward.platform import private
from lakeward.platform.runtime import Launch
from lakeward.spec.model.types import SparkMaster

PYTHON = "spark.pyspark.python"


def master_of(launch: Launch) -> SparkMaster | None:
    """The master of a launch's cluster; None if the driver runs without executors."""
    master_url = launch.conf.get("spark.master", "")
    return SparkMaster(master_url) if master_url.startswith("spark://") else None


def hand_over_secret(launch: Launch) -> None:
    """Pass the cluster's secret, if it has one, to Spark: in a private conf folder that the JVM reads when it starts.

    Spark reads the secret from its conf only (`secret.file` is for Kubernetes), and everything that is set on
    `SparkSession.builder` is visible on the JVM's command line.

    Raises:
        SpecError: the secret is missing or empty, or other users may read it.
    """
    if launch.conf.get("spark.authenticate") != "true":
        return
    text = master.secret(launch.runtime, launch.driver)
    folder = private.folder(launch.folder / "conf")
    private.write(folder / "spark-defaults.conf", f"spark.authenticate.secret={escaped(text)}\n")
    os.environ["SPARK_CONF_DIR"] = str(folder)


def forget_secret(launch: Launch) -> None:
    """Remove the file of `hand_over_secret`, after the JVM has read it."""
    (launch.folder / "conf" / "spark-defaults.conf").unlink(missing_ok=True)
