"""Locations of the jars, and the classpaths made of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from lakeward.jars import check, fitting
from lakeward.jars.fitting import pyspark_jars
from lakeward.platform.errors import LakewardError

SETS = ("spark", "kafka")
# 69 MB of AWS SDK: a driver that never talks to S3 should not hold it.
ONLY_WHEN_ASKED = ("iceberg-aws-bundle", "hadoop-aws", "spark-hadoop-cloud", "apache-client", "s3-transfer-manager")
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
    except RuntimeError:  # a container may run under a user id that has no name
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
    """The jars of a Spark application, sorted; without those of S3.

    Args:
        at: `Runtime.jars`, or the folder above it; default: this machine's.

    Raises:
        LakewardError: there are none: they were never fetched.
        SpecError: one was built for another Spark or Scala than the one that is installed.
    """
    return _chosen(at, lambda name: not name.startswith(ONLY_WHEN_ASKED))


def s3_classpath(at: Path | None = None) -> tuple[Path, ...]:
    """The further jars of an application that talks to S3: Iceberg's S3FileIO and Hadoop's s3a.

    Raises:
        LakewardError: as `spark_classpath`.
    """
    return _chosen(at, lambda name: name.startswith(ONLY_WHEN_ASKED))


def _chosen(at: Path | None, wanted: Callable[[str], bool]) -> tuple[Path, ...]:
    base = at or spark_folder()
    base = base / "spark" if (base / "spark").is_dir() else base
    found = tuple(sorted(jar for jar in base.glob("*.jar") if wanted(jar.name)))
    if not found:
        raise _absent(base)
    fitting.check(found, {name.rpartition("/")[2] for name in check.listed()})
    return found


def kafka_classpath() -> tuple[Path, ...]:
    """The jars of the embedded broker, those it takes from pyspark included."""
    own = tuple(sorted((folder() / "kafka").glob("*.jar")))
    if not own:
        raise _absent(folder() / "kafka")
    return own + tuple(sorted(jar for jar in pyspark_jars().glob("*.jar") if jar.name.startswith(FROM_PYSPARK)))


def _absent(at: Path) -> LakewardError:
    return LakewardError("The jars are missing", why=f"{at} has none", next="python -m lakeward.jars", code="LW-7214")
