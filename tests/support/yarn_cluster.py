"""A YARN cluster on loopback: a ResourceManager and a NodeManager of Hadoop's own jars, as processes of the test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from lakeward import jars
from lakeward.platform import ports
from lakeward.spec.model.settings import Driver

VERSION = "3.4.2"
_SERVERS = "org.apache.hadoop.yarn.server"
_MASTER = "org.apache.spark.deploy.yarn.ApplicationMaster"
_LOGGING = """log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %c{1}: %m%n
"""


def server_jars() -> Path:
    """The jars of the servers, fetched by Ivy if they are not there."""
    folder = Path.home() / ".cache" / "lakeward" / f"yarn-{VERSION}"
    if not folder.exists():
        ivy = next(jars.pyspark_jars().glob("ivy-*.jar"))
        fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
        subprocess.run(
            [
                str(jars.find_java().binary), "-cp", str(ivy), "org.apache.ivy.Main",
                "-ivy", str(Path(__file__).parents[1] / "yarn" / "ivy.xml"), "-confs", "yarn",
                "-types", "jar", "bundle", "-retrieve", f"{fresh}/[artifact]-[revision].[ext]",
            ],
            check=True,
        )  # fmt: skip
        fresh.rename(folder)
    return folder


@dataclass
class YarnCluster:
    """One ResourceManager that remembers its applications, and one NodeManager; queues `default`, `small`, `closed`.

    Attributes:
        folder: for state, logs and containers.
        memory_mb: of the node.
    """

    folder: Path
    memory_mb: int = 3072
    numbers: list[int] = field(default_factory=lambda: [ports.any_free() for _ in range(8)])
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.numbers[0]}"

    @property
    def conf(self) -> Path:
        return self.folder / "conf"

    @property
    def manager(self) -> subprocess.Popen[bytes]:
        return self._running["resourcemanager.ResourceManager"]

    def entry(self, secrets: Path, **changed: Any) -> Driver:
        """An entry of `drivers:` that runs here; `secrets` has the registry's address as this node reads it."""
        given = {
            "backend": "yarn", "hadoop_conf": str(self.conf), "memory": "640m", "compiler": "quick",
            "executors": {"min": 1, "max": 1, "cores": 1, "memory": "512m"},
            "spark": {
                "spark.pyspark.python": sys.executable,
                "spark.yarn.stagingDir": (self.folder / "staging").as_uri(),
                "spark.yarn.appMasterEnv.LAKEWARD_REGISTRY_URL_FILE": str(secrets / "registry.url"),
                "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
                "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
            },
        }  # fmt: skip
        return Driver.model_validate({**given, **changed})

    def start(self) -> YarnCluster:
        self.conf.mkdir(parents=True, exist_ok=True)
        (self.conf / "log4j.properties").write_text(_LOGGING)
        for name, given in (
            ("core-site", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(self.folder / "tmp")}),
            ("yarn-site", self._yarn()),
            ("capacity-scheduler", self._queues()),
        ):
            text = "".join(
                f"<property><name>{key}</name><value>{value}</value></property>\n" for key, value in given.items()
            )
            (self.conf / f"{name}.xml").write_text(f"<configuration>\n{text}</configuration>\n")
        self.start_manager()
        self._run("nodemanager.NodeManager")
        self._wait("a node", lambda: any(node["state"] == "RUNNING" for node in self._nodes()))
        return self

    def start_manager(self) -> None:
        self._run("resourcemanager.ResourceManager")
        self._wait("the ResourceManager", lambda: bool(self.call("/info")))

    def stop_manager(self) -> None:
        self.manager.kill()
        self.manager.wait()

    def forget(self) -> None:
        """What the ResourceManager remembers is removed, while it is away."""
        shutil.rmtree(self.folder / "state")

    def call(self, path: str, method: str = "GET", content: Any = None) -> dict[str, Any]:
        answer = httpx.request(method, f"{self.url}/ws/v1/cluster{path}", json=content, timeout=30, trust_env=False)
        answer.raise_for_status()
        return dict(answer.json())

    def apps(self) -> list[dict[str, Any]]:
        return list((self.call("/apps")["apps"] or {}).get("app") or ())

    def kill(self, application: str) -> None:
        """What `yarn application -kill` does."""
        self.call(f"/apps/{application}/state", "PUT", {"state": "KILLED"})

    def masters(self) -> list[psutil.Process]:
        """The JVMs of application masters on this node."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            with suppress(psutil.Error):
                line = process.info["cmdline"] or []
                if _MASTER in line and process.name() == "java" and process.cwd().startswith(str(self.folder)):
                    found.append(process)
        return found

    def left(self) -> list[psutil.Process]:
        """Everything that containers of this node still run."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.cwd().startswith(str(self.folder / "local")):
                    found.append(process)
        return found

    def end(self) -> None:
        for process in self._running.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        for left in self.left():
            with suppress(psutil.Error):
                left.kill()

    def _nodes(self) -> list[dict[str, Any]]:
        return list((self.call("/nodes")["nodes"] or {}).get("node") or ())

    def _wait(self, what: str, done: Any) -> None:
        end = time.monotonic() + 180
        while True:
            with suppress(httpx.HTTPError):
                if done():
                    return
            logs = "\n".join(file.read_text(errors="replace")[-2000:] for file in self.folder.glob("*.log"))
            assert time.monotonic() < end, f"{what} did not come: {logs}"
            time.sleep(0.5)

    def _run(self, kind: str) -> None:
        command = [
            str(jars.find_java().binary), "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp", f"{self.conf}:{server_jars()}/*",
            f"{_SERVERS}.{kind}",
        ]  # fmt: skip
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "JAVA_HOME") if name in os.environ}
        with (self.folder / f"{kind.split('.')[0]}.log").open("ab") as log:
            self._running[kind] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=environment
            )

    def _yarn(self) -> dict[str, object]:
        web, rpc, scheduler, tracker, admin, node, localizer, page = self.numbers
        return {
            "yarn.resourcemanager.webapp.address": f"127.0.0.1:{web}",
            "yarn.resourcemanager.hostname": "127.0.0.1",
            "yarn.resourcemanager.address": f"127.0.0.1:{rpc}",
            "yarn.resourcemanager.scheduler.address": f"127.0.0.1:{scheduler}",
            "yarn.resourcemanager.resource-tracker.address": f"127.0.0.1:{tracker}",
            "yarn.resourcemanager.admin.address": f"127.0.0.1:{admin}",
            "yarn.resourcemanager.recovery.enabled": "true",
            "yarn.resourcemanager.store.class": f"{_SERVERS}.resourcemanager.recovery.FileSystemRMStateStore",
            "yarn.resourcemanager.fs.state-store.uri": (self.folder / "state").as_uri(),
            "yarn.resourcemanager.scheduler.class": f"{_SERVERS}.resourcemanager.scheduler.capacity.CapacityScheduler",
            "yarn.scheduler.minimum-allocation-mb": 128,
            "yarn.nodemanager.address": f"127.0.0.1:{node}",
            "yarn.nodemanager.localizer.address": f"127.0.0.1:{localizer}",
            "yarn.nodemanager.webapp.address": f"127.0.0.1:{page}",
            "yarn.nodemanager.local-dirs": self.folder / "local",
            "yarn.nodemanager.log-dirs": self.folder / "containers",
            "yarn.nodemanager.resource.memory-mb": self.memory_mb,
            "yarn.nodemanager.resource.cpu-vcores": 8,
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": 100,
        }

    def _queues(self) -> dict[str, object]:
        root = "yarn.scheduler.capacity"
        return {
            f"{root}.root.queues": "default,small,closed",
            f"{root}.root.default.capacity": 80,
            f"{root}.root.small.capacity": 10,
            f"{root}.root.small.maximum-capacity": 10,
            f"{root}.root.closed.capacity": 10,
            f"{root}.root.closed.state": "STOPPED",
            f"{root}.maximum-am-resource-percent": "0.8",
        }
