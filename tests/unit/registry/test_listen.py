"""A LISTEN connection on which the server says nothing is given up, and the next one hears."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from proxy import Proxy
from sqlalchemy import text

from lakeward.registry import client
from lakeward.registry.engine import connect, engine
from lakeward.registry.listen import Notifications

CHANNEL = "a_test"
WITHIN_S = 60.0
"""A bound for a hang."""


@pytest.fixture
def way(postgres: Any, database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Proxy, Notifications]]:
    """A listener behind a proxy."""
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_S", 2)
    proxy = Proxy(postgres.port)
    passwords = postgres.pgpass.with_name(f"pgpass-{proxy.port}")
    passwords.write_text(postgres.pgpass.read_text().replace(f":{postgres.port}:", f":{proxy.port}:"))
    passwords.chmod(0o600)
    url = f"postgresql://{postgres.user}@127.0.0.1:{proxy.port}/{database}"
    with Notifications(url, passwords, CHANNEL, probe_s=0.2, answer_s=1.0) as made:
        yield proxy, made
    engine(url, passwords).dispose()
    proxy.close()


def notify(postgres: Any, database: str) -> None:
    """By a connection of its own, which the proxy does not touch."""
    with connect(postgres.url(database), postgres.pgpass) as connection:
        connection.execute(text(f"NOTIFY {CHANNEL}"))


def heard(listener: Notifications) -> None:
    end = time.monotonic() + WITHIN_S
    while not listener.wait(0.1):
        assert time.monotonic() < end, "no notification arrives"


def test_a_silent_connection_is_given_up_and_the_next_one_hears(
    way: tuple[Proxy, Notifications], postgres: Any, database: str
) -> None:
    proxy, listener = way
    notify(postgres, database)
    heard(listener)
    first = listener._link
    proxy.set("hole")
    end = time.monotonic() + WITHIN_S
    while listener._link is first:
        assert not listener.wait(0.1)
        assert time.monotonic() < end, "the silence is not noticed"
    assert first.closed
    proxy.set("pass")
    while listener._link is None:
        listener.wait(0.1)
        assert time.monotonic() < end, "no other connection is opened"
    notify(postgres, database)
    heard(listener)


def test_a_quiet_connection_that_answers_is_kept_and_loses_nothing(
    way: tuple[Proxy, Notifications], postgres: Any, database: str
) -> None:
    _, listener = way
    first = listener._link
    for _ in range(3):
        time.sleep(0.25)  # longer than it is left alone: each wait asks
        notify(postgres, database)
        heard(listener)
    assert listener._link is first
