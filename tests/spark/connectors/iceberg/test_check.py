"""What blocks a stream, made to happen on a real table. Each of these loses or doubles rows without its guard."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.commit_protocol.position import key
from lakeward.platform.errors import Blocked
from lakeward.telemetry import failpoints


def _blocked(rig: Any, reason: str, **how: Any) -> Blocked:
    before = rig.values()
    with pytest.raises(Blocked) as blocked:
        rig.run(**how)
    assert blocked.value.reason == reason
    assert blocked.value.next
    if reason != "unstaged":
        assert rig.values() == before
    return blocked.value


@pytest.mark.campaign(
    held_by="tests/unit/connectors/iceberg/test_check.py::test_a_smaller_batch_of_the_same_query_is_an_older_checkpoint"
)
def test_an_older_copy_of_the_checkpoint_is_refused(rig: Any) -> None:
    """Natively this is silent loss: the epochs up to the table's last one are skipped whole."""
    rig.produce(4)
    rig.run()
    rig.copy_checkpoint("older")
    for _ in range(2):
        rig.produce(4)
        rig.run()
    shutil.rmtree(rig.checkpoint)
    (rig.checkpoint.parent / "older").rename(rig.checkpoint)

    error = _blocked(rig, "older-checkpoint")

    assert "batch 1" in error.why and "batch 2" in error.why


def test_a_second_checkpoint_is_refused_at_its_first_batch(rig: Any, tmp_path: Path) -> None:
    rig.produce(6)
    rig.run()

    error = _blocked(rig, "overlap", checkpoint=tmp_path / "second")

    assert f"{rig.topic}/0: records 0 to 2 would land twice" in error.why
    assert f"{rig.topic}/1: records 0 to 2 would land twice" in error.why


@pytest.mark.campaign(
    held_by="tests/unit/connectors/iceberg/test_check.py::test_the_first_batch_needs_no_position_and_any_other_does"
)
def test_a_checkpoint_without_a_position_is_refused_after_batch_0(rig: Any) -> None:
    rig.produce(2)
    rig.run()
    rig.sql(f"ALTER TABLE {{t}} UNSET TBLPROPERTIES ('{key(rig.stream)}')")
    rig.produce(2)

    _blocked(rig, "no-position")
    # Nor is it taken for a new stream: its published batches are on main.
    _blocked(rig, "no-position", checkpoint=rig.checkpoint.with_name("fresh"))


@pytest.mark.campaign(
    held_by="tests/unit/connectors/iceberg/test_check.py::test_the_first_batch_needs_no_position_and_any_other_does"
)
def test_a_table_made_again_under_the_stream_is_refused(rig: Any) -> None:
    rig.produce(2)
    rig.run()
    rig.sql("DROP TABLE {t}")
    rig.produce(2)

    with pytest.raises(Blocked) as missing:
        rig.run()
    assert missing.value.reason == "table-missing"
    rig.create()
    _blocked(rig, "no-position")


def test_a_rollback_under_the_stream_is_refused_with_what_is_lost(rig: Any) -> None:
    """The property does not roll back: natively, and with the position alone, these rows are silently missing."""
    rig.per_batch = 4
    rig.produce(4)
    first = rig.run()[0].snapshot
    rig.produce(8)
    rig.run()
    rig.call("rollback_to_snapshot", snapshot_id=str(first))
    rig.produce(4)

    error = _blocked(rig, "rolled-back")

    assert "seq 2 to 3" in error.why
    rig.call("set_current_snapshot", snapshot_id=str(rig.position().snapshot))
    rig.run()
    assert rig.values() == rig.expected()


@pytest.mark.campaign(held_by="test_a_rollback_under_the_stream_is_refused_with_what_is_lost")
def test_a_rollback_that_others_wrote_upon_is_refused(rig: Any) -> None:
    rig.produce(4)
    first = rig.run()[0].snapshot
    rig.produce(4)
    rig.run()
    rig.call("rollback_to_snapshot", snapshot_id=str(first))
    rig.sql("INSERT INTO {t} SELECT 'x', 0, 0, '100', ''")
    rig.produce(4)

    _blocked(rig, "rolled-back")


