"""Maintenance of a table with 1,000 columns and eight levels of nesting."""

from __future__ import annotations

import json
import shutil
from typing import Any
from uuid import uuid4

import pytest
import wide

from lakeward.connectors.delta import location
from lakeward.tables import run
from lakeward.tables.maintain import maintain_table

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(1800)]

NUMBER = 1000


def test_a_wide_iceberg_table_is_compacted_and_expired(site, make_table) -> None:
    table = make_table("")
    table.sql(f"ALTER TABLE {{t}} ADD COLUMNS ({wide.sql_types(NUMBER)})")
    for n in range(4):
        table.sql(
            f"INSERT INTO {{t}} SELECT id, 'EWR', TIMESTAMP'2026-01-01 00:00:00', {wide.sql_values(NUMBER)} "
            f"FROM range({n * 10}, {n * 10 + 10}, 1, 1)"
        )
    rows = table.sql("SELECT id, c0999, deep FROM {t} ORDER BY id")
    done = maintain_table(site, table.name, ["compact", "expire"])
    results = {each["action"]: (each["result"], each["verified"]) for each in done["actions"]}
    assert results == {"compact": ("done", True), "expire": ("done", True)}, done
    assert table.sql("SELECT id, c0999, deep FROM {t} ORDER BY id") == rows
    assert len(json.dumps(run.health(site.runtime, site.project, table.name))) < 20_000, "no list of columns"


def test_a_wide_delta_table_is_compacted(remote, site) -> None:
    name = f"maintained.w_{uuid4().hex[:8]}"
    folder = location.folder_of(site.runtime.lake, name)

    def sql(text: str) -> list[Any]:
        return list(remote.sql(text.format(t=location.by_path(folder))).collect())

    try:
        sql(f"CREATE TABLE {{t}} (id BIGINT, {wide.sql_types(NUMBER)}) USING delta")
        for n in range(4):
            sql(f"INSERT INTO {{t}} SELECT id, {wide.sql_values(NUMBER)} FROM range({n * 10}, {n * 10 + 10}, 1, 1)")
        rows = sql("SELECT id, c0999, deep FROM {t} ORDER BY id")
        [done] = maintain_table(site, name, ["compact"])["actions"]
        assert (done["result"], done["verified"]) == ("done", True), done
        assert sql("SELECT id, c0999, deep FROM {t} ORDER BY id") == rows
    finally:
        shutil.rmtree(folder, ignore_errors=True)
