"""Processes that commit versions of a Delta log on an object store at the same instant, and what became of the log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from object_store import KEY, SECRET, Weed
from py4j import java_gateway, protocol
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from lakeward import jars
from lakeward.connectors.aws import conditional

DELTA_S3 = "io.delta.storage.S3SingleDriverLogStore"
"""Delta's own store: it looks whether a version is there, then overwrites."""


@dataclass
class Writer:
    """One process with a log store.

    Attributes:
        name: what its commits begin with.
        jvm, store, conf: of the process.
        versions: those that the store granted it.
    """

    name: str
    jvm: Any
    store: Any
    conf: Any
    versions: list[int] = field(default_factory=list)

    def commit(self, url: str, version: int) -> None:
        """Write one version; it is this writer's, or another's."""
        actions = self.jvm.java.util.ArrayList()
        for line in (self.name, "x" * 2000):
            actions.add(line)
        path = self.jvm.org.apache.hadoop.fs.Path(f"{url}/{version:020d}.json")
        try:
            self.store.write(path, actions.iterator(), False, self.conf)
            self.versions.append(version)
        except Py4JJavaError as error:
            taken = error.java_exception.getClass().getName() == "java.nio.file.FileAlreadyExistsException"
            assert taken, f"{self.name}, version {version}: {error.java_exception.toString()}"


@contextmanager
def writer(name: str, port: int, log_store: str = jars.own.S3_CLASS) -> Iterator[Writer]:
    """A JVM with Hadoop's s3a and Delta's storage, without a session.

    Args:
        port: of the store, or of a proxy before it.
    """
    gateway = JavaGateway.launch_gateway(
        classpath=conditional.classpath(),
        jarpath=str(next(jars.pyspark_jars().glob("py4j-*"))),
        javaopts=["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"],
        enable_auth=True,
        die_on_exit=True,
    )
    try:
        conf = gateway.jvm.org.apache.hadoop.conf.Configuration()
        for key, value in {
            "endpoint": f"http://127.0.0.1:{port}", "path.style.access": "true", "connection.ssl.enabled": "false",
            "endpoint.region": "us-east-1", "access.key": KEY, "secret.key": SECRET, "attempts.maximum": "3",
            "retry.limit": "3",
        }.items():  # fmt: skip
            conf.set(f"fs.s3a.{key}", value)
        classes = gateway.jvm
        for part in log_store.split("."):
            classes = getattr(classes, part)
        yield Writer(name, gateway.jvm, classes(conf), conf)
    finally:
        gateway.shutdown()
        gateway.java_process.stdin.close()
        gateway.java_process.wait(20)


@contextmanager
def writers(ports: Mapping[str, int], log_store: str = jars.own.S3_CLASS) -> Iterator[list[Writer]]:
    """A process for each name."""
    with ExitStack() as held, pytest.MonkeyPatch.context() as patch:
        # PySpark looks up every Java exception of the process in the JVM of its session; these come from other JVMs.
        patch.setattr(java_gateway, "get_return_value", protocol.get_return_value)
        yield [held.enter_context(writer(name, port, log_store)) for name, port in ports.items()]


def race(
    those: Sequence[Writer], url: str, versions: range, before: Callable[[Writer, int], None] = lambda *_: None
) -> None:
    """Each writes every version, all at the same instant.

    Args:
        before: called by each before a version.
    """
    together = threading.Barrier(len(those), timeout=300)  # a bound for a hang

    def write(one: Writer) -> None:
        for version in versions:
            before(one, version)
            together.wait()
            one.commit(url, version)

    with ThreadPoolExecutor(len(those)) as pool:
        for job in [pool.submit(write, each) for each in those]:
            job.result()


def mistakes(weed: Weed, those: Sequence[Writer], folder: str, versions: range) -> list[str]:
    """What is wrong with a log: versions that were granted to two, or to none, or that hold another's commit.

    Args:
        folder: its bucket and path.
    """
    wrong = []
    for version in versions:
        granted = [each.name for each in those if version in each.versions]
        with weed.system().open_input_stream(f"{folder}/{version:020d}.json") as file:
            holds = file.read().decode().splitlines()[0]
        if granted != [holds]:
            wrong.append(f"version {version}: granted to {granted}, holds the commit of {holds}")
    return wrong