def test_a_rollback_between_the_check_and_the_publication_is_refused(rig: Any) -> None:
    """The position reads the same before and after: only walking main again, on what is swapped, can tell."""
    rig.produce(4)
    first = rig.run()[0].snapshot
    rig.produce(4)
    rig.run()
    rig.produce(4)

    def roll_back() -> None:
        rig.call("rollback_to_snapshot", snapshot_id=str(first))

    with failpoints.on("after-stage", roll_back), pytest.raises(Blocked) as blocked:
        rig.run()

    assert blocked.value.reason == "rolled-back"
    assert rig.values() == [0, 1, 2, 3]


def test_a_replaced_table_is_refused(rig: Any) -> None:
    """CREATE OR REPLACE keeps the properties and the uuid."""
    rig.produce(4)
    rig.run()
    rig.sql("CREATE OR REPLACE TABLE {t} USING iceberg AS SELECT * FROM {t} WHERE false")
    assert key(rig.stream) in dict(rig.metadata().properties())
    rig.produce(4)

    _blocked(rig, "table-replaced")


@pytest.mark.campaign(held_by="tests/unit/connectors/iceberg/test_check.py::test_staging_switched_off_blocks")
def test_staging_switched_off_is_refused(rig: Any) -> None:
    rig.produce(4)
    rig.run()
    rig.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.wap.enabled'='false')")
    rig.produce(4)

    _blocked(rig, "wap-off")
    rig.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.wap.enabled'='true')")
    rig.run()
    assert rig.values() == rig.expected()


def test_a_property_that_iceberg_cannot_read_is_named(rig: Any) -> None:
    """Spark takes any value, and fails at each commit from then on, also at one that would remove the property."""
    rig.produce(4)
    rig.run()
    rig.sql("ALTER TABLE {t} SET TBLPROPERTIES ('commit.retry.min-wait-ms'='200ms')")
    rig.produce(4)

    blocked = _blocked(rig, "property-unreadable")
    assert "commit.retry.min-wait-ms is '200ms', which is no whole number" in blocked.why
    assert f"lakeward tables maintain {rig.table} --actions metadata" in blocked.next


def test_staging_switched_off_between_check_and_write_names_the_snapshot(rig: Any) -> None:
    rig.produce(4)
    rig.run()
    before = rig.head()
    rig.produce(4)

    def switch_off() -> None:
        rig.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.wap.enabled'='false')")

    with failpoints.on("after-check", switch_off):
        error = _blocked(rig, "unstaged")

    assert str(rig.head()) in error.what
    # It stays blocked when staging is back: landing the batch again would double it.
    rig.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.wap.enabled'='true')")
    assert str(rig.head()) in _blocked(rig, "unstaged").what
    rig.call("set_current_snapshot", snapshot_id=str(before))
    rig.run()
    assert rig.values() == rig.expected()


def test_a_staged_batch_published_by_hand_after_its_driver_died_is_not_landed_again(rig: Any) -> None:
    rig.produce(4)
    rig.run()
    before = rig.head()
    rig.produce(4)

    with (
        failpoints.on("after-stage", lambda: exec("raise SystemError")),
        pytest.raises(Exception, match="SystemError"),
    ):
        rig.run()
    staged = next(each for each in reversed(list(rig.metadata().snapshots())) if each.summary().get("wap.id"))
    rig.call("publish_changes", wap_id=f"'{staged.summary().get('wap.id')}'")

    error = _blocked(rig, "unstaged")

    assert "published by hand" in error.why
    rig.call("set_current_snapshot", snapshot_id=str(before))
    rig.run()
    assert rig.values() == rig.expected()


def test_an_unreadable_position_is_refused(rig: Any) -> None:
    rig.produce(2)
    rig.run()
    rig.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{key(rig.stream)}'='{{{{}}}}')")
    rig.produce(2)

    _blocked(rig, "position-unreadable")
