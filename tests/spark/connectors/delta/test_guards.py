"""What somebody else does to a Delta table under its stream: found out, before a row is lost or lands twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeward.connectors.delta import location
from lakeward.platform.errors import Blocked
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    pass
from delta_rig import ROWS, SCHEMA, Rig


def test_a_restore_behind_our_back_blocks_until_it_is_taken_back(rig: Rig) -> None:
    for batch in range(3):
        rig.land(batch)
    rig.sql("RESTORE TABLE {t} TO VERSION AS OF 1")
    assert rig.values() == list(range(ROWS))
    assert rig.position().seq == 3, "the position does not go back with the rows: that is why it is looked for"

    with pytest.raises(Blocked) as blocked:
        rig.land(3)

    assert blocked.value.reason == "rolled-back"
    assert "seq 2 to 3" in blocked.value.why
    assert "TO VERSION AS OF 3" in blocked.value.next
    rig.forge(5, "RESTORE", version=3)
    assert rig.land(3).seq == 4


def test_a_restore_between_check_and_commit_is_seen(rig: Rig) -> None:
    rig.land(0)
    rig.land(1)

    def restore() -> None:
        rig.forge(3, "RESTORE", version=1)

    with failpoints.on("after-stage", restore), pytest.raises(Blocked) as blocked:
        rig.land(2)

    assert blocked.value.reason == "rolled-back"


def test_a_replaced_table_blocks(rig: Rig) -> None:
    rig.land(0)
    rig.sql(f"CREATE OR REPLACE TABLE {{t}} ({SCHEMA}) USING delta")

    with pytest.raises(Blocked) as blocked:
        rig.land(1)

    assert blocked.value.reason == "table-replaced"
    assert rig.values() == []


def test_a_table_that_cannot_keep_a_position_is_refused_and_the_advice_helps(rig: Rig) -> None:
    name = rig.table.replace("flights", "plain")
    plain = Rig(rig.spark, rig.lake, name)
    rig.spark.sql(f"CREATE TABLE delta.`{plain.folder}` ({SCHEMA}) USING delta")
    location.register(rig.spark, rig.lake, name)

    with pytest.raises(Blocked) as blocked:
        plain.land(0)

    assert blocked.value.reason == "no-domains"
    plain.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.domainMetadata' = 'supported')")
    plain.land(0)
    assert plain.values() == list(range(ROWS))


def test_a_commit_written_over_by_another_process_is_landed_again(rig: Rig) -> None:
    """A local file system lets two processes write one version; ours is looked for right after it was written."""
    rig.land(0)
    over = [1]

    def overwrite() -> None:
        if over:
            over.pop()
            rig.forge(2, "OPTIMIZE")

    with failpoints.on("after-publish", overwrite):
        landed = rig.land(1)

    assert (landed.seq, landed.snapshot) == (2, 3)
    assert [row[0] for row in rig.spark.newSession().read.format("delta").load(str(rig.folder)).groupBy().count()
            .collect()] == [2 * ROWS]  # fmt: skip


def test_a_commit_written_over_later_blocks_instead_of_losing_rows(rig: Rig) -> None:
    ours = rig.writer()
    rig.land(0, ours)
    rig.land(1, ours)
    rig.forge(2, "OPTIMIZE")

    with pytest.raises(Blocked):
        rig.land(2, ours)
