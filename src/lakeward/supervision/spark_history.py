"""Spark history server: the Spark UI of a driver that has ended, on loopback, from its event logs.

The server is part of pyspark and needs Java only. It never writes to the logs; its index is in a temporary folder.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from lakeward import jars
from lakeward.platform.errors import LakewardError

MAIN = "org.apache.spark.deploy.history.HistoryServer"
EVENTS = "events"
"""Folder of the event logs in a launch's folder (`driver.eventlog`)."""
START_S = 90.0


@dataclass(frozen=True)
class History:
    """A running history server."""

    url: str
    process: subprocess.Popen[bytes]


def launches(drivers: Path, driver: str) -> list[Path]:
    """The launches of a driver that have event logs, newest first."""
    folder = drivers / driver
    if not folder.is_dir():
        return []
    with_events = (item for item in folder.iterdir() if (item / EVENTS).is_dir() and any((item / EVENTS).iterdir()))
    return sorted(with_events, reverse=True)


@contextmanager
def serve(launch: Path, port: int) -> Iterator[History]:
    """Run the history server over one launch's event logs; it ends with the `with` block.

    Raises:
        LakewardError: it did not start.
        Unhealthy: there is no Java.
    """
    java = jars.find_java()
    classpath = os.pathsep.join(
        str(jar) for jar in (*jars.spark_classpath(), *sorted(jars.pyspark_jars().glob("*.jar")))
    )
    with TemporaryDirectory(prefix="lakeward-history-") as temporary:
        settings = {
            "spark.history.fs.logDirectory": (launch / EVENTS).as_uri(),
            "spark.history.ui.port": str(port),
            "spark.history.fs.update.interval": "3600s",
            "spark.history.fs.cleaner.enabled": "false",
            "spark.history.store.path": temporary,
            "spark.ui.killEnabled": "false",
        }
        command = [str(java.binary), "-Xmx1g", *(f"-D{name}={value}" for name, value in settings.items())]
        log = Path(temporary) / "log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [*command, "-cp", classpath, MAIN],
                stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, cwd=temporary,
                env={"PATH": os.environ.get("PATH", ""), "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_HOME": str(java.home)},
            )  # fmt: skip
        try:
            yield History(_ready(process, port, log), process)
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ready(process: subprocess.Popen[bytes], port: int, log: Path) -> str:
    """Wait until the server shows the application; returns its page, or the list if there are several."""
    base = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + START_S
    with httpx.Client(trust_env=False, timeout=5) as client:
        while time.monotonic() < deadline and process.poll() is None:
            try:
                applications = client.get(f"{base}/api/v1/applications").json()
            except (httpx.HTTPError, ValueError):
                applications = []
            if len(applications) == 1:
                return f"{base}/history/{applications[0]['id']}/jobs/"
            if applications:
                return base
            time.sleep(0.2)
    last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["it printed nothing"]
    raise LakewardError(
        "The Spark history server did not show the event log", why=last[0][:300], next="lakeward doctor", code="LW-2508"
    )
