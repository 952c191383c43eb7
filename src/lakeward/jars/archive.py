"""Class archive (class data sharing, JEP 350): Spark's loaded classes in a file that every later JVM maps into memory.

Half of the CPU time of a driver's start is spent on reading and verifying classes of nearly 300 jars. `training` runs
the work of drivers once, and Java writes the archive when it ends. Java compares names, sizes and times of all jars
when it maps an archive, and ignores an archive that does not match: it can make a start faster, but not wrong.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from lakeward.jars import fitting, places
from lakeward.jars.java import locate
from lakeward.platform import process_group
from lakeward.platform.errors import LakewardError

TRAINING_S = 1800  # a minute or two on two quiet cores; twelve were seen on cores that others used
# Java would print on stdout why it does not use an archive, which would break `-o json` and drivers' logs.
QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


def file(at: Path | None = None) -> Path:
    """The path of the archive for this Java, pyspark and jars, whether it exists or not. It is part of the environment.

    Args:
        at: the folder of Lakeward's Spark jars; default: this machine's.
    """
    java = locate(os.environ)
    inputs = [] if java is None else [str(java.resolve())]
    release = [] if java is None else [java.resolve().parents[1] / "release"]  # the version file of Java
    for jar in (*release, *places.spark_classpath(at), *sorted(fitting.pyspark_jars().glob("*.jar"))):
        status = jar.stat()
        inputs.append(f"{jar} {status.st_size} {int(status.st_mtime)}")
    digest = hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "lakeward" / f"spark-{digest}.jsa"


def options(at: Path | None = None) -> list[str]:
    """JVM options that use the archive; empty if there is none.

    Only for a JVM whose class path begins with `places.spark_classpath()`: `spark.driver.extraClassPath`.
    """
    archive = file(at)
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *QUIET] if archive.is_file() else []


def conf(at: Path | None = None) -> dict[str, str]:
    """The conf of a session that uses the archive with the class path it is valid for; empty if there is none."""
    try:
        java_options = options(at)
    except LakewardError:  # the jars were never downloaded; a session that reads no table needs none
        return {}
    if not java_options:
        return {}
    classpath = os.pathsep.join(str(jar) for jar in places.spark_classpath(at))
    return {"spark.driver.extraClassPath": classpath, "spark.driver.extraJavaOptions": " ".join(java_options)}


def ensure(progress: Callable[[str], None] = lambda line: None) -> Path | None:
    """Create the archive if it is missing. If that fails, the reason is reported to `progress` and None is returned:
    starts are slower without it."""
    archive = file()
    if archive.is_file():
        return archive
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".training-") as folder:
            progress("preparing Spark's classes for faster starts, once (a minute or two)")
            fresh = Path(folder) / archive.name
            train(Path(folder), fresh)
            for old in archive.parent.glob("spark-*.jsa"):
                old.unlink()
            fresh.replace(archive)
    except OSError as error:
        again = "`python -m lakeward.jars` tries again"
        progress(f"Spark starts slower here: its class archive could not be created ({error}); {again}")
        return None
    return archive


def train(folder: Path, archive: Path) -> None:
    """Run the training in a separate process; its JVM ends with it.

    Raises:
        OSError: it wrote no archive, or took longer than `TRAINING_S`.
    """
    command = [sys.executable, "-m", "lakeward.jars.training", str(folder), str(archive)]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    log = folder / "training.log"
    try:
        with log.open("wb") as output:
            code = process_group.run(command, limit_s=TRAINING_S, env=environment, cwd=folder, output=output)
    except subprocess.TimeoutExpired:
        raise OSError(f"training took longer than {TRAINING_S // 60} minutes") from None
    if code == 0 and not archive.is_file():
        raise OSError("the JVM of the training wrote no archive")
    if code != 0:
        last = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-1:]
        raise OSError(f"training ended with exit code {code}: {''.join(last)[:300]}")
