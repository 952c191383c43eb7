"""A registry with streams in it, a real local backend, and a driver that is small but keeps the launch contract."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.backends.base import Life
from lakeward.backends.local import LocalBackend
from lakeward.control.look import Connect
from lakeward.registry import generations, streams
from lakeward.registry.engine import connect, engine, migrate
from lakeward.runtime import Lake, Runtime

DRIVER = """
import json, os, sys, time
from datetime import timedelta
from pathlib import Path
from lakeward.registry import drivers, leases, observations, streams
from lakeward.registry.engine import connect
from lakeward.runtime import Launch

launch = Launch.read(Path(sys.argv[-1]))
url = launch.runtime.registry_url_file.read_text().strip()
ttl = timedelta(seconds=15)
mode = (launch.runtime.drivers / "mode").read_text() if (launch.runtime.drivers / "mode").exists() else ""
if mode == "config":
    (launch.folder / "exit.json").write_text(json.dumps(
        {"exit_code": 2, "failure_class": "config", "error": "no such column: x", "stream": "flights"}
    ))
    sys.exit(2)
if mode == "crash":
    sys.exit("java.net.ConnectException: Connection refused")
me, token = launch.driver, launch.token
batch = 0
while True:
    with connect(url, launch.runtime.pgpass) as c:
        if not drivers.beat(c, me, token, state="running"):
            sys.exit(75)
        if leases.take(c, "driver", me, token, me, ttl) is None:
            sys.exit(75)
        mine = streams.of_driver(c, me)
        wanted = [s.id for s in mine if s.desired == "running" and not s.blocked]
        for s in wanted:
            leases.take(c, "stream", s, token, me, ttl)
            batch += 1
            from sqlalchemy import func
            observations.record(c, s, query_state="running", batch_id=batch, committed_at=func.now(), lag_records=0, lag_s=0.0)
        leases.release(c, "stream", [s.id for s in mine if s.id not in wanted], token)
        if not wanted:
            drivers.exited(c, me, token, exit_code=0, error=None)
            leases.release(c, "driver", [me], token)
            (launch.folder / "exit.json").write_text(json.dumps({"exit_code": 0, "failure_class": None, "error": None}))
    if not wanted:
        sys.exit(0)  # after the transaction, or it is rolled back
    time.sleep(0.2)
"""


@pytest.fixture
def registry_file(postgres, database: str, tmp_path: Path) -> Path:
    url = postgres.url(database)
    migrate(url, postgres.pgpass)
    file = tmp_path / "registry.url"
    file.write_text(url)
    return file


@pytest.fixture
def runtime(registry_file: Path, postgres, tmp_path: Path) -> Runtime:
    return Runtime(
        registry_url_file=registry_file,
        pgpass=postgres.pgpass,
        lake=Lake(warehouse=str(tmp_path / "warehouse")),
        checkpoints=str(tmp_path / "checkpoints"),
        drivers=tmp_path / "drivers",
        jars=tmp_path / "jars",
    )


@pytest.fixture
def connected(registry_file: Path, postgres) -> Iterator[Connect]:
    url = registry_file.read_text()
    yield lambda: connect(url, postgres.pgpass)
    engine(url, postgres.pgpass).dispose()


@pytest.fixture
def backend(runtime: Runtime, tmp_path: Path) -> Iterator[LocalBackend]:
    script = tmp_path / "small_driver.py"
    script.write_text(textwrap.dedent(DRIVER))
    made = LocalBackend(runtime.drivers, command=(sys.executable, str(script)))
    yield made
    for job in made.find():
        if job.life is not Life.GONE:
            made.kill(job)


@pytest.fixture
def deployed(connected: Connect) -> Callable[..., None]:
    """Deploy streams: `deployed("flights", "alerts", driver="nyc", desired="running")`."""

    def deploy(*names: str, driver: str = "nyc", desired: str = "running") -> None:
        with connected() as connection:
            for name in names:
                streams.accept(connection, name, generation=1, driver=driver, desired=desired)
                generations.add(
                    connection,
                    stream=name,
                    generation=1,
                    spec={"id": name, "owner": "ops"},
                    digest=name,
                    sql=None,
                    code={},
                    versions={},
                    author="test",
                    checkpoint=f"/checkpoints/{name}/1",
                )

    return deploy


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Wait until something is so; the time it takes is nobody's assertion."""

    def wait(so: Callable[[], bool], within_s: float = 30.0) -> None:
        deadline = time.monotonic() + within_s
        while not so():
            assert time.monotonic() < deadline, "it did not become so"
            time.sleep(0.05)

    return wait


@pytest.fixture
def sigkill() -> Callable[[int], None]:
    def kill(pid: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)

    return kill
