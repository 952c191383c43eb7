"""Reaching PostgreSQL: who connects, with which password, and what an error means."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pytest

from lakeward.connectors.postgres import connection, table
from lakeward.connectors.postgres.name import Name
from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.platform.runtime import Database


@pytest.fixture
def where(postgres, database):
    return Database(host=postgres.host, port=postgres.port, database=database, user=postgres.user)


def test_the_password_comes_from_the_file_and_nothing_shows_it(postgres, where, tmp_path, monkeypatch):
    monkeypatch.delenv("PGPASSFILE", raising=False)
    with closing(connection.connect(where, postgres.pgpass, "me")) as held:
        assert table.query(held, "SELECT current_setting('timezone'), current_setting('application_name')") == [
            ("UTC", "lakeward me")
        ]
    empty = tmp_path / "pgpass"
    empty.write_text("*:*:*:*:wrong\n")
    empty.chmod(0o600)
    with pytest.raises(DependencyDown) as caught:
        connection.connect(where, empty, "me")
    assert "password authentication failed" in caught.value.why
    assert "wrong" not in str(caught.value)


def test_a_commit_is_on_disk_before_it_is_reported(postgres, where):
    """A server that crashes after it told us would take back rows that the checkpoint goes on from."""
    with closing(connection.connect(where, postgres.pgpass, "me")) as held, held.cursor() as cursor:
        cursor.execute("ALTER ROLE CURRENT_USER SET synchronous_commit = off")
        try:
            with closing(connection.connect(where, postgres.pgpass, "me")) as fresh:
                assert table.query(fresh, "SHOW synchronous_commit") == [("on",)]
        finally:
            cursor.execute("ALTER ROLE CURRENT_USER RESET synchronous_commit")


def test_a_connection_nobody_knows_is_refused_with_those_that_are(where):
    assert connection.find("a", {"a": where}) is where
    with pytest.raises(SpecError) as caught:
        connection.find("b", {"c": where, "a": where})
    assert caught.value.why == "known connections: a, c"


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("SELECT pg_terminate_backend(pg_backend_pid())", "away"),
        ("BEGIN READ ONLY; CREATE TABLE x ()", "away"),
        ("SET statement_timeout = 20; SELECT pg_sleep(9)", "again"),
        ("DO $$ BEGIN RAISE serialization_failure; END $$", "again"),
        ("DO $$ BEGIN RAISE deadlock_detected; END $$", "again"),
        ("DO $$ BEGIN RAISE disk_full; END $$", "away"),
        ("DO $$ BEGIN RAISE too_many_connections; END $$", "away"),
        ("DO $$ BEGIN RAISE not_null_violation; END $$", "refused a row"),
        ("DO $$ BEGIN RAISE insufficient_privilege; END $$", "lacks a privilege"),
        ("DO $$ BEGIN RAISE undefined_column; END $$", "cannot land"),
    ],
)
def test_what_an_error_means(postgres, where, statement, kind):
    with (
        closing(connection.connect(where, postgres.pgpass, "me")) as held,
        held.cursor() as cursor,
        pytest.raises(psycopg2.Error) as caught,
    ):
        cursor.execute(statement)
    error = caught.value
    found = "away" if connection.unavailable(error) else "again" if connection.retry_reason(error) else "refused"
    if found == "refused":
        found = str(connection.refused(error, "s", Name.of("t"), "me").what)
        assert kind in found
    else:
        assert found == kind


def test_rows_of_an_unlogged_partition_and_views_are_seen_for_what_they_are(postgres, where):
    with closing(connection.connect(where, postgres.pgpass, "me")) as held, held.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE t (a int) PARTITION BY LIST (a); CREATE UNLOGGED TABLE t1 PARTITION OF t FOR VALUES IN (1);"
            "CREATE VIEW v AS SELECT 1 AS a"
        )
        assert table.read(held, "s", Name.of("t")).unlogged
        assert table.read(held, "s", Name.of("v")).kind == "a view"
        cursor.execute("ALTER TABLE t1 SET LOGGED")
        state = table.read(held, "s", Name.of("t"))
        assert (state.kind, state.unlogged, state.raw) == (None, False, None)


def test_an_index_that_an_upsert_can_go_by_is_whole_and_at_once(postgres, where):
    with closing(connection.connect(where, postgres.pgpass, "me")) as held, held.cursor() as cursor:
        cursor.execute("CREATE TABLE t (a int, b int, c int)")
        for index in ("(a) WHERE b > 0", "(abs(b))"):
            cursor.execute(f"CREATE UNIQUE INDEX ON t {index}")
        cursor.execute("ALTER TABLE t ADD UNIQUE (b) DEFERRABLE")
        oid = table.read(held, "s", Name.of("t")).oid
        assert table.indexes(held, oid) == []
        cursor.execute("CREATE UNIQUE INDEX ON t (b, a) INCLUDE (c) NULLS NOT DISTINCT")
        assert [(index.columns, index.nulls_equal) for index in table.indexes(held, oid)] == [({"a", "b"}, True)]
