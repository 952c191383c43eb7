"""Offsets are not records: transactions and compaction leave offsets without one, an open transaction hides some.

Each claim of the command line about records is tried on such topics.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lakeward.connectors.commit_protocol.position import Position, key
from lakeward.connectors.kafka import broker, records
from lakeward.connectors.kafka.cluster import Cluster, find
from lakeward.registry import streams


def _cluster(site: Any) -> Cluster:
    return find("lakeward_kafka", site.runtime)


@contextmanager
def transactions(site: Any) -> Iterator[Callable[..., None]]:
    """Send values to partition 0 in one transaction each call: `send(["a"], end="commit"|"abort"|"open")`."""
    from confluent_kafka import Producer

    free: list[Any] = []
    still_open: list[Any] = []

    def begun() -> Any:
        """One producer for all transactions that end: to make one takes as long as ten transactions."""
        if free:
            return free[0]
        made = Producer({"bootstrap.servers": _cluster(site).bootstrap, "transactional.id": f"{site.topic}-{uuid4()}"})
        made.init_transactions(30)
        free.append(made)
        return made

    def send(values: list[bytes], end: str = "commit", keys: list[bytes] | None = None) -> None:
        producer = begun()
        producer.begin_transaction()
        for number, value in enumerate(values):
            producer.produce(site.topic, value, key=keys[number] if keys else None, partition=0)
        assert producer.flush(30) == 0
        if end == "commit":
            producer.commit_transaction(30)
        elif end == "abort":
            producer.abort_transaction(30)
        else:
            free.remove(producer)
            still_open.append(producer)

    yield send
    for producer in still_open:
        producer.abort_transaction(30)


def high(site: Any) -> int:
    return broker.end_offsets(_cluster(site), [site.topic])[site.topic][0]


def existing(site: Any, isolation: Any = "read_committed") -> list[tuple[int, int]]:
    """The records of partition 0, as a consumer reads them."""
    place = (site.topic, 0)
    found = records.find(_cluster(site), {place: [(0, high(site))]}, isolation)[place]
    return [(0, offset) for offset in found.offsets]


def audit(site: Any) -> Any:
    return site.lakeward("streams", "audit", "flights", "-o", "json")


def status(site: Any) -> Any:
    return site.lakeward("streams", "status", "flights", "-o", "json").json


@pytest.fixture
def mixed(site: Any) -> list[tuple[int, int]]:
    """42 records: 14 committed transactions of three, and between them 14 aborted ones of two."""
    with transactions(site) as send:
        for number in range(14):
            send([f"{number}-{each}".encode() for each in range(3)])
            send([b"aborted", b"aborted"], "abort")
    found = existing(site)
    assert (len(found), high(site)) == (42, 14 * (3 + 1 + 2 + 1))
    return found


def test_audit_of_a_transactional_topic_takes_no_marker_and_no_aborted_record_for_a_loss(
    site: Any, landed: Callable[..., Any], mixed: list[tuple[int, int]]
) -> None:
    landed({0: high(site), 1: 0}, rows=mixed)
    answer = audit(site)
    assert answer.code == 0, answer.out
    found = answer.json
    assert (found["consumed"], found["landed"], found["missing"], found["duplicates"]) == (42, 42, 0, 0)
    assert (found["holes"], found["unverified"]) == (high(site) - 42, 0)


def test_audit_of_a_transactional_topic_still_finds_what_is_missing(
    site: Any, landed: Callable[..., Any], mixed: list[tuple[int, int]]
) -> None:
    lost = [mixed[4], mixed[5], mixed[30]]
    landed({0: high(site), 1: 0}, rows=[row for row in mixed if row not in lost])
    answer = audit(site)
    assert answer.code == 3
    assert (answer.json["consumed"], answer.json["missing"]) == (42, 3)
    gaps = answer.json["partitions"][0]["gaps"]
    assert [offset for low, to in gaps for offset in range(low, to)] == [offset for _, offset in lost]


def test_audit_of_a_stream_that_reads_uncommitted_records_wants_the_aborted_ones_too(
    site: Any, landed: Callable[..., Any], mixed: list[tuple[int, int]]
) -> None:
    from sqlalchemy import text

    with site.registry() as connection:
        connection.execute(
            text(
                "UPDATE generations SET spec = jsonb_set(spec::jsonb,"
                " '{sources,flights,kafka,isolation_level}', '\"read_uncommitted\"') WHERE stream = 'flights'"
            )
        )
    landed({0: high(site), 1: 0}, rows=mixed)
    answer = audit(site)
    assert (answer.code, answer.json["missing"]) == (3, 28)


def test_audit_of_a_compacted_topic_takes_no_removed_record_for_a_loss(site: Any, landed: Callable[..., Any]) -> None:
    _compact(site)
    there = existing(site)
    assert len(there) < high(site)
    landed({0: high(site), 1: 0}, rows=there)
    answer = audit(site)
    assert answer.code == 0, answer.out
    assert (answer.json["missing"], answer.json["consumed"]) == (0, len(there))


def _compact(site: Any) -> None:
    """Send the same keys again until the cleaner has removed older records."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

    admin = AdminClient({"bootstrap.servers": _cluster(site).bootstrap})
    wanted = {
        "cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001",
        "max.compaction.lag.ms": "100", "min.compaction.lag.ms": "0",
    }  # fmt: skip
    resource = ConfigResource(
        ConfigResource.Type.TOPIC, site.topic,
        incremental_configs=[
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in wanted.items()
        ],
    )  # fmt: skip
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)
    producer = Producer({"bootstrap.servers": _cluster(site).bootstrap})
    end = time.monotonic() + 180
    while time.monotonic() < end:
        for number in range(10):
            producer.produce(site.topic, f"v{number}".encode(), key=f"k{number % 3}".encode(), partition=0)
        assert producer.flush(30) == 0
        time.sleep(1)
        if len(existing(site)) < high(site):
            return
    raise AssertionError("the cleaner removed nothing")


