"""Code and registry one version apart work together; further apart they say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import text

from lakeward.platform.errors import Refused
from lakeward.registry import batches, engine, events, observations, streams, version

MIGRATIONS = Path(engine.__file__).parent / "migrations"


@pytest.fixture
def at(postgres, database):
    """A registry migrated to a revision: `at("0001")`; its URL."""
    url = postgres.url(database)

    def make(revision: str) -> str:
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        with engine.connect(url, postgres.pgpass) as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
        return url

    yield make
    version._fine.discard((url, postgres.pgpass))
    engine.engine(url, postgres.pgpass).dispose()


def bump(url, pgpass, by: int) -> None:
    """As if a newer Lakeward had migrated it: versions only add."""
    with engine.connect(url, pgpass) as connection:
        for table in ("streams", "observations", "batches", "events"):
            connection.execute(text(f"ALTER TABLE {table} ADD COLUMN of_the_future TEXT"))
        newer = f"{version.known() + by:04}"
        connection.execute(text("UPDATE alembic_version SET version_num = :newer"), {"newer": newer})


def test_a_registry_one_version_newer_is_read_and_written_as_ever(at, postgres):
    url = at("head")
    bump(url, postgres.pgpass, 1)
    with version.connect(url, postgres.pgpass) as connection:
        streams.accept(connection, "flights", generation=1, driver="nyc", desired="running")
        observations.record(connection, "flights", batch_id=1, query_state="running")
        batches.record(connection, stream="flights", query_id="q", batch_id=1, generation=1)
        events.record(connection, "stream", "flights", "start", "started")
    with version.connect(url, postgres.pgpass) as connection:
        assert streams.get(connection, "flights").desired == "running"
        assert observations.latest(connection)["flights"].batch_id == 1
        assert len(batches.newest(connection, "flights")) == 1


def test_a_registry_two_versions_newer_is_refused_with_both_versions(at, postgres):
    url = at("head")
    bump(url, postgres.pgpass, 2)
    with pytest.raises(Refused) as refused, version.connect(url, postgres.pgpass):
        pass
    known = version.known()
    assert f"version {known + 2}" in refused.value.why
    assert f"This Lakeward has version {known}" in refused.value.why
    assert "Running streams continue" in refused.value.why
    assert "lakeward version" in refused.value.next


def test_an_older_registry_is_refused_with_the_command_that_migrates_it_and_works_after(at, postgres):
    url = at("0001")
    with pytest.raises(Refused) as refused, version.connect(url, postgres.pgpass):
        pass
    assert "It has version 1" in refused.value.why
    assert refused.value.next.startswith("lakeward stack up")
    engine.migrate(url, postgres.pgpass)
    with version.connect(url, postgres.pgpass) as connection:
        assert streams.all_streams(connection) == []


def test_an_empty_database_is_no_registry(postgres, database):
    with pytest.raises(Refused, match="older"), version.connect(postgres.url(database), postgres.pgpass):
        pass
    engine.engine(postgres.url(database), postgres.pgpass).dispose()


def test_every_migration_has_a_number_that_counts(at, postgres):
    url = at("head")
    with engine.connect(url, postgres.pgpass) as connection:
        assert version.of(connection) == version.known()
