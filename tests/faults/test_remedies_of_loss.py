"""Records, topics and tables that were removed, on one driver with many streams: what `next` says is typed until the
stream is healthy."""

from __future__ import annotations

from typing import Any

import pytest
from desk import sending
from town import Town

pytestmark = [pytest.mark.timeout(1800), pytest.mark.campaign]  # a bound for a hang; a busy machine may need minutes

USES = {
    "a_dropped_quarantine_table": "quarantine",
    "records_that_expired_unread": "expired",
    "a_topic_created_again_with_fewer_records": "again",
    "a_table_dropped_and_created_again_while_it_lands": "recreated",
    "a_table_created_again_after_its_drop_blocked_the_stream": "emptied",
    "a_table_dropped_and_created_again_while_the_stream_is_stopped": "stopped",
    "a_generation_that_waits_for_a_blocked_stream": "newer",
    "a_frozen_driver": "quarantine",
    "a_frozen_driver_of_a_stream_without_a_batch": "quarantine",
}
"""The stream of each test: only those of the selected tests are started."""


def admin(town: Town) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": town.desk.world.kafka.bootstrap})


def test_a_dropped_quarantine_table(town: Town) -> None:
    with town.stopped("quarantine"):
        town.desk.world.catalog().drop_table(f"{town.desk.world.name}.quarantine_quarantine")
    seq = town.seq("quarantine")
    town.desk.world.produce(town.topic("quarantine"), ["no json"])
    town.desk.world.wait_for("the batch", lambda: town.seq("quarantine") > seq)
    town.settle("quarantine")
    town.exact("quarantine")


def test_records_that_expired_unread(town: Town) -> None:
    from confluent_kafka import TopicPartition

    client = admin(town)  # a client that is collected never answers
    with town.stopped("expired"):
        for _ in range(3):
            town.send("expired")
        first = TopicPartition(town.topic("expired"), 0, town.sent["expired"] - 2)
        for done in client.delete_records([first]).values():
            done.result(30)
    said = town.walk("expired")
    assert "streams reset" in said[0]


def test_a_topic_created_again_with_fewer_records(town: Town) -> None:
    client, topic = admin(town), town.topic("again")
    town.land("again")
    with town.stopped("again"):
        client.delete_topics([topic])[topic].result(30)
        town.later("again")
    town.walk_to_a_new_id("again")


def test_a_table_dropped_and_created_again_while_it_lands(town: Town) -> None:
    town.land("recreated")
    recreate(town, "recreated")
    town.send("recreated")
    town.walk_to_a_new_id("recreated")


def test_a_table_created_again_after_its_drop_blocked_the_stream(town: Town) -> None:
    parts = town.table("emptied").schema(), town.table("emptied").properties
    town.desk.world.catalog().drop_table(f"{town.desk.world.name}.emptied")
    town.send("emptied")
    town.desk.blocked(town.stream("emptied"))
    create(town, "emptied", *parts)
    town.walk_to_a_new_id("emptied")


def test_a_table_dropped_and_created_again_while_the_stream_is_stopped(town: Town) -> None:
    with town.stopped("stopped"):
        recreate(town, "stopped", settings=False)
    town.walk_to_a_new_id("stopped")


def test_a_generation_that_waits_for_a_blocked_stream(town: Town) -> None:
    town.desk.world.numbers(town.topic("newer"), [7])
    town.desk.blocked(town.stream("newer"))
    town.write(
        "newer", transform={"sql": "SELECT *, CASE WHEN n = 7 THEN 0 ELSE 100 DIV (n - 7) END AS part FROM source"}
    )
    town.desk.done("lakeward deploy")
    with sending(town.desk.world, town.topic("newer"), 1000):  # a generation is proven by batches
        said = town.walk("newer")
    assert "streams upgrade" in said[0]


def test_a_frozen_driver(town: Town) -> None:
    town.freeze()
    town.walk("quarantine")


def test_a_frozen_driver_of_a_stream_without_a_batch(town: Town) -> None:
    town.kill()
    town.walk("quarantine")  # nothing waits for it, so its new driver lands no batch
    town.freeze()
    town.walk("quarantine")


def recreate(town: Town, name: str, *, settings: bool = True) -> None:
    """Drop the table of a stream and create one of the same name and columns, with its settings or without."""
    schema, properties = town.table(name).schema(), town.table(name).properties
    town.desk.world.catalog().drop_table(f"{town.desk.world.name}.{name}")
    create(town, name, schema, properties if settings else {})


def create(town: Town, name: str, schema: Any, properties: dict[str, str]) -> None:
    """A table as a person creates it: with the columns and the settings, without any position."""
    kept = {key: value for key, value in properties.items() if not key.startswith("lakeward.")}
    town.desk.world.catalog().create_table(f"{town.desk.world.name}.{name}", schema, properties=kept)
