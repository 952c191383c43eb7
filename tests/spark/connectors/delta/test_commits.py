from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j import java_gateway, protocol
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from lakeward import jars

VERSIONS = 100


@contextmanager
def a_process() -> Iterator[Any]:
    """A JVM with Delta's storage and nothing else of Spark."""
    bundled = jars.pyspark_jars()
    names = ("py4j-*", "hadoop-client-*", "slf4j-api-*")
    classpath = [*(jar for name in names for jar in bundled.glob(name)), jars.own.JAR]
    classpath += [jar for jar in jars.spark_classpath() if jar.name.startswith("delta-storage-")]
    gateway = JavaGateway.launch_gateway(
        classpath=os.pathsep.join(str(jar) for jar in classpath),
        jarpath=str(next(bundled.glob("py4j-*"))),
        javaopts=["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
        enable_auth=True,
        die_on_exit=True,
    )
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        gateway.java_process.stdin.close()
        gateway.java_process.wait(20)


def test_a_version_that_two_processes_write_at_once_is_granted_to_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # PySpark looks up every Java exception of the process in the JVM of its session; these come from other JVMs.
    monkeypatch.setattr(java_gateway, "get_return_value", protocol.get_return_value)
    together = threading.Barrier(2, timeout=300)  # a bound for a hang

    def commit(name: str, jvm: Any) -> list[int]:
        conf = jvm.org.apache.hadoop.conf.Configuration()
        store, mine = jvm.io.lakeward.LinkLogStore(conf), []
        for version in range(VERSIONS):
            actions = jvm.java.util.ArrayList()
            for line in (name, "x" * 2000):
                actions.add(line)
            path = jvm.org.apache.hadoop.fs.Path((tmp_path / f"{version:020d}.json").as_uri())
            together.wait()
            try:
                store.write(path, actions.iterator(), False, conf)
                mine.append(version)
            except Py4JJavaError as error:
                assert error.java_exception.getClass().getSimpleName() == "FileAlreadyExistsException"
        return mine

    with a_process() as stream, a_process() as optimize, ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(commit, name, jvm) for name, jvm in (("stream", stream), ("optimize", optimize))]
        first, second = (each.result() for each in jobs)
    assert sorted(first + second) == list(range(VERSIONS))
    for name, mine in (("stream", first), ("optimize", second)):
        assert all((tmp_path / f"{version:020d}.json").read_text().startswith(f"{name}\n") for version in mine)
    assert len(list(tmp_path.iterdir())) == VERSIONS, "nothing else is left in the log"


def test_a_session_commits_delta_tables_by_links(rig) -> None:
    rig.land(0)
    jvm = rig.spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(rig.spark._jsparkSession, str(rig.folder))
    store = log.store().getDelegate(jvm.org.apache.hadoop.fs.Path(rig.folder.as_uri()))
    assert store.logStoreImpl().getClass().getName() == jars.own.CLASS


@pytest.mark.parametrize("jar", jars.own.SOURCES, ids=lambda jar: jar.name)
def test_a_jar_is_what_its_sources_compile_to(jar: Path, tmp_path: Path) -> None:
    assert jars.own.build(jar, tmp_path / "own.jar").read_bytes() == jar.read_bytes(), "python -m lakeward.jars own"
