"""`lakeward tables restore`: what it shows, what it refuses, and who has to say yes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from lakeward.connectors.commit_protocol.position import Position, key, parse
from lakeward.registry import batches, changes, generations, maintenance, streams

_WORDS = ("tables", "restore", "nyc.flights", "--to")


@pytest.fixture
def table(site: Any, landed: Callable[..., Any]) -> Any:
    """`nyc.flights` with seq 3 (offsets 0 to 5) and seq 4 (5 to 8) of stream flights, as a driver leaves it."""
    import pyarrow as pa

    found = landed({0: 5, 1: 0}, rows=[(0, each) for each in range(5)])
    rows = {
        "_kafka_topic": pa.array([site.topic] * 3, pa.string()),
        "_kafka_partition": pa.array([0] * 3, pa.int32()),
        "_kafka_offset": pa.array([5, 6, 7], pa.int64()),
    }
    found.append(pa.table(rows), snapshot_properties={"lakeward.attempt": "flights/4/x", "wap.id": "flights/4/x"})
    before = parse(found.properties[key("flights")], "flights", "nyc.flights")
    head = found.refresh().current_snapshot()
    stand(found, before, seq=4, batch=3, end={"flights": offsets(site, 8)}, snapshot=head.snapshot_id,
          snapshot_seq=head.sequence_number)  # fmt: skip
    with site.registry() as connection:
        batches.record(
            connection, stream="flights", query_id="q", batch_id=3, seq=4, generation=1, snapshot_id=head.snapshot_id,
            start_offsets={"flights": offsets(site, 5)}, end_offsets={"flights": offsets(site, 8)}, consumed=3,
            landed=3, quarantined=0, filtered=0, committed_at=func.now(),
        )  # fmt: skip
    return found


def offsets(site: Any, at: int) -> str:
    return json.dumps({site.topic: {"0": at, "1": 0}}, separators=(",", ":"))


def stand(table: Any, at: Position, **more: Any) -> None:
    with table.transaction() as change:
        change.set_properties({key("flights"): at.model_copy(update=more).to_json()})


def cut_off(site: Any, offset: int) -> None:
    """Retention takes the records before an offset."""
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import AdminClient

    servers = {"bootstrap.servers": site.runtime.kafka["lakeward_kafka"]}
    producer = Producer(servers)
    for _ in range(8):
        producer.produce(site.topic, b"{}", partition=0)
    assert producer.flush(60) == 0
    admin = AdminClient(servers)
    (deleted,) = admin.delete_records([TopicPartition(site.topic, 0, offset)]).values()
    assert deleted.result(30).low_watermark == offset


def first(table: Any) -> str:
    return str(table.metadata.snapshots[0].snapshot_id)


def test_it_shows_what_lands_again_and_waits_for_a_yes(site: Any, table: Any) -> None:
    to = first(table)
    answer = site.lakeward(*_WORDS, to, "--dry-run", "-o", "json")
    assert answer.code == 0
    found = answer.json
    assert (found["operation"], found["result"], found["records_before"], found["records_after"]) == (
        "restore", "skipped", 8, 5,
    )  # fmt: skip
    assert found["streams"][0]["replayed"] == [
        {"source": "flights", "partition": f"{site.topic}/0", "from": 5, "to": 8}
    ]
    assert "flights: 3 rows removed, and their records land again" in answer.err
    assert f"{site.topic}/0: 3 records (5 to 7)" in answer.err

    assert site.lakeward(*_WORDS, to, "--yes").code == 2, "it says why, in a sentence"
    answer = site.lakeward(*_WORDS, to, "--comment", "x")
    assert answer.code == 4
    assert "needs a person's approval" in answer.err
    assert str(table.refresh().metadata.current_snapshot_id) != to, "nothing was touched"

    done = site.lakeward(*_WORDS, to, "--yes", "--comment", "bad rows", "-o", "json")
    assert done.code == 0, done.err
    assert done.json["result"] == "done"
    at = parse(table.refresh().properties[key("flights")], "flights", "nyc.flights")
    assert str(table.metadata.current_snapshot_id) == to
    assert (at.seq, at.query_id, at.batch, str(at.snapshot)) == (5, "", -1, to)
    assert json.loads(at.end["flights"]) == {site.topic: {"0": 5, "1": 0}}
    with site.registry() as connection:
        row = streams.get(connection, "flights")
        kept = generations.get(connection, "flights", row.generation)
        assert changes.newest(connection, "table", "nyc.flights")[0].comment == "bad rows"
    assert kept is not None
    assert (row.generation, kept.checkpoint.endswith("flights.2")) == (2, True)
    answer = site.lakeward(*_WORDS, to, "--yes", "--comment", "x", "-o", "json")
    assert f"is at snapshot {to} already" in answer.json["detail"]


def test_a_property_that_no_commit_can_read_is_named_before_anything_stops(site: Any, table: Any) -> None:
    from pyiceberg.table.update import SetPropertiesUpdate

    odd = SetPropertiesUpdate(updates={"commit.retry.num-retries": "x"})
    table.catalog.commit_table(table, (), (odd,))
    for words in (
        (*_WORDS, first(table), "--dry-run"),
        ("streams", "reset", "flights", "--to", "latest", "--dry-run"),
        ("tables", "erase", "nyc.flights", "--where", "_kafka_offset = 1", "--dry-run"),
    ):
        answer = site.lakeward(*words)
        assert answer.code == 4, answer
        assert "commit.retry.num-retries is 'x', which is no whole number" in answer.err
        assert "lakeward tables maintain nyc.flights --actions metadata" in answer.err
        assert "Traceback" not in answer.err


def test_what_cannot_be_taken_back_is_refused_with_the_reason(site: Any, table: Any) -> None:
    to = first(table)

    def refused(to: str = to) -> str:
        answer = site.lakeward(*_WORDS, to, "--dry-run")
        assert answer.code == 4, answer
        return str(answer.err)

    assert "has expired or never was one of this table" in refused("17")
    assert site.lakeward("tables", "restore", "nyc.none", "--to", "1", "--dry-run").code == 2

    with table.manage_snapshots() as change:
        change.create_branch(int(to), "aside")
    table.append(table.scan().to_arrow(), branch="aside")
    assert "not an ancestor of main's head" in refused(str(table.refresh().metadata.refs["aside"].snapshot_id))

    at = parse(table.properties[key("flights")], "flights", "nyc.flights")
    stand(table, at, end={"flights": offsets(site, 9)})
    assert "its position was moved after its last batch" in refused()
    stand(table, at, topic_ids={site.topic: "another"})
    assert "a topic of stream flights was deleted and created again" in refused()
    stand(table, at)
    cut_off(site, 6)
    assert f"{site.topic}/0: 1 record (5 to 5)" in refused()

    with site.registry() as connection:
        maintenance.register(connection, "nyc.flights", format="iceberg", location=None, table_class=None)
        now = connection.execute(select(func.now())).scalar_one()
        maintenance.hold(connection, "nyc.flights", now + timedelta(hours=1))
    assert "is held until" in refused()


def test_rows_that_went_from_or_to_quarantine_since_are_not_lost_or_doubled_by_it(site: Any, table: Any) -> None:
    act = {"lakeward.attempt": "flights/replay-1/x", "wap.id": "flights/replay-1/x"}
    table.append(table.scan().to_arrow(), snapshot_properties=act)
    landed = table.refresh().current_snapshot().snapshot_id
    answer = site.lakeward(*_WORDS, first(table), "--dry-run")
    assert answer.code == 4, answer
    assert f"before snapshot {landed}" in answer.err
    assert "quarantine would still count them" in answer.err
    assert site.lakeward(*_WORDS, str(landed), "--dry-run").code == 0
