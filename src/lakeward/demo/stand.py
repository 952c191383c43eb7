"""Demo stack: the running stack with its topics and streams, and access to it."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from lakeward.demo.airflow_api import Airflow
from lakeward.demo.memory import tree_pss_bytes
from lakeward.platform.errors import DependencyDown, LakewardError, SpecError
from lakeward.platform.runtime import Home, Project, Runtime, registry_url
from lakeward.registry import deploy, generations, streams
from lakeward.registry.engine import connect
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.read.loader import load_project
from lakeward.spec.read.problems import raise_if_any
from lakeward.stack.kafka import create_topic
from lakeward.stack.stack import Stack
from lakeward.supervision.backends.base import Job, Life
from lakeward.supervision.backends.local import LocalBackend

if TYPE_CHECKING:
    from sqlalchemy import Connection

PARTITIONS = 3
AUTHOR = "demo"
DRIVER_GRACE_S = 60.0
BROKER_S = 120.0
Say = Callable[[str], None]


@dataclass
class DemoStack:
    """One home with the demo's project deployed on it.

    Attributes:
        project: the project with the demo's streams.
        home: the home of the stack.
        say: prints one line.
    """

    project: Project
    home: Home
    say: Say
    _up: dict[str, Any] = field(default_factory=dict, init=False)

    @property
    def stack(self) -> Stack:
        """The stack of this home."""
        return Stack(self.project, self.home)

    def up(self) -> float:
        """Start the stack with topics and streams; returns the duration in seconds."""
        begun = time.monotonic()
        self._up = self.stack.up(None, self._populate, self.say)
        return time.monotonic() - begun

    def down(self) -> None:
        """Stop the streams at a batch boundary, then the stack."""
        self.stack.down(self._stop_drivers, self.say)

    def _populate(self) -> None:
        """Create topics, then deploy the streams that read them; called while Airflow starts."""
        bootstrap = self.stack.site().kafka
        for topic in self.topics:
            _topic(bootstrap, topic)
        with self.registry() as connection:
            deploy.deploy(connection, self.specs, author=AUTHOR)

    @property
    def specs(self) -> dict[str, StreamSpec]:
        """The project's streams by id.

        Raises:
            SpecError: a file of the project is wrong.
        """
        loaded = load_project(self.project)
        raise_if_any(loaded.problems, next="lakeward config validate")
        return {name: stream.spec for name, stream in loaded.streams.items()}

    def require(self, *names: str) -> None:
        """Refuse a project without the demo's streams, before the start.

        Raises:
            SpecError: a file of the project is wrong, or one of these streams is missing.
        """
        missing = sorted(set(names) - self.specs.keys())
        if missing:
            raise SpecError(
                "This project is not the demo's",
                why=f"{self.project.root} has no stream {', '.join(missing)}",
                next="lakeward demo --project DIR   (a checkout of Lakeward)",
                code="LW-7415",
            )

    @property
    def topics(self) -> list[str]:
        """Every topic that the streams read or write."""
        names: set[str] = set()
        for spec in self.specs.values():
            names |= {str(topic) for source in spec.sources.values() if source.kafka for topic in source.kafka.topics}
            if spec.sink.kafka is not None:
                names.add(str(spec.sink.kafka.topic))
        return sorted(names)

    @property
    def runtime(self) -> Runtime:
        """The addresses of the running stack."""
        return Runtime.load(self.home.runtime_file)

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers."""
        return self.runtime.kafka["lakeward_kafka"]

    @contextmanager
    def registry(self) -> Iterator[Connection]:
        """One transaction on the registry."""
        with connect(registry_url(self.home), pgpass=self.home.pgpass) as connection:
            yield connection

    @property
    def airflow(self) -> Airflow:
        """Airflow's API as the admin."""
        address = self._up["airflow"]
        return Airflow(address["url"], address["user"], Path(address["password_file"]).read_text().strip())

    def checkpoint(self, stream: str) -> Path:
        """The checkpoint folder of a stream's current generation."""
        with self.registry() as connection:
            row = streams.get(connection, stream)
            generation = generations.named(connection, stream, row.generation)
        return Path(self.runtime.checkpoint_of(generation.checkpoint).removeprefix("file://"))

    def jobs(self) -> list[Job]:
        """The live drivers."""
        return [job for job in LocalBackend(self.home.drivers).find() if job.life in (Life.ALIVE, Life.REMNANT)]

    def pss_bytes(self) -> int:
        """Memory of the stack and of the drivers."""
        pids = [int((job.handle or {}).get("pid") or 0) for job in self.jobs()]
        return self.stack.pss_bytes() + tree_pss_bytes(pid for pid in pids if pid)

    def kill_driver(self, dice: random.Random) -> str:
        """SIGKILL the driver: its Python process, its JVM, or all of it at once. Returns a sentence.

        Raises:
            LakewardError: no driver runs.
        """
        job = next((job for job in self.jobs() if job.life is Life.ALIVE), None)
        if job is None or job.handle is None:
            raise LakewardError(
                "Cannot kill a driver: none runs",
                why=f"there is no driver process under {self.home.drivers}",
                next="lakeward streams list",
                code="LW-7416",
            )
        pid = int(job.handle["pid"])
        what = dice.choice(["the Python process", "the JVM", "the whole process group"])
        if what == "the whole process group":
            os.killpg(pid, signal.SIGKILL)
        else:
            victims = [pid] if what == "the Python process" else _java(pid)
            for victim in victims or [pid]:
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
        return f"SIGKILL to {what} of driver {job.driver} ({pid})"

    def _stop_drivers(self) -> None:
        backend = LocalBackend(self.home.drivers)
        for job in self.jobs():
            backend.stop(job, grace_s=DRIVER_GRACE_S)


def _java(pid: int) -> list[int]:
    with suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children(recursive=True) if child.name() == "java"]
    return []


def _topic(bootstrap: str, topic: str, timeout_s: float = BROKER_S) -> None:
    """Create a topic; retries, because the broker may still be starting in parallel with PostgreSQL."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            create_topic(bootstrap, topic, PARTITIONS)
            return
        except DependencyDown:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