def test_audit_says_what_the_source_no_longer_has_and_the_batches_count_decides(
    site: Any, landed: Callable[..., Any], mixed: list[tuple[int, int]]
) -> None:
    table = landed({0: high(site), 1: 0}, rows=mixed)
    _counted(table, 42)
    _expire(site, high(site))
    answer = audit(site)
    assert answer.code == 0, answer.out
    assert (answer.json["missing"], answer.json["unverified"], answer.json["consumed"]) == (0, high(site) - 42, 42)
    _counted(table, 44)
    answer = audit(site)
    assert (answer.code, answer.json["missing"], answer.json["consumed"]) == (3, 2, 44)


def _counted(table: Any, consumed: int) -> None:
    """Let the position say how many records the batches counted."""
    at = Position.model_validate_json(table.refresh().properties[key("flights")])
    totals = at.totals.model_copy(update={"consumed": consumed})
    with table.transaction() as change:
        change.set_properties({key("flights"): at.model_copy(update={"totals": totals}).to_json()})


def _expire(site: Any, before: int) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": _cluster(site).bootstrap})
    for done in admin.delete_records([TopicPartition(site.topic, 0, before)]).values():
        done.result(30)


def test_a_reset_counts_records_and_the_audit_agrees(
    site: Any, landed: Callable[..., Any], mixed: list[tuple[int, int]]
) -> None:
    at = mixed[20][1]
    table = landed({0: at, 1: 0}, rows=mixed[:20])
    shown = site.lakeward("streams", "reset", "flights", "--to", "latest", "--dry-run", "-o", "json")
    assert shown.json["skipped"] == 22
    assert f"{site.topic}/0: 22 records skipped ({at} to {high(site) - 1}, of which " in shown.err
    answer = site.lakeward("streams", "reset", "flights", "--to", "latest", "--yes", "--comment", "old", "-o", "json")
    assert answer.code == 0, answer.err
    assert Position.model_validate_json(table.refresh().properties[key("flights")]).totals.skipped == 22
    found = audit(site)
    assert (found.code, found.json["missing"], found.json["skipped"]) == (0, 0, 22)


