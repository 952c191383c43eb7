"""The audit finds planted losses and doubles, and nothing where there is nothing."""

from __future__ import annotations

from typing import Any

from lakeward.connectors.commit_protocol.audit import Audit
from lakeward.connectors.iceberg import pyiceberg_table
from lakeward.connectors.iceberg.audit import audit


def _audit(rig: Any, catalog: Any, **how: Any) -> Audit:
    table = catalog.load_table(rig.table)
    return audit(table, rig.stream, pyiceberg_table.positions(table)[rig.stream], **how)


def test_a_landed_stream_is_clean_through_replay_and_maintenance(rig: Any, catalog: Any) -> None:
    rig.per_batch = 10
    rig.produce(40)
    rig.run()
    rig.forget_commit()
    rig.maintain()
    rig.run()

    found = _audit(rig, catalog)

    assert found.clean
    assert (found.consumed, found.landed, found.filtered) == (40, 40, 0)
    assert [(each.partition, each.from_, each.to) for each in found.partitions] == [
        (f"{rig.topic}/0", 0, 20),
        (f"{rig.topic}/1", 0, 20),
    ]


def test_it_counts_from_where_the_stream_began(rig: Any, catalog: Any) -> None:
    rig.produce(10)
    rig.starting = rig.offsets(3, 5)
    rig.run()

    found = _audit(rig, catalog)

    assert found.clean
    assert found.consumed == 2


def test_planted_losses_and_doubles_are_found_where_they_are(rig: Any, catalog: Any) -> None:
    rig.produce(20)
    rig.run()
    rig.sql("DELETE FROM {t} WHERE _kafka_partition = 1 AND _kafka_offset IN (3, 4)")
    rig.sql("INSERT INTO {t} SELECT * FROM {t} WHERE _kafka_partition = 0 AND _kafka_offset < 2")
    rig.sql(f"INSERT INTO {{t}} SELECT '{rig.topic}', 0, 99, 'x', ''")

    found = _audit(rig, catalog)

    assert (found.missing, found.duplicates, found.beyond, found.clean) == (2, 2, 1, False)
    assert [each.gaps for each in found.partitions] == [(), ((3, 5),)]


def test_what_the_transform_filters_is_no_loss(rig: Any, catalog: Any) -> None:
    from lakeward.connectors.commit_protocol.batch import Counted
    from lakeward.connectors.commit_protocol.row_count import tally

    def split(frame: Any, batch: int) -> None:
        rig.land = {"counted": Counted(*tally(frame))}

    rig.before_batch = split
    make = rig.sink

    def filtering(name: str) -> Any:
        sink = make(name)
        land = sink.land
        sink.land = lambda frame, batch, **how: land(frame.where("CAST(value AS INT) % 2 = 0"), batch, **how)
        return sink

    rig.sink = filtering
    rig.produce(10)
    rig.run()

    found = _audit(rig, catalog)

    assert found.clean
    assert (found.consumed, found.landed, found.filtered) == (10, 5, 5)


def test_markers_of_transactions_are_no_losses_when_the_records_are_counted(rig: Any, catalog: Any) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": rig.bootstrap, "transactional.id": rig.topic})
    producer.init_transactions(30)
    for value in range(3):
        producer.begin_transaction()
        producer.produce(rig.topic, str(value).encode(), partition=0)
        producer.commit_transaction(30)
    rig.run()

    assert _audit(rig, catalog).missing == 3, "offsets alone take the markers for records"
    counted = _audit(rig, catalog, records={(rig.topic, 0): 3, (rig.topic, 1): 0})
    assert counted.clean
    assert counted.consumed == 3
