"""The compare-and-set of a position in PostgreSQL, on a real server. And names with percent signs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.postgres import connection, table
from lakeward.connectors.postgres.check import TableState
from lakeward.connectors.postgres.name import Name, quote
from lakeward.connectors.postgres.publish import publish
from lakeward.platform.runtime import Database

PLACE = Name.of('100%.`o\'clock "50%" v1.2`')


@pytest.fixture
def link(postgres: Any, database: str) -> Iterator[Any]:
    where = Database(host=postgres.host, port=postgres.port, database=database, user=postgres.user)
    with closing(connection.connect(where, postgres.pgpass, "test")) as opened:
        table.prepare(opened, "s", PLACE, {"a%s": "integer", '%\\"': "text"}, ("a%s",))
        yield opened


def state(link: Any) -> TableState:
    return table.read(link, "s", PLACE)


def at(seq: int) -> Position:
    return Position(seq=seq, query_id="q", batch=seq - 1, end={"s": "-"})


def test_a_position_that_moved_is_not_overwritten(link: Any) -> None:
    first = state(link)
    assert publish(link, first, at(1), None)
    assert not publish(link, first, at(1), None)
    read = state(link)
    assert publish(link, read, at(2), None)
    assert not publish(link, read, at(2), None)
    assert state(link).position == at(2)


def test_names_with_percent_signs_are_names(link: Any) -> None:
    table.check_rights(link, "s", PLACE, "upsert", "postgres")
    assert list(state(link).columns) == ["a%s", '%\\"']
    rows = f"INSERT INTO {PLACE.quoted} ({quote('a%s')}) SELECT 7 RETURNING 1"
    assert publish(link, state(link), at(1), rows)
    assert table.query(link, f"SELECT {quote('a%s')} FROM {PLACE.quoted} WHERE {quote('a%s')} = %s", (7,)) == [(7,)]
