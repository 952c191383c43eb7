from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from lakeward.tables.act.delta import optimize, vacuum
from lakeward.tables.plan.model import Rewrite

FOLDER = Path("/lake/delta.tables/nyc/fl`ights")


def test_optimize_takes_files_below_a_size_of_the_named_partitions_alone() -> None:
    wanted = Rewrite("fragments", ("a", "b"), ("`day` IS NULL", "`day` = CAST('x' AS DATE)"), 16, 128, 9, 2, 99)
    *settings, statement = optimize(FOLDER, wanted)
    assert "SET spark.databricks.delta.optimize.minFileSize = 16" in settings
    assert "SET spark.databricks.delta.optimize.maxFileSize = 128" in settings
    assert statement == (
        "OPTIMIZE delta.`/lake/delta.tables/nyc/fl``ights` WHERE (`day` IS NULL) OR (`day` = CAST('x' AS DATE))"
    )


def test_vacuum_keeps_at_least_what_was_planned_and_leaves_deltas_own_check_on(now) -> None:
    *settings, statement = vacuum(FOLDER, now - timedelta(days=7, seconds=1), now)
    assert statement.endswith(" RETAIN 168.0003 HOURS")
    assert not any("retentionDurationCheck" in each for each in settings)
    *settings, _ = vacuum(FOLDER, now - timedelta(hours=1), now)
    assert "SET spark.databricks.delta.retentionDurationCheck.enabled = false" in settings
