from __future__ import annotations

import threading
import uuid

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from lakeward.registry.engine import connect, migrate
from lakeward.registry.schema import metadata


def test_the_migrations_make_exactly_the_schema(registry):
    assert compare_metadata(MigrationContext.configure(registry), metadata) == []


def test_two_at_once_migrate_one_after_the_other(postgres):
    name = f"twice_{uuid.uuid4().hex[:8]}"
    postgres.create_database(name)
    url, failures = postgres.url(name), []

    def run() -> None:
        try:
            migrate(url, postgres.pgpass)
        except Exception as error:  # noqa: BLE001 - whatever a thread raises must fail the test
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with connect(url, postgres.pgpass) as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
