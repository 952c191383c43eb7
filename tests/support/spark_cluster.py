"""A Spark standalone cluster on loopback: a master and a worker from the jars of the installed pyspark."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import interpretation
import psutil

from lakeward import jars
from lakeward.platform import ports
from lakeward.spec.model.settings import Driver
from lakeward.spec.model.stream import Executors
from lakeward.spec.model.types import Memory, SparkMaster

_SMALL = ("-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_DRIVER, _PROGRAM = "org.apache.spark.deploy.worker.DriverWrapper", "lakeward.driver.cluster"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@dataclass
class SparkCluster:
    """Processes of this test; whatever is left of them ends with `end`.

    Attributes:
        folder: for logs and the worker's own files.
        secret: what its daemons and applications know of each other; empty: no authentication.
        rest: whether the master has its REST gateway, for drivers in cluster mode.
        environment: variables that its daemons have in addition, and drivers in cluster mode with them.
    """

    folder: Path
    secret: str = ""
    rest: bool = False
    port: int = field(default_factory=ports.any_free)
    rest_port: int = field(default_factory=ports.any_free)
    ui_port: int = field(default_factory=ports.any_free)
    environment: dict[str, str] = field(default_factory=dict)
    master_process: subprocess.Popen[bytes] | None = None
    worker: subprocess.Popen[bytes] | None = None
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def master(self) -> SparkMaster:
        return SparkMaster(f"spark://127.0.0.1:{self.port}")

    def driver(self, executors: int = 1) -> Driver:
        """An entry of `drivers:` that runs here."""
        executors_spec = Executors(min=executors, max=executors, cores=1, memory=Memory("512m"))
        authenticate = bool(self.secret)
        return Driver(
            backend="standalone",
            master=self.master,
            executors=executors_spec,
            compiler="quick",
            authenticate=authenticate,
            spark=interpretation.of_the_gate(),
        )

    def driver_in_cluster_mode(self, executors: int = 1) -> Driver:
        """An entry of `drivers:` whose driver a worker runs, too."""
        more = {
            "deploy_mode": "cluster", "rest": f"http://127.0.0.1:{self.rest_port}", "memory": "640m",
            "ui": f"http://127.0.0.1:{self.ui_port}",
        }  # fmt: skip
        given = self.driver(executors).model_dump(mode="json", exclude_unset=True)
        return Driver.model_validate({**given, **more})

    def start(self) -> SparkCluster:
        self.start_master()
        self.start_worker()
        return self

    def start_master(self) -> None:
        rest = f"-Dspark.master.rest.enabled={str(self.rest).lower()}"
        options = (rest, "-Dspark.master.rest.host=127.0.0.1", f"-Dspark.master.rest.port={self.rest_port}")
        place = ("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.ui_port))
        self.master_process = self._run("master.Master", *place, options=options)
        end = time.monotonic() + 120
        services = (self.port, self.ui_port, *((self.rest_port,) if self.rest else ()))
        while not (all(ports.answers(each) for each in services) and self._is_active()):
            assert time.monotonic() < end, "the master did not come"
            time.sleep(0.1)

    def _is_active(self) -> bool:
        """A master is a standby for a moment after its ports are open."""
        page = httpx.get(f"http://127.0.0.1:{self.ui_port}/json/", timeout=30, trust_env=False)
        return bool(page.json()["status"] == "ALIVE")

    def start_worker(self) -> None:
        work = ("--work-dir", str(self.folder / "work"))
        size = ("--cores", "2", "--memory", "1200m")
        place = ("--host", "127.0.0.1", "--webui-port", "0")
        self.worker = self._run("worker.Worker", *place, *size, *work, str(self.master))

    def kill_worker(self) -> None:
        """The worker alone: whether its executors go is what is looked at."""
        assert self.worker is not None
        self.worker.kill()
        self.worker.wait()

    def executors(self) -> list[psutil.Process]:
        """The executors that this cluster has, living; also those of a worker that is gone."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            line = process.info["cmdline"] or []
            if _EXECUTOR in line and any(each.startswith(str(self.folder)) for each in _paths(process)):
                found.append(process)
        return found

    def end(self) -> None:
        for process in (*self._started, *self.drivers(), *self.executors()):
            with suppress(ProcessLookupError, psutil.Error):
                process.send_signal(signal.SIGKILL)
        for started in self._started:
            started.wait()

    def drivers(self) -> list[psutil.Process]:
        """The JVMs of drivers in cluster mode, and the Python processes below them."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            line = process.info["cmdline"] or []
            ours = any(each.startswith(str(self.folder)) for each in _paths(process))
            if ours and (_DRIVER in line or _PROGRAM in line):
                found.append(process)
        return found

    def _run(self, kind: str, *arguments: str, options: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        home = jars.pyspark_jars().parent
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "JAVA_HOME") if name in os.environ}
        environment |= {
            "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"), "SPARK_NO_DAEMONIZE": "1",
        }  # fmt: skip
        environment |= self.environment
        given = [*_SMALL, "-Dspark.worker.driverTerminateTimeout=3s", "-Dspark.ui.port=0", *options]
        if self.secret:
            given.append("-Dspark.authenticate=true")
            environment["_SPARK_AUTH_SECRET"] = self.secret
        command = ["java", "-cp", str(home / "jars" / "*"), *given, f"org.apache.spark.deploy.{kind}"]
        with (self.folder / f"{kind.split('.')[0]}.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment, cwd=self.folder,
            )  # fmt: skip
        self._started.append(process)
        return process


def _paths(process: psutil.Process) -> list[str]:
    """Where a process works: an executor does in a folder of its worker."""
    with suppress(psutil.Error):
        return [process.cwd()]
    return []
