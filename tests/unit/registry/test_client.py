"""PostgreSQL that says nothing ends a statement, and the next one has a new connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from proxy import Proxy
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from lakeward.registry import client


@pytest.fixture
def proxy(postgres: Any) -> Iterator[Proxy]:
    made = Proxy(postgres.port)
    yield made
    made.close()


@pytest.fixture
def pool(postgres: Any, database: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setattr(client, "ANSWER_S", 0.5)
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_S", 2)
    lines = postgres.pgpass.read_text()
    passwords = postgres.pgpass.with_name(f"pgpass-{proxy.port}")
    passwords.write_text(lines.replace(f":{postgres.port}:", f":{proxy.port}:"))
    passwords.chmod(0o600)
    url = f"postgresql+psycopg2://{postgres.user}@127.0.0.1:{proxy.port}/{database}"
    made = client.pool(url, "a test", 1, 0, passwords)
    yield made
    made.dispose()


def backend(pool: Engine) -> int:
    with pool.begin() as connection:
        return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


@pytest.mark.parametrize("within", ["a statement", "a commit", "a check before use"])
def test_a_silent_server_ends_the_wait_and_the_next_use_connects_again(pool: Engine, proxy: Proxy, within: str) -> None:
    first = backend(pool)
    with pytest.raises(OperationalError, match=r"no answer|server closed|timeout expired"):
        if within == "a check before use":
            proxy.set("hole")
            backend(pool)
        with pool.begin() as connection:
            connection.execute(text("SELECT 1"))
            proxy.set("hole")
            if within == "a statement":
                connection.execute(text("SELECT 2"))
    proxy.set("pass")
    assert backend(pool) != first


def test_a_client_that_is_frozen_in_a_transaction_gives_its_locks_back(
    postgres: Any, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "FROZEN_MS", 500)
    url = f"postgresql+psycopg2://{postgres.user}@127.0.0.1:{postgres.port}/{database}"
    made = client.pool(url, "a test", 2, 0, postgres.pgpass)
    try:
        with made.begin() as setup:
            setup.execute(text("CREATE TABLE rows (n int)"))
            setup.execute(text("INSERT INTO rows VALUES (1)"))
        frozen = made.connect()  # it sends nothing more, as a process that is stopped
        frozen.execute(text("UPDATE rows SET n = 2"))
        with made.begin() as other:
            other.execute(text("UPDATE rows SET n = 3"))  # waits for the lock, and less than `STATEMENT_TIMEOUT_MS`
        with pytest.raises(OperationalError, match=r"idle-in-transaction|terminating connection|closed the connection"):
            frozen.execute(text("SELECT 1"))
        frozen.invalidate()
        frozen.close()
    finally:
        made.dispose()
