"""A migrated registry on the PostgreSQL of this run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from lakeward.registry import engine, generations, streams
from lakeward.runtime import Lake, Launch, Runtime

Connect = Callable[[], AbstractContextManager[Connection]]


@pytest.fixture(scope="session")
def registry_url(postgres: Any) -> Iterator[str]:
    name = postgres.create_database(f"driver_{uuid4().hex[:8]}")
    url = postgres.url(name)
    engine.migrate(url, postgres.pgpass)
    yield url
    engine.engine(url, postgres.pgpass).dispose()
    postgres.drop_database(name)


@pytest.fixture
def connect(registry_url: str, postgres: Any) -> Connect:
    """Opens committed transactions."""
    return lambda: engine.connect(registry_url, postgres.pgpass)


@pytest.fixture
def driver() -> str:
    return f"d{uuid4().hex[:8]}"


@pytest.fixture
def stream(connect: Connect, driver: str) -> str:
    """A deployed stream that is to run in `driver`."""
    name = f"s{uuid4().hex[:8]}"
    with connect() as connection:
        streams.accept(connection, name, generation=1, driver=driver, desired="running")
        generations.add(
            connection, stream=name, generation=1, spec={"id": name}, digest="d", sql=None, code={}, versions={},
            author="tests", checkpoint=f"/ck/{name}/1",
        )  # fmt: skip
    return name


@pytest.fixture
def launch(tmp_path: Path, postgres: Any, driver: str, registry_url: str) -> Launch:
    file = tmp_path / "registry.url"
    file.write_text(registry_url)
    runtime = Runtime(
        registry_url_file=file, pgpass=postgres.pgpass, lake=Lake(warehouse="/w"), checkpoints="/ck",
        drivers=tmp_path, jars=tmp_path,
    )  # fmt: skip
    return Launch(driver=driver, token=uuid4().hex, folder=tmp_path / "launch", runtime=runtime)
