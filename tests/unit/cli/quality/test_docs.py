"""`lakeward quality docs`: pages of what the registry holds, for the tables somebody names or all that were checked."""

from __future__ import annotations

import os
import time
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from lakeward.quality.results.data_docs.pages import Pages
from lakeward.registry import verifications
from lakeward.registry.schema import verifications as table
from lakeward.supervision.retention import purge_if_due

CHECK = {
    "check": "c", "expectation": "expect_column_values_to_not_be_null", "severity": "critical", "state": "fail",
    "unexpected_count": 2, "sample": [{"carrier": None, "flight": 7}],
    "observed": {"value": None, "rows": 10, "kwargs": {"column": "carrier"}, "scope": "increment"},
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def great_expectations() -> None:
    """Its import, of modules Python deprecates, is no matter of these tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Pages()


@pytest.fixture
def checked(site: Any) -> Any:
    """Three runs on one table and one on another."""
    runs = [("a", "nyc.flights", 3), ("b", "nyc.flights", 2), ("c", "nyc.flights", 1), ("d", "nyc.weather", 1)]
    with site.registry() as connection:
        for run, name, hours in runs:
            row = {"run": run, "table": name, "suite": "s", "scope": "increment", "verdict": "hold", "to_snapshot": 4}
            verifications.record(connection, {**row, "at": datetime.now(UTC) - timedelta(hours=hours)}, [CHECK])
    yield site
    with site.registry() as connection:
        connection.execute(delete(table).where(table.c.run.in_([run for run, *_ in runs])))


def test_all_tables_go_into_the_home_and_so_many_runs_of_each(checked: Any) -> None:
    done = checked.lakeward("quality", "docs", "-n", "2", "-o", "json")
    assert done.code == 0, done.err
    assert done.json["tables"] == {"nyc.flights": 2, "nyc.weather": 1}
    index = Path(done.json["index"])
    assert index == checked.runtime.data_docs / "index.html"
    assert index.read_text().count("expect_column_values_to_not_be_null(carrier), critical, 2 rows") == 3
    assert len(list(index.parent.rglob("nyc.*.html"))) == 3


def test_named_tables_go_where_somebody_says(checked: Any, tmp_path: Path) -> None:
    done = checked.lakeward("quality", "docs", "nyc.weather", "--to", str(tmp_path / "here"))
    assert done.code == 0, done.err
    assert "1 run of 1 table" in done.out
    assert "nyc.flights" not in (tmp_path / "here" / "index.html").read_text()
    refused = checked.lakeward("quality", "docs", "nyc.none", "nyc.weather", "--to", str(tmp_path / "there"))
    assert refused.code == 1 and "no check run of nyc.none is recorded" in refused.err
    assert "lakeward quality run nyc.none" in refused.err
    assert not (tmp_path / "there").exists()


def test_the_purge_takes_pages_past_the_keep_time_of_examples(checked: Any) -> None:
    assert checked.lakeward("quality", "docs").code == 0
    folder = checked.runtime.data_docs
    purge_if_due(checked.runtime, patience=0)
    assert folder.exists()
    old = time.time() - 31 * 86400
    os.utime(folder / ".lakeward-data-docs", (old, old))
    purge_if_due(checked.runtime, patience=0)
    assert not folder.exists()
