"""A position moved without Spark, on real Delta logs: Spark goes on behind it, and it fences who was landing."""

from __future__ import annotations

import pytest
from delta_rig import ROWS, Rig, at, maintain

from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.delta import log
from lakeward.connectors.delta.position_store import OPERATION, DeltaPositionStore
from lakeward.platform.errors import Fenced
from lakeward.telemetry import failpoints


def _store(rig: Rig) -> DeltaPositionStore:
    return DeltaPositionStore(rig.folder, rig.table, "flights")


def _reset(rig: Rig, offset: int) -> Position:
    store = _store(rig)
    found = store.read()
    assert found.position is not None and found.halt is None
    return store.compare_and_set(found, found.position.moved("reset", "ann", end={"source": at(offset)}))


@pytest.mark.parametrize(
    "step",
    [
        "before-publish",
        pytest.param(
            "after-stage",
            marks=pytest.mark.campaign(held_by="test_who_is_landing_while_the_position_moves_is_fenced"),
        ),
    ],
)
def test_who_is_landing_while_the_position_moves_is_fenced(rig: Rig, step: str) -> None:
    rig.land(0)
    writer = rig.writer()
    with failpoints.on(step, lambda: _reset(rig, 2 * ROWS)), pytest.raises(Fenced):
        rig.land(1, writer)
    assert rig.values() == list(range(ROWS))
    assert rig.position().attempt == "reset/2/ann"


def test_a_new_query_goes_on_where_it_was_moved_to_also_behind_checkpoints_of_the_log(rig: Rig) -> None:
    bounds = {batch: (ROWS * (batch + 2), ROWS * (batch + 3)) for batch in range(12)}
    rig.land(0)
    moved = _reset(rig, 2 * ROWS)
    assert (moved.snapshot, rig.version()) == (2, 2)
    rig.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointInterval' = '5')")
    again, batches = rig.writer(query="q2", bounds=bounds), 4
    for batch in range(batches):
        rig.land(batch, again)
    assert list((rig.folder / log.LOG).glob("*.checkpoint*.parquet"))
    maintain(rig)
    end = bounds[batches - 1][1]
    _reset(rig, end)
    last = rig.writer(query="q3", bounds={0: (end, end + ROWS)})
    rig.land(0, last)

    assert rig.values() == [*range(ROWS), *range(2 * ROWS, end + ROWS)]
    assert rig.history().count(OPERATION) == 2
    assert rig.position().seq == batches + 4
    fresh = rig.spark.newSession().sql(f"SELECT count(*) FROM delta.`{rig.folder}`").collect()
    assert fresh[0][0] == len(rig.values())
