"""An object store of a test's own: SeaweedFS from its Python package, on loopback, with one user."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from lakeward.connectors.aws import account
from lakeward.platform import ports, private
from lakeward.platform.runtime import CatalogLogin, ObjectStore

KEY, SECRET = "WARDKEY", "ward-s3cret/x+y=%"
START_S = 120.0
ATTEMPTS = 3
_TAKEN = "address already in use"


@dataclass(frozen=True)
class Weed:
    """A running store.

    Attributes:
        secrets: the folder of connections, with `lakeward_s3` in it.
        catalog: the port of its Iceberg REST catalog, whose tables are in the bucket `lake`; 0 without one.
        server: the process.
    """

    port: int
    secrets: Path
    catalog: int
    server: subprocess.Popen[bytes]

    @property
    def rest(self) -> dict[str, str]:
        """The properties of its REST catalog, for `Lake.properties`."""
        uri = f"http://{ports.HOST}:{self.catalog}"
        return {"type": "rest", "uri": uri, "prefix": "lake", "warehouse": "s3://lake"}

    def log_in(self, secret: str = SECRET, name: str = "lakeward_rest") -> CatalogLogin:
        """Write a login of its REST catalog."""
        text = json.dumps({"credential": f"{KEY}:{secret}"})
        private.write(private.folder(self.secrets / "iceberg") / f"{name}.json", text)
        return CatalogLogin(connection=name, connections=self.secrets)

    @property
    def endpoint(self) -> str:
        return f"http://{ports.HOST}:{self.port}"

    @property
    def store(self) -> ObjectStore:
        return ObjectStore(connection="lakeward_s3", connections=self.secrets)

    def connect(self, name: str = "lakeward_s3", **more: str) -> ObjectStore:
        """Write a connection of the home."""
        given = {account.KEY: KEY, account.SECRET: SECRET, account.ENDPOINT: self.endpoint, **more}
        private.write(private.folder(self.secrets / "aws") / f"{name}.ini", account.render(given))
        return ObjectStore(connection=name, connections=self.secrets)

    def system(self) -> Any:
        """The store as a file system of pyarrow."""
        from pyarrow.fs import S3FileSystem

        return S3FileSystem(
            access_key=KEY, secret_key=SECRET, endpoint_override=self.endpoint, region="us-east-1",
            allow_bucket_creation=True,
        )  # fmt: skip

    def put(self, path: str, text: str) -> None:
        """Write an object."""
        with self.system().open_output_stream(path) as file:
            file.write(text.encode())

    def names(self, prefix: str) -> list[str]:
        """Every object below a prefix."""
        from pyarrow.fs import FileSelector

        found = self.system().get_file_info(FileSelector(prefix, recursive=True, allow_not_found=True))
        return sorted(each.path for each in found if each.is_file)


@contextmanager
def running(folder: Path, *, catalog: bool = False) -> Iterator[Weed]:
    """Run a store with the bucket `lake`, and a connection `lakeward_s3` to it.

    Args:
        catalog: whether the bucket is an Iceberg REST catalog's; then nothing else can be written to it.
    """
    made = next(filter(None, (_started(folder / str(attempt), catalog=catalog) for attempt in range(ATTEMPTS))), None)
    assert made is not None, f"ports were taken by others in each of {ATTEMPTS} attempts: {folder}"
    try:
        made.connect()
        yield made
    finally:
        _end(made)


def _started(folder: Path, *, catalog: bool) -> Weed | None:
    """A store that answers; None if another process took one of its ports first."""
    data = folder / "data"
    data.mkdir(parents=True)
    users = [{"name": "ward", "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
              "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]  # fmt: skip
    config = private.write(folder / "s3.json", json.dumps({"identities": users}))
    port, rest = ports.any_free(), ports.any_free() if catalog else 0
    parts = ("master", "volume", "filer", *(("admin",) if catalog else ()))
    taken = {f"{part}.port{kind}": ports.any_free() for part in parts for kind in ("", ".grpc")}
    head = [str(Path(sys.executable).with_name("weed")), f"-logdir={folder}"]
    only = ["mini", "-tableBucket=lake", "-webdav=false", "-admin.ui=false"] if catalog else [
        "server", "-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=50",
    ]  # fmt: skip
    command = [
        *head, *only, f"-ip={ports.HOST}", f"-ip.bind={ports.HOST}", f"-dir={data}",
        *(f"-{name}={port}" for name, port in taken.items()), "-s3", f"-s3.port={port}",
        f"-s3.port.grpc={ports.any_free()}", f"-s3.config={config}", f"-s3.port.iceberg={rest}", "-s3.port.lance=0",
    ]  # fmt: skip
    log = folder / "log"
    with log.open("ab") as sink:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True, cwd=folder
        )
    made = Weed(port, private.folder(folder / "secrets"), rest, server)
    try:
        end = time.monotonic() + START_S
        while not (_has_catalog(made) if catalog else _ready(made)):
            if server.poll() is not None and _TAKEN in log.read_text(errors="replace"):
                return None
            assert server.poll() is None and time.monotonic() < end, log.read_text(errors="replace")[-3000:]
            time.sleep(0.2)
        # `weed mini` takes another port where one is taken meanwhile; what answers at ours is then another test's.
        listening = {each.laddr.port for each in psutil.Process(server.pid).net_connections("tcp") if not each.raddr}
    except BaseException:
        _end(made)
        raise
    if {port, rest} - {0} <= listening:
        return made
    _end(made)
    return None


def _end(made: Weed) -> None:
    made.server.kill()  # its orderly end waits for clients, and what it holds is of no value
    made.server.wait()


def _has_catalog(made: Weed) -> bool:
    """The port listens before the bucket of the tables exists."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import RESTError

    if not ports.answers(made.catalog):
        return False
    try:
        login = {"credential": f"{KEY}:{SECRET}", "oauth2-server-uri": f"{made.rest['uri']}/v1/oauth/tokens"}
        with load_catalog("ready", **made.rest | login) as lake:
            lake.create_namespace_if_not_exists("ready")
            lake.drop_namespace("ready")
    except (RESTError, OSError):
        return False
    return True


def _ready(made: Weed) -> bool:
    """The port listens before the store can write."""
    if not ports.answers(made.port):
        return False
    try:
        made.system().create_dir("lake")
        with made.system().open_output_stream("lake/hello") as file:
            file.write(b"there")
        made.system().delete_file("lake/hello")
    except OSError:
        return False
    return True
