from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection

from lakeward.registry.engine import connect, engine, migrate


@pytest.fixture(scope="session")
def registry_url(postgres) -> str:
    """A migrated registry of its own, once a run."""
    name = f"registry_{uuid.uuid4().hex[:8]}"
    postgres.create_database(name)
    url = postgres.url(name)
    migrate(url, postgres.pgpass)
    return url


@pytest.fixture
def registry(registry_url: str, postgres) -> Iterator[Connection]:
    """One transaction, rolled back: tests do not see each other. `now()` stands still inside it."""
    with engine(registry_url, postgres.pgpass).connect() as connection:
        transaction = connection.begin()
        yield connection
        transaction.rollback()


@pytest.fixture
def other(registry_url: str, postgres):
    """A second process's view: opens committed transactions of its own."""
    return lambda: connect(registry_url, postgres.pgpass)
