from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from lakeward.airflow.notify import channel_of
from lakeward.supervision.notify.channel import Channel, Log, Slack, Webhook


@dataclass
class Defined:
    """The part of an Airflow connection that is read."""

    host: str | None = None
    port: int | None = None
    login: str | None = None
    password: str | None = None
    schema: str | None = None
    extra_dejson: Mapping[str, object] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("connection", "channel"),
    [
        (None, Log()),
        (Defined(host="https://hooks.example.com/"), Webhook("https://hooks.example.com")),
        (Defined(host="https://hooks.example.com", password="T0/B0/x"), Webhook("https://hooks.example.com/T0/B0/x")),
        (Defined(host="relay", port=8080, schema="http", password="in"), Webhook("http://relay:8080/in")),
        (Defined(password="xoxb", extra_dejson={"channel": "C1"}), Slack("xoxb", "C1")),
        (
            Defined(host="http://127.0.0.1:1", password="x", extra_dejson={"channel": "C"}),
            Slack("x", "C", "http://127.0.0.1:1"),
        ),
    ],
)
def test_the_connection_says_where_messages_go(connection: Defined | None, channel: Channel) -> None:
    found = channel_of(connection)
    assert type(found) is type(channel)
    assert isinstance(found, Log) or found == channel
