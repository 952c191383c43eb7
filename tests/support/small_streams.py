"""A registry with streams in it, a real local backend, and a driver that is small but keeps the launch contract."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from lakeward.platform.runtime import Lake, Runtime
from lakeward.registry import generations, streams
from lakeward.registry.engine import connect
from lakeward.supervision.backends.base import Life
from lakeward.supervision.backends.local import LocalBackend
from lakeward.supervision.observe import Connect

SMALL_DRIVER = Path(__file__).with_name("small_driver.py")


@pytest.fixture
def registry_file(own_registry_url: str, tmp_path: Path) -> Path:
    file = tmp_path / "registry.url"
    file.write_text(own_registry_url)
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
def connected(own_registry_url: str, postgres) -> Connect:
    return lambda: connect(own_registry_url, postgres.pgpass)


@pytest.fixture
def backend(runtime: Runtime) -> Iterator[LocalBackend]:
    made = LocalBackend(runtime.drivers, wrapper=(sys.executable, str(SMALL_DRIVER)))
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
def sigkill(eventually: Callable[[Callable[[], bool]], None]) -> Callable[[int], None]:
    """Kill a process group; its leader has ended when this returns."""

    def ended(pid: int) -> bool:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        return True

    def kill(pid: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        eventually(lambda: ended(pid))

    return kill
