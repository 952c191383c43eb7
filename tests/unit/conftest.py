from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from sqlalchemy import Connection

from lakeward.registry.engine import connect, engine
from lakeward.registry.schema import metadata


@pytest.fixture(scope="session")
def registry_url(postgres) -> str:
    """A migrated registry of its own, once a run."""
    return postgres.url(postgres.create_registry())


@pytest.fixture
def own_registry_url(postgres) -> Iterator[str]:
    """A migrated registry for one test alone."""
    name = postgres.create_registry()
    url = postgres.url(name)
    yield url
    engine(url, postgres.pgpass).dispose()
    postgres.drop_database(name)


@pytest.fixture
def registry(registry_url: str, postgres) -> Iterator[Connection]:
    """One transaction, rolled back: tests do not see each other. `now()` stands still inside it."""
    with engine(registry_url, postgres.pgpass).connect() as connection:
        transaction = connection.begin()
        yield connection
        transaction.rollback()


@pytest.fixture
def other(registry_url: str, postgres) -> Iterator[Callable[[], AbstractContextManager[Connection]]]:
    """A second process's view: opens committed transactions of its own; what they wrote goes with the test."""
    yield lambda: connect(registry_url, postgres.pgpass)
    with connect(registry_url, postgres.pgpass) as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
