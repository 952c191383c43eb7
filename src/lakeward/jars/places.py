"""Locations of the jars, and the classpaths built from them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from lakeward.jars import check, fitting
from lakeward.jars.fitting import pyspark_jars
from lakeward.platform.errors import LakewardError

SETS = ("spark", "kafka")
# 69 MB of AWS SDK: a driver without S3 does not load it.
S3_ONLY = ("iceberg-aws-bundle", "hadoop-aws", "spark-hadoop-cloud", "apache-client", "s3-transfer-manager")
# The broker takes Scala and log4j from pyspark instead of downloading them twice.
FROM_PYSPARK = ("scala-library-", "scala-reflect-", "slf4j-api-", "log4j-api-", "log4j-core-", "log4j-slf4j2-impl-")


def folder() -> Path:
    """The folder with `spark/` and `kafka/`: `LAKEWARD_JARS`, or the cache folder of this list of jars."""
    chosen = os.environ.get("LAKEWARD_JARS")
    if chosen:
        return Path(os.path.realpath(chosen))
    digest = hashlib.sha256(check.LIST.read_bytes()).hexdigest()[:16]
    return cache() / "jars" / digest


def cache() -> Path:
    """Lakeward's cache: `${XDG_CACHE_HOME:-~/.cache}/lakeward`.

    Raises:
        LakewardError: this user has no home folder.
    """
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakeward"
    except RuntimeError:  # a container may run under a user id without a name
        raise LakewardError(
            "No folder for the jars was found",
            why=f"user {os.getuid()} has no home folder, and neither HOME nor XDG_CACHE_HOME is set",
            next="export XDG_CACHE_HOME=DIR",
            code="LW-7215",
        ) from None


def spark_folder() -> Path:
    """The folder with the jars of Spark applications; the value of `Runtime.jars`."""
    return folder() / "spark"


def spark_classpath(at: Path | None = None) -> tuple[Path, ...]:
    """The jars of a Spark application, sorted, without the S3 jars.

    Args:
        at: `Runtime.jars`, or its parent folder; default: the folder of this machine.

    Raises:
        LakewardError: the jars were never downloaded.
        SpecError: a jar was built for another Spark or Scala than the installed one.
    """
    return _chosen(at, lambda name: not name.startswith(S3_ONLY))


def s3_classpath(at: Path | None = None) -> tuple[Path, ...]:
    """The additional jars of an application with S3: Iceberg's S3FileIO and Hadoop's s3a.

    Raises:
        LakewardError: as `spark_classpath`.
    """
    return _chosen(at, lambda name: name.startswith(S3_ONLY))


def _chosen(at: Path | None, included: Callable[[str], bool]) -> tuple[Path, ...]:
    base = at or spark_folder()
    base = base / "spark" if (base / "spark").is_dir() else base
    chosen = tuple(sorted(jar for jar in base.glob("*.jar") if included(jar.name)))
    if not chosen:
        raise _absent(base)
    fitting.check(chosen, {name.rpartition("/")[2] for name in check.listed()})
    return chosen


def kafka_classpath() -> tuple[Path, ...]:
    """The jars of the embedded broker, including those of pyspark that it uses."""
    own = tuple(sorted((folder() / "kafka").glob("*.jar")))
    if not own:
        raise _absent(folder() / "kafka")
    return own + tuple(sorted(jar for jar in pyspark_jars().glob("*.jar") if jar.name.startswith(FROM_PYSPARK)))


def _absent(at: Path) -> LakewardError:
    return LakewardError(
        "The jars are missing", why=f"{at} has no jars", next="python -m lakeward.jars", code="LW-7214"
    )
