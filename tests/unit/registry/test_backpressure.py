"""Back-pressure in the registry: said again and again, taken back, or forgotten."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy import Connection, text

from lakeward.registry import backpressure
from lakeward.registry.backpressure import Level, TableBackpressure

Other = Callable[[], AbstractContextManager[Connection]]


def test_a_level_stands_until_another_is_said_or_nobody_says_it_any_more(other: Other) -> None:
    with other() as connection:
        backpressure.set_level(connection, "a.t", Level.LENGTHEN, "750 commits")
        backpressure.set_level(connection, "a.u", Level.WARN, "600 commits")
        assert backpressure.current(connection) == {"a.t": TableBackpressure(Level.LENGTHEN, "750 commits")}, (
            "a warning slows nobody"
        )
        backpressure.set_level(connection, "a.t", Level.HOLD, "1000 commits")
        backpressure.set_level(connection, "a.t", Level.HOLD, "1001 commits")
        assert backpressure.current(connection) == {"a.t": TableBackpressure(Level.HOLD, "1001 commits")}
    with other() as connection:
        connection.execute(text("UPDATE leases SET until = now() - interval '1 second' WHERE scope = 'pressure'"))
        assert backpressure.current(connection) == {}, "an Airflow that is gone holds no stream"
        backpressure.set_level(connection, "a.t", Level.LENGTHEN, "1002 commits")
        backpressure.set_level(connection, "a.t", Level.OK, "")
        assert backpressure.current(connection) == {}


def test_a_stream_that_was_held_counts_as_one_that_goes_on_for_a_while(other: Other) -> None:
    with other() as connection:
        backpressure.set_level(connection, "a.t", Level.HOLD, "1000 commits")
        backpressure.set_level(connection, "a.t", Level.WARN, "600 commits")
        assert backpressure.current(connection) == {"a.t": TableBackpressure(Level.RELEASED, "1000 commits")}
        backpressure.set_level(connection, "a.t", Level.OK, "")
        assert backpressure.current(connection) == {}, "the next look forgets it"
