"""Compaction and expiry by the real engine on tables that share files; VACUUM of the base of a shallow clone."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import delta_log
import pyarrow as pa
import pytest

from lakeward.connectors.delta import location
from lakeward.platform.errors import Refused
from lakeward.tables import run
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.plan import ORDER
from lakeward.tables.plan.metadata import DELETE


def test_the_files_of_a_copy_stay_the_other_tables(site: MaintenanceContext, make_table: Callable[..., Any]) -> None:
    raw, copy = make_table(""), make_table("")
    raw.append(times=4)
    files = [task.file.file_path for task in site.load(raw.name).scan().plan_files()]
    site.load(copy.name).add_files(files)
    done = run.maintain(site.runtime, site.project, copy.name, ORDER)
    assert [each["result"] for each in done["actions"] if each["action"] == "compact"] == ["done"]
    assert (copy.files(), len(files)) == (1, 4)
    again = run.maintain(site.runtime, site.project, copy.name, ["expire"])
    [why] = [each["why"] for each in again["plan"]["not_planned"] if each["action"] == "expire"]
    assert "4 files outside of the table's location" in why and "outside_files: keep" in why
    assert all(Path(file.removeprefix("file:")).exists() for file in files)
    assert raw.rows() == copy.rows() == 24

    file = site.project.tables_file
    file.write_text(file.read_text().replace("every: 0s", "every: 0s, outside_files: delete"))
    [expired] = run.maintain(site.runtime, site.project, copy.name, ["expire"])["actions"]
    assert (expired["result"], expired["after"]["spared_files"]) == ("done", 4)
    run.maintain(site.runtime, site.project, raw.name, ORDER)
    assert raw.rows() == copy.rows() == 24 and raw.files() == 1


def test_a_copy_by_register_table_outlives_the_commits_of_the_original(
    site: MaintenanceContext, make_table: Callable[..., Any]
) -> None:
    raw = make_table("", **{DELETE: "true", "write.metadata.previous-versions-max": "3"})
    raw.append()
    copy = f"{raw.name}_copy"
    site.catalog.register_table(copy, site.load(raw.name).metadata_location)
    raw.append()
    run.observe(site.runtime, site.project)
    [off] = run.maintain(site.runtime, site.project, raw.name)["actions"]
    assert (off["action"], off["result"]) == ("metadata", "done") and off["why"].endswith(f"for = {copy}"), off
    raw.sql("INSERT INTO {t} SELECT * FROM {t} LIMIT 1")
    raw.append(times=3)
    assert site.load(copy).scan().to_arrow().num_rows == 6
    [on] = run.maintain(site.runtime, site.project, raw.name)["actions"]
    assert (on["result"], site.load(raw.name).properties[DELETE]) == ("done", "true"), on
    raw.append(times=4)
    assert site.load(copy).scan().to_arrow().num_rows == 6
    with pytest.raises(Refused, match="Cannot maintain"):
        run.maintain(site.runtime, site.project, raw.name)
    site.catalog.drop_table(copy)
    assert {each["result"] for each in run.maintain(site.runtime, site.project, raw.name)["actions"]} == {"done"}


def test_a_vacuum_leaves_the_files_of_a_clone(site: MaintenanceContext, remote: Any) -> None:
    name = f"maintained.d_{uuid.uuid4().hex[:8]}"
    base = location.folder_of(site.runtime.lake, name)
    clone = base.with_name(f"{base.name}_clone")
    columns = pa.schema({"id": pa.int64()})
    delta_log.create(base, columns)
    for each in range(3):
        assert delta_log.append(base, pa.table({"id": [each]}, schema=columns))
    remote.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{base}`").collect()
    remote.sql(f"OPTIMIZE delta.`{base}`").collect()
    refused = run.maintain(site.runtime, site.project, name, ["expire"])
    assert refused["actions"] == []
    [why] = [each["why"] for each in refused["plan"]["not_planned"] if each["action"] == "expire"]
    assert "VACUUM would delete 3 files of other tables" in why and f"{name}_clone" in why
    assert remote.sql(f"SELECT count(*) FROM delta.`{clone}`").collect()[0][0] == 3
    shutil.rmtree(clone)
    [done] = run.maintain(site.runtime, site.project, name, ["expire"])["actions"]
    assert done["result"] == "done" and len(list(base.glob("*.parquet"))) == 1
    shutil.rmtree(base)
