"""Rows put in order, a tag for a day that is over, and the reach of a Delta log: by the real server."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakeward.connectors.delta import location, state
from lakeward.tables import run
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.plan.tags import DAILY


@pytest.fixture
def policy(site: MaintenanceContext):
    """Replaces the thresholds of the tests' tables."""

    def write(text: str) -> None:
        site.project.tables_file.write_text(f"unsafe:\n  - match: maintained.*\n    why: few rows\n{text}")

    return write


def compacted(site: MaintenanceContext, table: str) -> dict:
    (done,) = run.maintain(site.runtime, site.project, table, ["compact"])["actions"]
    assert (done["result"], done["verified"]) == ("done", True), done["why"]
    return done


def columns(table) -> list[tuple[int, ...]]:
    """The ids of each file, as its rows stand in it, the files by their least id."""
    files = [each.file.file_path.removeprefix("file:") for each in table.site.load(table.name).scan().plan_files()]
    return sorted(tuple(pq.ParquetFile(each).read(["id"])["id"].to_pylist()) for each in files)


@pytest.mark.parametrize(
    ("order", "ids"),
    [
        pytest.param(
            "id DESC",
            (7, 6, 5, 4, 3, 2, 1, 0),
            marks=pytest.mark.campaign(
                held_by="test_a_cold_partition_is_rewritten_in_its_order_and_what_comes_late_is_too"
            ),
        ),
        ("zorder(id, ts)", (0, 1, 2, 3, 4, 5, 6, 7)),
    ],
)
def test_a_cold_partition_is_rewritten_in_its_order_and_what_comes_late_is_too(site, make_table, policy, order, ids):
    policy(f"    compact: {{sort_order: '{order}', cold_after: 1ms, cold_min_files: 1, cooldown: 1ms}}\n")
    table = make_table("")
    for each in (3, 1, 7, 5):
        table.sql(f"INSERT INTO {{t}} VALUES ({each}, 'EWR', null), ({each - 1}, 'EWR', null)")
    first = compacted(site, table.name)
    assert first["before"]["final"] == [""]
    assert columns(table) == [ids]
    again = run.maintain(site.runtime, site.project, table.name, ["compact"])
    assert again["actions"] == [], "once"
    for each in (11, 9):
        table.sql(f"INSERT INTO {{t}} VALUES ({each}, 'EWR', null), ({each - 1}, 'EWR', null)")
    late = compacted(site, table.name)
    assert late["after"]["files_taken"] == 5, "small ones: what came, and the first pass's own in so small a table"
    assert table.rows() == 12


def test_a_day_that_is_over_gets_a_tag_and_expiry_takes_one_whose_age_is_over(site, of_yesterday, policy):
    policy("    expire: {older_than: 1ms, min_snapshots: 1, every: 0s}\n")
    table, today = of_yesterday, datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first, yesterday = (each.snapshot_id for each in table.site.load(table.name).metadata.snapshots)
    table.append()
    table.sql(f"ALTER TABLE {{t}} CREATE TAG old AS OF VERSION {first} RETAIN 1 MINUTES")

    done = run.maintain(site.runtime, site.project, table.name, ["tags", "expire"])["actions"]
    assert [(each["action"], each["result"]) for each in done] == [("tags", "done"), ("expire", "done")], done
    name = f"{DAILY}{today - timedelta(days=1):%Y-%m-%d}"
    refs = site.load(table.name).metadata.refs
    assert {each: at.snapshot_id for each, at in refs.items()} == {"main": table.head().snapshot_id, name: yesterday}
    assert refs[name].max_ref_age_ms == 7 * 24 * 3600 * 1000
    assert done[1]["why"] == "1 snapshot went, 2 kept, and 1 ref whose age was over"
    assert table.sql(f"SELECT count(*) FROM {{t}} VERSION AS OF '{name}'")[0][0] == 12
    assert run.maintain(site.runtime, site.project, table.name, ["tags", "expire"])["actions"] == []


def test_a_delta_table_is_laid_out_in_z_order_and_its_long_log_is_shortened(site, remote, policy):
    policy("    compact: {sort_order: 'zorder(id)', cold_after: 1ms, cooldown: 1ms}\n    metadata: {log_files: 3}\n")
    name = f"maintained.z_{uuid.uuid4().hex[:8]}"
    folder: Path = location.folder_of(site.runtime.lake, name)
    at = location.by_path(folder)
    remote.sql(f"CREATE TABLE {at} (id BIGINT, kind STRING) USING delta PARTITIONED BY (kind)").collect()
    for each in (3, 1, 7, 5):
        remote.sql(f"INSERT INTO {at} VALUES ({each}, 'a'), ({each - 1}, 'a')").collect()
    done = run.maintain(site.runtime, site.project, name, ["compact", "metadata"])["actions"]
    assert [(each["action"], each["result"]) for each in done] == [("compact", "done"), ("metadata", "done")], done
    found = state.read(folder)
    assert found is not None
    assert len(found.files) == 1
    assert found.properties["delta.logRetentionDuration"] == "interval 7 days"
    assert run.maintain(site.runtime, site.project, name, ["compact", "metadata"])["actions"] == []
    told = remote.sql(f"DESCRIBE HISTORY {at}").where("operation = 'OPTIMIZE'").collect()
    assert [each.operationParameters["zOrderBy"] for each in told] == ['["id"]']
