"""What happened to streams becomes events on Airflow's own accessors, each once."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from airflow.sdk.execution_time.context import OutletEventAccessors

from lakeward.airflow import assets
from lakeward.registry import engine, generations, observations, streams


@pytest.fixture
def connected(postgres, own_registry_url):
    with engine.connect(own_registry_url, postgres.pgpass) as connection:
        streams.accept(connection, "flights", generation=1, driver="nyc")
        generations.add(
            connection, stream="flights", generation=1, spec={"id": "flights", "owner": "ops"}, digest="d", sql=None,
            code={}, versions={}, author="test", checkpoint="c",
        )  # fmt: skip
    return lambda: engine.connect(own_registry_url, postgres.pgpass)


def emitted(connected) -> list[tuple[str, str, dict]]:
    accessors = OutletEventAccessors()
    told = assets.announce(connected, accessors)
    events = accessors[assets.of_streams()].asset_alias_events
    assert told == [event.dest_asset_key.uri for event in events]
    return [(event.dest_asset_key.name, event.dest_asset_key.uri, event.extra) for event in events]


def test_an_hour_that_closed_is_one_event_of_the_streams_own_asset(connected) -> None:
    with connected() as connection:
        observations.record(connection, "flights", complete_through=datetime(2026, 1, 1, 5, 30, tzinfo=UTC))
    assert emitted(connected) == []
    with connected() as connection:
        observations.record(connection, "flights", complete_through=datetime(2026, 1, 1, 6, 1, tzinfo=UTC))
    ((name, uri, extra),) = emitted(connected)
    assert name == uri == "lakeward://stream/flights/hour"
    assert extra == {"stream": "flights", "from": "2026-01-01T05:00:00+00:00", "to": "2026-01-01T06:00:00+00:00"}
    assert emitted(connected) == []
