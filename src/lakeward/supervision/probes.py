"""Probes: check whether the dependencies of streams answer. Cheap, in parallel, each with a timeout.

They run once a pass, and only if something failed or is silent: a healthy deployment is not probed every minute.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from lakeward.connectors.aws import store
from lakeward.connectors.iceberg.catalog import pyiceberg_properties
from lakeward.connectors.kafka import broker, cluster
from lakeward.connectors.kinesis.stream import Place
from lakeward.connectors.postgres import connection as link
from lakeward.connectors.postgres import table
from lakeward.connectors.spark import master
from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import Runtime
from lakeward.platform.text import size
from lakeward.spec.model.file_paths import here, local
from lakeward.spec.model.types import SparkMaster
from lakeward.supervision.decide.dependencies import MACHINE, Dependency, Kind

ANSWER_S = 3.0
PATIENCE_S = 8.0
"""Timeout of all probes together."""
ROOM_BYTES = 64 * 1024 * 1024
"""A store with less free space than this cannot take a batch."""

Answers = Mapping[Dependency, str | None]
"""Dependency -> why it does not work; None if it works."""


def ask(runtime: Runtime, dependencies: Iterable[Dependency], patience_s: float = PATIENCE_S) -> Answers:
    """Probe all of them at once. Never raises, never takes longer than `patience_s`."""
    silence = f"no answer in {patience_s:.0f} s"
    answers: dict[Dependency, str | None] = dict.fromkeys(sorted(set(dependencies)), silence)
    lock, ended = threading.Lock(), threading.Event()

    def probe(dependency: Dependency) -> None:
        try:
            answer = _PROBES[dependency.kind](dependency.name, runtime)
        except Exception as error:  # noqa: BLE001  # named boundary: however a probe fails, that is its answer
            answer = _reason(error)
        with lock:
            if not ended.is_set():
                answers[dependency] = answer

    # Daemon threads: a probe that hangs in a dead file system must not keep the process from ending.
    threads = [
        threading.Thread(target=probe, args=(item,), daemon=True, name=f"probe {item.subject}") for item in answers
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + patience_s
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    with lock:
        ended.set()
        return dict(answers)


def _kafka(name: str, runtime: Runtime) -> str | None:
    # Metadata is requested: the port of a hung broker still accepts connections.
    broker.end_offsets(cluster.find(name, runtime), [], timeout_s=ANSWER_S)
    return None


def _catalog(name: str, runtime: Runtime) -> str | None:
    lake = next((each for each in runtime.lake.others if each.catalog == name), runtime.lake)
    if lake.rest:
        from pyiceberg.catalog import load_catalog

        with load_catalog(lake.name, **pyiceberg_properties(lake)):  # logs in, and asks for the configuration
            return None
    if lake.hive or lake.glue:
        from pyiceberg.catalog import load_catalog

        load_catalog(lake.name, **pyiceberg_properties(lake)).list_namespaces()  # a port alone may be another server's
        return None
    if {"type", "catalog-impl"} & set(lake.properties):
        return _port(lake.properties.get("uri", ""))
    import psycopg2

    how = {"passfile": str(runtime.pgpass)} if runtime.pgpass else {}
    with (
        closing(
            psycopg2.connect(
                host=lake.host,
                port=lake.port,
                dbname=name,
                user=lake.user,
                connect_timeout=int(ANSWER_S),
                options=f"-c statement_timeout={int(ANSWER_S * 1000)}",
                **how,
            )
        ) as link,
        link.cursor() as cursor,
    ):
        cursor.execute("SELECT 1")
    return None


def _store(name: str, runtime: Runtime) -> str | None:
    """A local folder must exist, be writable and have free space; an object store must be reachable."""
    if not here(name):
        store.check(runtime.lake, name)
        return _port(runtime.lake.properties.get("s3.endpoint", ""))
    folder = Path(local(name))
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent  # it is created with the first table or checkpoint
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    if free < ROOM_BYTES:
        return f"disk full: {size(free)} free in {folder}"
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"lakeward")
    return None


def _connect(name: str, runtime: Runtime) -> str | None:
    return _port(f"sc://{name}")


def _postgres(name: str, runtime: Runtime) -> str | None:
    with closing(link.connect(link.find(name, runtime.postgres), runtime.pgpass, "probe", int(ANSWER_S))) as session:
        [(standby,)] = table.query(session, "SELECT pg_is_in_recovery()")
    return "it is a standby, which is read-only" if standby else None


def _master(name: str, runtime: Runtime) -> str | None:
    master.reach(SparkMaster(name), ANSWER_S)
    return None


def _kinesis(name: str, runtime: Runtime) -> str | None:
    """An answer below 500 counts as available: a refusal concerns a stream or a key, which the stream's error names."""
    from botocore.exceptions import ClientError

    region, _, connection = name.partition(", ")
    place = Place("", region, "" if connection == MACHINE else connection, str(runtime.connections or ""))
    try:
        place.connect(place.account, timeout_s=ANSWER_S).list_streams(Limit=1)
    except ClientError as error:
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))
        return None if status < 500 else str(error.response["Error"].get("Code") or status)
    return None


def _kubernetes(name: str, runtime: Runtime) -> str | None:
    from lakeward.connectors.kubernetes import access
    from lakeward.connectors.kubernetes.client import Api

    Api(access.find(None if name == MACHINE else name, runtime.connections)).version()
    return None


def _yarn(name: str, runtime: Runtime) -> str | None:
    from lakeward.connectors.yarn.client import ResourceManager

    ResourceManager(name.split(",")).version()
    return None


def _port(address: str) -> str | None:
    """Whether something listens. An unknown address counts as available."""
    parts = urlsplit(address)
    if parts.hostname is None:
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    socket.create_connection((parts.hostname, port), timeout=ANSWER_S).close()
    return None


_PROBES: Mapping[Kind, Callable[[str, Runtime], str | None]] = {
    Kind.KAFKA: _kafka,
    Kind.CATALOG: _catalog,
    Kind.STORE: _store,
    Kind.CONNECT: _connect,
    Kind.POSTGRES: _postgres,
    Kind.MASTER: _master,
    Kind.KINESIS: _kinesis,
    Kind.KUBERNETES: _kubernetes,
    Kind.YARN: _yarn,
}


def _reason(error: Exception) -> str:
    if isinstance(error, LakewardError):
        return error.why or error.what
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
