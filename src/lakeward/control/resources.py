"""Spark conf of a driver, from what its streams ask for and what the project says of the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lakeward.spec.settings import Driver as DriverSettings
from lakeward.spec.spark_conf import local
from lakeward.spec.types import Memory

# Java reserves a fifth of the space for compiled code when its second compiler is off, and Spark compiles new code for
# every query: 48 MB were full after three minutes, and a JVM whose code cache is full ends its Spark context.
QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"


def conf(specs: Iterable[Mapping[str, Any]], settings: DriverSettings | None = None) -> dict[str, str]:
    """The conf of one Spark application that hosts these streams: the largest wish of each kind wins.

    Args:
        specs: resolved specs of the streams it hosts.
        settings: what `conf/lakeward.yaml` says of the driver; its values are the least.
    """
    base = settings or DriverSettings()
    wishes = [spec.get("resources") or {} for spec in specs]
    cores = max([base.cores, *(int(wish["cores"]) for wish in wishes if wish.get("cores"))])
    memory = max(
        [base.memory, *(Memory(wish["driver_memory"]) for wish in wishes if wish.get("driver_memory"))],
        key=lambda size: size.bytes,
    )
    wished = {str(key): str(value) for key, value in base.spark.items()}
    if base.compiler == "quick":
        wished["spark.driver.extraJavaOptions"] = QUICK
    return {"spark.master": local(cores), "spark.driver.memory": str(memory), **wished}
