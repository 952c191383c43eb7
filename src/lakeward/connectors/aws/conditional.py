"""Conditional creation of objects on an S3 store: the one that Delta's log needs, by `io.lakeward.S3LogStore`.

The class is the log store of every Spark application, which tries the store before its first commit. Here it runs in a
Java process of its own, for commands that have no Spark. Keys are found by the SDK, as in a driver.
"""

from __future__ import annotations

import os
import subprocess

from lakeward import jars
from lakeward.connectors.aws import store
from lakeward.jars import own
from lakeward.jars.java import find_java
from lakeward.platform.errors import LakewardError, SpecError
from lakeward.platform.runtime import Lake

IGNORES = "The object store ignores If-None-Match"
"""The first words of `S3LogStore` about a store that overwrites."""
_TAKEN = 3
_TIMEOUT_S = 180


def check(lake: Lake, folder: str) -> None:
    """Check that the store refuses the second creation of an object; it writes and deletes one in `folder`.

    Raises:
        SpecError: the store creates it twice.
        LakewardError: the check was not possible.
    """
    _run(lake, "trial", folder, b"")


def create(lake: Lake, file: str, content: bytes) -> bool:
    """Create an object. False: it exists.

    Raises:
        SpecError: the store ignores the condition.
        LakewardError: it was not created, or the store did not say.
    """
    return _run(lake, "create", file, content) != _TAKEN


def ignores(lake: Lake, folder: str, why: str) -> SpecError:
    """The error for a store that creates an object twice.

    Args:
        why: the words of `S3LogStore`.
    """
    return SpecError(
        f"The object store of {folder} cannot hold Delta tables",
        why=f"{why[why.index(IGNORES) :].strip()}: two processes could both commit one version, and the rows of one "
        "would be lost without an error (docs/adr/0113)",
        next="use a store with conditional writes (AWS S3, SeaweedFS, MinIO ..), or an Iceberg table "
        "(sink: {iceberg: ..})",
        code="LW-3504",
    )


def classpath() -> str:
    """What `S3LogStore` needs in a process without Spark's session."""
    storage = [jar for jar in jars.spark_classpath() if jar.name.startswith("delta-storage-")]
    return os.pathsep.join(map(str, [jars.pyspark_jars() / "*", own.JAR, *jars.s3_classpath(), *storage]))


def _run(lake: Lake, what: str, place: str, content: bytes) -> int:
    """The exit code of one call."""
    account = store.account_of(lake)
    prefix = "spark.hadoop."
    conf = {
        key.removeprefix(prefix): value for key, value in store.spark_conf(lake, "").items() if key.startswith(prefix)
    }
    command = [
        str(find_java().binary), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m",
        "-cp", classpath(), own.S3_CLASS, what, place,
        *(f"{key}={value}" for key, value in conf.items()),
    ]  # fmt: skip
    environment = {**os.environ, **(account.environment() if account is not None else {})}
    try:
        done = subprocess.run(
            command, input=content, env=environment, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise _failed(place, f"no answer within {_TIMEOUT_S} s") from None
    if done.returncode in (0, _TAKEN):
        return done.returncode
    said = done.stderr.decode(errors="replace").strip()
    if IGNORES in said:
        raise ignores(lake, place, said)
    raise _failed(place, said.splitlines()[-1] if said else f"Java ended with {done.returncode}")


def _failed(place: str, why: str) -> LakewardError:
    return LakewardError(
        f"Conditional creation at {place} failed",
        why=why,
        next="check the object store and the rights of its connection (docs/how-to/land-on-s3.md), then repeat the "
        "command",
        code="LW-3505",
    )
