"""Landing exactly once: each sentence of the protocol on real Spark, Kafka, Iceberg and PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.errors import Blocked


def test_batches_land_in_order_and_the_position_counts_them(rig: Any) -> None:
    rig.per_batch = 4
    rig.produce(10)

    landed = rig.run()

    assert rig.values() == rig.expected()
    assert [each.seq for each in landed] == [1, 2, 3]
    assert [each.counts.landed for each in landed] == [4, 4, 2]
    assert landed[0].start == {"source": rig.offsets(0, 0)}
    assert landed[-1].end == {"source": rig.offsets(5, 5)}
    position = rig.position()
    assert position == landed[-1].position
    assert (position.seq, position.batch, position.generation) == (3, 2, 3)
    assert position.end == {"source": rig.offsets(5, 5)}
    assert position.snapshot == rig.head() == landed[-1].snapshot
    assert position.totals.landed == 10


def test_a_published_batch_runs_again_after_compaction_and_the_tightest_expiry(rig: Any) -> None:
    """The native sink lands its rows twice here: it finds its epoch only in snapshots that expiry took."""
    rig.produce(17)
    rig.run()
    rig.forget_commit()
    rig.maintain()

    replayed = rig.run()

    assert [each.already for each in replayed] == [True]
    assert rig.values() == rig.expected()
    rig.produce(3)
    assert [each.seq for each in rig.run()] == [2]
    assert rig.values() == rig.expected()


def test_a_second_checkpoint_is_refused_at_its_first_batch(rig: Any, tmp_path: Any) -> None:
    rig.produce(6)
    rig.run()

    with pytest.raises(Blocked) as refused:
        rig.run(checkpoint=tmp_path / "second")

    assert refused.value.reason == "overlap"
    assert f"{rig.topic}/0: records 0 to 2 would land twice" in refused.value.why
    assert rig.values() == rig.expected()