def test_a_reset_to_latest_goes_no_further_than_can_be_read_and_skips_nothing_of_an_open_transaction(
    site: Any, landed: Callable[..., Any]
) -> None:
    with transactions(site) as send:
        send([b"1", b"2"])
        send([b"3", b"4", b"5"], "open")
        table = landed({0: 0, 1: 0}, rows=[])
        answer = site.lakeward("streams", "reset", "flights", "--to", "latest", "--yes", "--comment", "x", "-o", "json")
        assert answer.code == 0, answer.err
        assert answer.json["skipped"] == 2
        end = json.loads(Position.model_validate_json(table.refresh().properties[key("flights")]).end["flights"])
        assert end[site.topic]["0"] == 3
        later = "2100-01-01T00:00:00Z"
        shown = site.lakeward("streams", "reset", "flights", "--to", later, "--dry-run", "-o", "json")
        assert shown.json["to"]["flights"] == json.dumps({site.topic: {"0": 3, "1": 0}}, separators=(",", ":"))


def test_status_counts_lag_to_what_can_be_read_and_says_what_waits_behind_an_open_transaction(
    site: Any, landed: Callable[..., Any]
) -> None:
    with transactions(site) as send:
        send([b"1", b"2"])
        send([b"3", b"4", b"5"], "open")
        landed({0: 3, 1: 0}, rows=[(0, 0), (0, 1)])
        found = status(site)
        assert (found["lag_records"], found["held_records"]) == (0, 3)
        assert found["held_s"] is not None
        first = next(part for part in found["partitions"] if part["partition"] == 0)
        assert (first["end"], first["lag_records"], first["held_records"]) == (3, 0, 3)
        text = site.lakeward("streams", "status", "flights").out
        assert "nothing that can be read waits at the source; up to 3 records wait behind an open transaction" in text
        assert audit(site).code == 0


def test_the_drivers_lag_ends_at_the_last_stable_offset(site: Any) -> None:
    from lakeward.driver.lag import LagThread, Watched

    noted: dict[str, int] = {}
    with transactions(site) as send:
        send([b"1", b"2"])
        send([b"3", b"4", b"5"], "open")
        at = json.dumps({site.topic: {"0": 3, "1": 0}})
        for isolation in ("read_committed", "read_uncommitted"):
            watched = Watched(isolation, "flights", _cluster(site), (site.topic,), at, isolation)
            LagThread(
                lambda watched=watched: [watched],
                lambda stream, number, seconds: noted.update({stream: number}),
                lambda stream, found: None,
            ).once()
    assert noted == {"read_committed": 0, "read_uncommitted": 3}


def test_a_new_stream_that_starts_at_latest_starts_where_it_can_read(site: Any) -> None:
    from lakeward.connectors.kafka import starting_offsets
    from lakeward.spec.model.sources import KafkaSource

    source = KafkaSource.model_validate({"topics": [site.topic], "starting_offsets": "latest"})
    with transactions(site) as send:
        send([b"1"])
        send([b"2"], "open")
        at = json.loads(starting_offsets.resolve(source, _cluster(site), [site.topic]))
    assert at[site.topic]["0"] == 2


def test_a_skipped_batch_counts_records_and_the_audit_agrees(
    site: Any, landed: Callable[..., Any], mixed: list[tuple[int, int]]
) -> None:
    at = mixed[36][1]
    table = landed({0: at, 1: 0}, rows=mixed[:36])
    folder = site.home / "checkpoints" / "flights" / "1"
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"q"}')
    (folder / "commits" / "2").write_text('v1\n{"nextBatchWatermarkMs":0}')
    for number, end in ((2, at), (3, high(site))):
        offsets = json.dumps({site.topic: {"0": end, "1": 0}})
        (folder / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offsets}')
    with site.registry() as connection:
        streams.block(connection, "flights", {"reason": "poison", "what": "cast", "why": "", "next": "", "batch": 3})
    skip = ("streams", "skip-batch", "flights", "--batch", "3", "-o", "json")
    shown = site.lakeward(*skip, "--dry-run")
    assert shown.json["skipped"] == 6, shown.err
    assert "6 records" in shown.err
    assert "without a record" in shown.err
    answer = site.lakeward(*skip, "--yes", "--comment", "junk")
    assert answer.code == 0, answer.err
    assert Position.model_validate_json(table.refresh().properties[key("flights")]).totals.skipped == 6
    found = audit(site)
    assert (found.code, found.json["missing"], found.json["skipped"]) == (0, 0, 6)


