"""A migrated registry on the PostgreSQL of this run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

from lakeward.platform.runtime import Lake, Launch, Runtime
from lakeward.registry import engine

Connect = Callable[[], AbstractContextManager[Connection]]


@pytest.fixture(scope="session")
def registry_url(postgres: Any) -> Iterator[str]:
    name = postgres.create_registry()
    url = postgres.url(name)
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
def make_stream() -> Callable[[Connect, str], str]:
    """Deploys a stream that is to run in a driver; in plain SQL, so that it fits registries of any version."""

    def make(connect: Connect, driver: str) -> str:
        name = f"s{uuid4().hex[:8]}"
        with connect() as connection:
            connection.execute(
                text("INSERT INTO streams (id, desired, generation, driver) VALUES (:id, 'running', 1, :driver)"),
                {"id": name, "driver": driver},
            )
            connection.execute(
                text(
                    "INSERT INTO generations (stream, generation, spec, digest, author, checkpoint) "
                    "VALUES (:id, 1, jsonb_build_object('id', CAST(:id AS text)), 'd', 'tests', :checkpoint)"
                ),
                {"id": name, "checkpoint": f"/ck/{name}/1"},
            )
        return name

    return make


@pytest.fixture
def stream(connect: Connect, driver: str, make_stream: Callable[[Connect, str], str]) -> str:
    """A deployed stream that is to run in `driver`."""
    return make_stream(connect, driver)


@pytest.fixture(scope="session")
def older_url(postgres: Any) -> Iterator[str]:
    """A registry as the first version left it: a driver of this version may meet it for a while."""
    name = postgres.create_database(f"older_{uuid4().hex[:8]}")
    url = postgres.url(name)
    config = Config()
    config.set_main_option("script_location", str(Path(engine.__file__).parent / "migrations"))
    with engine.connect(url, postgres.pgpass) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    yield url
    engine.engine(url, postgres.pgpass).dispose()
    postgres.drop_database(name)


@pytest.fixture
def older_registry(older_url: str, postgres: Any) -> Connect:
    return lambda: engine.connect(older_url, postgres.pgpass)


@pytest.fixture
def launch(tmp_path: Path, postgres: Any, driver: str, registry_url: str) -> Launch:
    file = tmp_path / "registry.url"
    file.write_text(registry_url)
    runtime = Runtime(
        registry_url_file=file, pgpass=postgres.pgpass, lake=Lake(warehouse="/w"), checkpoints="/ck",
        drivers=tmp_path, jars=tmp_path,
    )  # fmt: skip
    return Launch(driver=driver, token=uuid4().hex, folder=tmp_path / "launch", runtime=runtime)
