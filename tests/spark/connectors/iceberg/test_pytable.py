"""The same facts through PyIceberg: positions outlive maintenance, guards see what Spark did, operations are fenced."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lakeward.connectors.commit_protocol.position import Position, key
from lakeward.connectors.iceberg import jvm, position_store, pyiceberg_table
from lakeward.connectors.iceberg.check import check_table
from lakeward.platform.errors import Blocked, Fenced, Refused
from lakeward.telemetry import failpoints


def test_the_position_outlives_compaction_and_expiry_and_needs_no_jvm_to_be_read(rig: Any, catalog: Any) -> None:
    rig.per_batch = 2
    rig.produce(6)
    rig.run()
    rig.maintain()
    rig.maintain()

    found = pyiceberg_table.positions(catalog.load_table(rig.table))

    assert found == {"flights": rig.position()}
    assert found["flights"].seq == 3
    assert (
        check_table(pyiceberg_table.state_of(catalog.load_table(rig.table).metadata, "flights", rig.table), "lake")
        is None
    )


def test_both_readers_see_the_same_state(rig: Any, catalog: Any) -> None:
    rig.per_batch = 2
    rig.produce(6)
    first = rig.run()[0].snapshot
    rig.sql("INSERT INTO {t} SELECT 'x', 0, 0, '100', ''")

    def same() -> None:
        ours = pyiceberg_table.state_of(catalog.load_table(rig.table).metadata, "flights", rig.table)
        assert ours == jvm.state_of(rig.metadata(), "flights", rig.table)

    same()
    rig.call("rollback_to_snapshot", snapshot_id=str(first))
    same()
    rig.sql("CREATE OR REPLACE TABLE {t} USING iceberg AS SELECT * FROM {t}")
    same()


@pytest.mark.campaign(held_by="tests/unit/connectors/iceberg/test_check.py::test_a_chain_cut_by_expiry_lands_on")
def test_after_an_expiry_nobody_can_tell_that_the_table_was_rolled_back(rig: Any, catalog: Any) -> None:
    """Why expiry must ask first, whoever runs it."""
    rig.produce(2)
    first = rig.run()[0].snapshot
    rig.produce(2)
    rig.run()

    def halt() -> Any:
        return check_table(
            pyiceberg_table.state_of(catalog.load_table(rig.table).metadata, "flights", rig.table), "lake"
        )

    rig.call("rollback_to_snapshot", snapshot_id=str(first))
    rig.sql("INSERT INTO {t} SELECT 'x', 0, 0, '100', ''")
    assert halt().reason == "rolled-back"
    rig.maintain()
    assert halt() is None


def test_import_sets_a_first_position_that_the_stream_continues(rig: Any, catalog: Any) -> None:
    rig.produce(4)
    rig.sql(f"INSERT INTO {{t}} VALUES ('{rig.topic}', 0, 0, '0', ''), ('{rig.topic}', 1, 0, '1', '')")
    rig.starting = rig.offsets(1, 1)
    new = Position(seq=1, query_id="", batch=-1, end={"source": rig.starting}, attempt="import/1")

    moved = position_store.write_position(catalog, rig.table, "flights", new, None)

    assert moved == rig.position()
    assert moved.snapshot == rig.head()
    assert [each.seq for each in rig.run()] == [2]
    assert rig.values() == rig.expected()


def test_reset_while_a_batch_is_staged_fences_the_driver(rig: Any, catalog: Any) -> None:
    rig.produce(2)
    rig.run()
    raw = rig.metadata().properties().get(key("flights"))
    rig.produce(2)

    def reset() -> None:
        new = rig.position().model_copy(update={"seq": 2, "query_id": "", "batch": -1, "attempt": "reset/1"})
        position_store.write_position(catalog, rig.table, "flights", new, raw)

    with failpoints.on("after-stage", reset), pytest.raises(Fenced):
        rig.run()

    assert rig.values() == [0, 1]


def test_a_position_that_moved_meanwhile_is_not_overwritten(rig: Any, catalog: Any) -> None:
    rig.produce(2)
    rig.run()
    raw = rig.metadata().properties().get(key("flights"))
    rig.produce(2)
    rig.run()
    later = rig.position().model_copy(update={"seq": 9})

    with pytest.raises(Fenced, match="moved its position"):
        position_store.write_position(catalog, rig.table, "flights", later, raw)
    with pytest.raises(Fenced, match="moved its position"):
        position_store.write_position(catalog, rig.table, "flights", later, None)

    assert rig.position().seq == 2


def test_seq_never_falls(rig: Any, catalog: Any) -> None:
    rig.produce(2)
    rig.run()
    raw = rig.metadata().properties().get(key("flights"))

    with pytest.raises(Refused, match="seq 1 to 1"):
        position_store.write_position(catalog, rig.table, "flights", rig.position(), raw)


def test_of_two_operations_one_wins(rig: Any, catalog: Any) -> None:
    outcomes: list[str] = []

    def write() -> None:
        new = Position(seq=1, query_id="", batch=-1, end={"source": "-"})
        try:
            position_store.write_position(catalog, rig.table, "flights", new, None)
            outcomes.append("won")
        except Fenced:
            outcomes.append("lost")

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == ["lost", "lost", "lost", "won"]


def test_a_foreign_value_is_named_not_guessed(rig: Any, catalog: Any) -> None:
    rig.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{key('flights')}'='7')")

    with pytest.raises(Blocked, match="cannot be read"):
        pyiceberg_table.positions(catalog.load_table(rig.table))