def test_a_topic_created_again_is_another_topic_for_every_command(site: Any, landed: Callable[..., Any]) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    _send(site, 50)
    table = landed({0: 50, 1: 0}, rows=[(0, offset) for offset in range(50)])
    at = Position.model_validate_json(table.properties[key("flights")])
    ids = broker.existing_ids(_cluster(site), [site.topic])
    with table.transaction() as change:
        change.set_properties({key("flights"): at.model_copy(update={"topic_ids": ids}).to_json()})
    assert status(site)["data"]["lost"] == "no"

    admin = AdminClient({"bootstrap.servers": _cluster(site).bootstrap})
    admin.delete_topics([site.topic])[site.topic].result(30)
    _until(lambda: not broker.existing_ids(_cluster(site), [site.topic]))
    missing = status(site)
    assert (missing["data"]["lost"], missing["lag_records"]) == ("at risk", None)
    _until(lambda: admin.create_topics([NewTopic(site.topic, 2, 1)])[site.topic].exception(30) is None)
    _send(site, 70)  # more than before: by their offsets it seems to go on

    found = status(site)
    assert (found["data"]["lost"], found["lag_records"]) == ("at risk", None)
    assert found["lag_unknown"] == "source flights: its topic was deleted and created again"
    for to in ("earliest", "latest", "available"):
        answer = site.lakeward("streams", "reset", "flights", "--to", to, "--dry-run")
        assert answer.code != 0
        assert f"Cannot reset stream flights; topic {site.topic} was deleted and created again" in answer.err
        assert "give the stream a new id and a new table" in answer.err
    recover = site.lakeward("streams", "recover", "flights", "--dry-run")
    assert (recover.code, "was deleted and created again" in recover.err) == (answer.code, True)
    audited = audit(site)
    assert (audited.code, audited.json["missing"], audited.json["duplicates"]) == (0, 0, 0)


def _send(site: Any, records: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": _cluster(site).bootstrap, "linger.ms": 60_000})
    for number in range(records):
        producer.produce(site.topic, str(number), partition=0)
    assert producer.flush(30) == 0


def _until(so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not so():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize("moment", ["1969-12-31T23:59:59.999Z", "0001-01-01T00:00:00Z"])
def test_a_reset_to_a_time_before_all_records_goes_to_the_first_one(
    site: Any, landed: Callable[..., Any], moment: str
) -> None:
    """Kafka takes the time -1, the last millisecond of 1969, for the end of the topic."""
    _send(site, 4)
    landed({0: 2, 1: 0}, rows=[(0, 0), (0, 1)])
    shown = site.lakeward("streams", "reset", "flights", "--to", moment, "--dry-run", "-o", "json").json
    assert (shown["skipped"], shown["read_again"], shown["duplicates"]) == (0, 2, 2)


@pytest.mark.parametrize(
    ("offsets", "wrong"),
    [
        ('{"0": 2.7}', "2.7 is not a whole number"),
        ('{"0": true}', "true is not a whole number"),
        ('{"0": 1, "00": 2}', '"00" is not a whole number'),
        ('{"0": 1, "0": 2}', "0 is there twice"),
    ],
)
def test_offsets_in_a_file_are_taken_as_they_are_written_or_not_at_all(
    site: Any, landed: Callable[..., Any], tmp_path: Path, offsets: str, wrong: str
) -> None:
    _send(site, 4)
    landed({0: 4, 1: 0}, rows=[(0, offset) for offset in range(4)])
    file = tmp_path / "offsets.json"
    file.write_text(f'{{"{site.topic}": {offsets}}}')
    answer = site.lakeward("streams", "reset", "flights", "--to", str(file), "--dry-run")
    assert (answer.code, wrong in answer.err) == (2, True)
