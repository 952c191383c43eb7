"""Entry point of an executor in a pod of Kubernetes: `python -m lakeward.driver.executor_pod executor`.

Spark, in the driver, makes the pod from a template of Lakeward, and gives the executor's identity, size and options in
variables, as its own images expect them. This process copies the Secrets of the driver's entry for itself alone, and
becomes the JVM of the executor. What that prints is the log of the pod.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from lakeward.connectors.kubernetes.executor_pods import AUTHENTICATION, PATHS
from lakeward.driver.pod import own_secrets
from lakeward.jars.fitting import pyspark_jars
from lakeward.jars.java import DEEP_STACK, ROOM_FOR_CLASSES, find_java
from lakeward.platform.errors import LakewardError

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""Argument -> the variable in which Spark gives its value."""
_AUTHENTICATION = "_SPARK_AUTH_SECRET"
"""Variable in which Spark looks for the secret of driver and executors; here of this process alone."""
_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")


def command(java: Path, spark: Path, environ: Mapping[str, str]) -> list[str]:
    """The command of the executor's JVM.

    Args:
        spark: the folder of Spark's jars.
        environ: what Spark gave to the container.
    """
    found = sorted((int(match[1]), value) for name, value in environ.items() if (match := _OPTION.fullmatch(name)))
    options = [value for _, value in found]
    memory = environ["SPARK_EXECUTOR_MEMORY"]
    given = os.pathsep.join(part for part in (environ.get("SPARK_CLASSPATH"), f"{spark}/*") if part)
    return [
        str(java), DEEP_STACK, ROOM_FOR_CLASSES, "-XX:+ExitOnOutOfMemoryError", *options,
        f"-Xms{memory}", f"-Xmx{memory}", "-cp", given, BACKEND,
        *(word for name, variable in ARGUMENTS.items() for word in (name, environ[variable])),
    ]  # fmt: skip


def main(arguments: list[str]) -> int:
    """Become the executor; returns only if that fails."""
    if arguments != ["executor"]:
        sys.stderr.write("usage: python -m lakeward.driver.executor_pod executor, in a pod that Spark made\n")
        return 2
    try:
        own_secrets(json.loads(os.environ[PATHS]))
        # Spark asks for the secret before it knows that it is on Kubernetes, where it reads a file, in this form.
        os.environ[_AUTHENTICATION] = base64.b64encode(Path(os.environ[AUTHENTICATION]).read_bytes()).decode()
        words = command(find_java().binary, pyspark_jars(), os.environ)
    except LakewardError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return os.execv(words[0], words)  # noqa: S606  # the JVM takes the place of this process, and so its signals


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
