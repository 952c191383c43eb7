"""Iceberg's own REST handlers as a catalog on loopback, with credentials that it vends for each table.

Iceberg has the server's side of its REST protocol, which its own tests use; `ReferenceRest.java` serves it before a
catalog in memory. The object store is moto behind a front that takes a vended key until its end, and below its table's
folder alone, as the policies of such credentials do.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import assumed_role
from assumed_role import BUCKET, REGION, Store

from lakeward.connectors.aws import account
from lakeward.jars import find_java, pyspark_jars
from lakeward.jars.places import s3_classpath, spark_classpath
from lakeward.platform import ports, private
from lakeward.platform.runtime import Lake, ObjectStore

START_S = 90.0
SERVER = "OFTHESERVER"
LATE_S = 2.0
"""How long after its end a vended key is taken: what a busy machine may need from a look at the clock to a request."""
_SOURCE = Path(__file__).with_name("ReferenceRest.java")
_KEY = re.compile(r"VENDED\d+X([0-9a-f]+)")


class Vending(Store):
    """The object store: it takes the server's key, and vended ones."""

    def __init__(self, moto: int, secrets: Path) -> None:
        super().__init__(moto, secrets)
        self.until[SERVER] = float("inf")

    def refusal(self, key: str, path: str, body: bytes) -> tuple[str, int] | None:
        vended = _KEY.fullmatch(key)
        if vended is None:
            return super().refusal(key, path, body)
        if time.time() > ends_ms(key) / 1000 + LATE_S:
            return "ExpiredToken", 400
        folder = bytes.fromhex(vended[1]).decode()
        return (
            None if all(f"{each}/".startswith(f"{folder}/") for each in objects(path, body)) else ("AccessDenied", 403)
        )


def ends_ms(key: str) -> int:
    """When a vended key ends, in milliseconds since 1970. Pure."""
    return int(key.removeprefix("VENDED").partition("X")[0])


def objects(path: str, body: bytes) -> list[str]:
    """The objects that a request of S3 reads, lists or deletes, as `/BUCKET/KEY`. Pure."""
    url = urlsplit(path)
    query = parse_qs(url.query, keep_blank_values=True)
    if "delete" in query:
        return [f"{unquote(url.path).rstrip('/')}/{each}" for each in re.findall("<Key>([^<]*)</Key>", body.decode())]
    if "list-type" in query:
        return [f"{unquote(url.path).rstrip('/')}/{query.get('prefix', [''])[0]}"]
    return [unquote(url.path)]


@dataclass(frozen=True)
class Reference:
    """A running catalog.

    Attributes:
        port: of its HTTP.
        store: the object store of its tables.
        server: the process.
        folder: its log.
    """

    port: int
    store: Vending
    server: subprocess.Popen[bytes]
    folder: Path

    @property
    def lake(self) -> Lake:
        """As the default catalog of a deployment; it vends the credentials of its files."""
        return Lake(warehouse=f"s3://{BUCKET}", properties=self.properties)

    def connect(self) -> ObjectStore:
        """A connection to the object store with the server's own key."""
        given = {
            account.KEY: SERVER,
            account.SECRET: "s",
            account.REGION: REGION,
            account.ENDPOINT: self.store.endpoint,
        }
        private.write(private.folder(self.store.secrets / "aws") / "server.ini", account.render(given))
        return ObjectStore(connection="server", connections=self.store.secrets)

    @property
    def properties(self) -> dict[str, str]:
        """For `Lake.properties`."""
        return {"type": "rest", "uri": f"http://{ports.HOST}:{self.port}", "warehouse": f"s3://{BUCKET}"}


@contextmanager
def running(folder: Path, *, life_s: float = 3600.0) -> Iterator[Reference]:
    """The catalog with its files on an object store, ended whatever happens.

    Args:
        life_s: how long vended credentials are valid; they say so.
    """
    with assumed_role.running(folder / "s3", Vending) as store:
        files = {"s3.endpoint": store.endpoint, "s3.path-style-access": "true", "client.region": REGION}
        given = {
            "warehouse": f"s3://{BUCKET}",
            "s3.access-key-id": SERVER,
            "s3.secret-access-key": "s",
            "server.life-ms": str(int(life_s * 1000)),
            **files,
            **{f"server.override.{name}": value for name, value in files.items()},
        }
        with _served(folder, given) as (port, server):
            yield Reference(port, store, server, folder)


@contextmanager
def on_disk(folder: Path, warehouse: Path) -> Iterator[Lake]:
    """The catalog with its files on this machine's disk: it vends nothing."""
    with _served(folder, {"warehouse": str(warehouse), "server.life-ms": "1"}) as (port, _):
        uri = f"http://{ports.HOST}:{port}"
        yield Lake(warehouse=str(warehouse), properties={"type": "rest", "uri": uri, "warehouse": str(warehouse)})


@contextmanager
def _served(folder: Path, given: Mapping[str, str]) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    port = ports.any_free()
    server = _launch(folder, {**given, "server.port": str(port)})
    try:
        _wait(port, server, folder / "log")
        yield port, server
    finally:
        server.kill()
        server.wait()


def _launch(folder: Path, given: Mapping[str, str]) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{name}={value}\n" for name, value in given.items())
    config = private.write(folder / "catalog.properties", text)
    java = find_java().binary
    jars = os.pathsep.join([*map(str, (*spark_classpath(), *s3_classpath())), f"{pyspark_jars()}/*"])
    classes = folder / "classes"
    compiler = [java.with_name("javac"), "-proc:none", "-cp", jars, "-d", classes, _SOURCE]
    subprocess.run(compiler, check=True, timeout=START_S)
    command = [
        str(java), "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        "-cp", os.pathsep.join([str(classes), jars]), "org.apache.iceberg.rest.ReferenceRest", str(config),
    ]  # fmt: skip
    with (folder / "log").open("ab") as sink:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True, cwd=folder
        )


def _wait(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_S
    while not ports.answers(port):
        assert server.poll() is None and time.monotonic() < end, log.read_text(errors="replace")[-3000:]
        time.sleep(0.2)
