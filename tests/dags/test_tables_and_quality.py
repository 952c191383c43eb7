"""The table and quality Dags on a real Airflow, as far as they go without Spark."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow_service import AirflowService
from sqlalchemy import select

from lakeward.connectors.iceberg.catalog import pyiceberg_properties
from lakeward.registry.schema import check_runs
from lakeward.stack.services import CheckerPart

SUITE = """\
table: nyc.small
owner: data-platform
expectations:
  - type: expect_table_row_count_to_be_between
    kwargs: {min_value: 1}
    severity: critical
    on_fail: hold
    why: an empty table helps nobody
"""

pytestmark = pytest.mark.timeout(900)  # the first test boots Airflow


@pytest.fixture(scope="module")
def table(airflow: AirflowService) -> str:
    """A table of twelve small files, by PyIceberg."""
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("lake", **pyiceberg_properties(airflow.runtime.lake, airflow.site.catalog_pgpass))
    catalog.create_namespace_if_not_exists("nyc")
    rows = pa.table({"carrier": ["AA", "UA"], "delay": [1.0, 2.0]})
    made = catalog.create_table("nyc.small", schema=rows.schema)
    for _ in range(3):
        made.append(rows)
    return "nyc.small"


@pytest.fixture(scope="module")
def ended(airflow: AirflowService, table: str) -> dict[str, str]:
    """Runs that change nothing, started at once and ended by now: name -> run."""
    wanted: dict[str, tuple[str, dict[str, Any]]] = {
        "observe": ("tables_observe", {}),
        "dry run": ("tables_maintain", {"table": table, "actions": ["compact"], "dry_run": True}),
        "pattern": ("tables_maintain", {"table": "nyc.*", "dry_run": True}),
        "unknown partition": ("tables_maintain", {"table": table, "partitions": ["day=2013-01-01"]}),
        "orphans": ("tables_orphans", {"table": "nyc.*", "dry_run": True}),
        "no table": ("tables_orphans", {"table": "nyc.nowhere*"}),
        "nothing due": ("quality_check", {}),
        "no suite": ("quality_check", {"table": "nyc.nowhere"}),
    }
    runs = {name: airflow.trigger(dag, **params) for name, (dag, params) in wanted.items()}
    for name, (dag, _) in wanted.items():
        airflow.finished(dag, runs[name], 400)
    return runs


@pytest.fixture
def suite(airflow: AirflowService, table: str) -> Iterator[str]:
    """The table with a suite, for one test."""
    file = airflow.site.project.expectations / f"{table}.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(SUITE)
    yield table
    file.unlink()


@pytest.fixture
def unreadable(airflow: AirflowService) -> Iterator[str]:
    """A table whose metadata file is gone, for one test."""
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("lake", **pyiceberg_properties(airflow.runtime.lake, airflow.site.catalog_pgpass))
    made = catalog.create_table("nyc.gone", schema=pa.schema([("carrier", pa.string())]))
    Path(made.metadata_location.removeprefix("file://")).unlink()
    yield "nyc.gone"
    catalog.drop_table("nyc.gone")


def test_observe_reads_every_table_and_is_green(airflow: AirflowService, ended: dict[str, str], table: str) -> None:
    run = ended["observe"]
    assert airflow.state("tables_observe", run) == "success"
    told = airflow.log("tables_observe", run, "observe")
    # Beside it there may be the table of the checks' results by now.
    assert re.search(r"tables observed .*\btables=[12] files=\d+ small_files=\d+ due=\[", told)
    from lakeward.registry import maintenance

    with airflow.registry() as connection:
        assert table in maintenance.all_tables(connection)


def test_a_dry_run_of_maintenance_shows_the_plan_and_changes_nothing(
    airflow: AirflowService, ended: dict[str, str]
) -> None:
    run = ended["dry run"]
    assert airflow.state("tables_maintain", run) == "success"
    told = airflow.log("tables_maintain", run, "maintain", mapped=0)
    assert "nyc.small: 3 files, 3 small" in told
    assert "action not planned " in told and "action=compact " in told


def test_a_pattern_takes_what_is_due_and_names_the_rest(airflow: AirflowService, ended: dict[str, str]) -> None:
    run = ended["pattern"]
    assert airflow.state("tables_maintain", run) == "success"
    told = airflow.log("tables_maintain", run, "choose")
    assert "nothing is due " in told and "table=nyc.small " in told
    assert "tables chosen " in told and "tables=[]" in told
    assert airflow.mapped("tables_maintain", run, "maintain") == {}, "no process was started for it"


def test_an_unknown_partition_is_named_with_the_known_ones(airflow: AirflowService, ended: dict[str, str]) -> None:
    run = ended["unknown partition"]
    assert airflow.state("tables_maintain", run) == "failed"
    assert "nyc.small has no partition 'day=2013-01-01'" in airflow.log("tables_maintain", run, "maintain", mapped=0)


def test_a_table_that_cannot_be_read_is_red_alone(airflow: AirflowService, suite: str, unreadable: str) -> None:
    landed = len(airflow.runs("quality_check"))
    run = airflow.trigger("tables_observe")
    assert airflow.finished("tables_observe", run, 400) == "failed"
    assert airflow.mapped("tables_observe", run, "unreadable") == {unreadable: "failed"}
    # What stands in the other tables is checked all the same.
    airflow.eventually(lambda: len(airflow.runs("quality_check")) > landed, 120, "the check of the readable table")


@pytest.mark.campaign
def test_maintenance_names_what_is_missing(airflow: AirflowService) -> None:
    run = airflow.trigger("tables_maintain", table="")
    assert airflow.finished("tables_maintain", run, 400) == "failed"
    assert "Name a table" in airflow.log("tables_maintain", run, "choose")


def test_orphans_of_each_table_have_a_task_with_its_name(
    airflow: AirflowService, ended: dict[str, str], table: str
) -> None:
    run = ended["orphans"]
    assert airflow.state("tables_orphans", run) == "success"
    states = airflow.mapped("tables_orphans", run, "orphans")
    assert states[table] == "success"
    told = airflow.log("tables_orphans", run, "orphans", mapped=sorted(states).index(table))
    assert "action=orphans " in told and "why=no orphans among" in told


def test_orphans_of_no_table_are_red(airflow: AirflowService, ended: dict[str, str], table: str) -> None:
    run = ended["no table"]
    assert airflow.state("tables_orphans", run) == "failed"
    assert table in airflow.log("tables_orphans", run, "tables")


def test_an_unknown_action_is_refused_before_the_run(airflow: AirflowService) -> None:
    answer = airflow.call(
        "POST",
        "/dags/tables_maintain/dagRuns",
        json={"logical_date": None, "conf": {"table": "nyc.small", "actions": ["burn"]}},
    )
    assert answer.status_code == 400


def test_a_restore_shows_what_goes_waits_for_a_yes_and_takes_the_table_back(
    airflow: AirflowService, table: str
) -> None:
    from pyiceberg.catalog import load_catalog

    from lakeward.registry import changes

    catalog = load_catalog("lake", **pyiceberg_properties(airflow.runtime.lake, airflow.site.catalog_pgpass))
    first = catalog.load_table(table).metadata.snapshots[0].snapshot_id
    run = airflow.trigger("tables_restore", table=table, to=str(first), comment="bad rows")

    def asked() -> list[dict]:
        return airflow.call("GET", f"/dags/tables_restore/dagRuns/{run}/hitlDetails").json()["hitl_details"]

    airflow.eventually(asked, 400, "the question")
    # Airflow fails a task whose answer comes before its scheduler has seen the question's process end.
    seen = re.compile(f"Received executor event .*run_id='{re.escape(run)}'")
    scheduler = airflow.home.root / "logs" / "airflow-scheduler.log"
    airflow.eventually(lambda: seen.search(scheduler.read_text()), 400, "the question's process to be seen ended")
    assert "2 commits, 6 to 2 rows" in asked()[0]["body"]
    assert catalog.load_table(table).metadata.current_snapshot_id != first
    path = f"/dags/tables_restore/dagRuns/{run}/taskInstances/restore/-1/hitlDetails"
    said = airflow.call("PATCH", path, json={"chosen_options": ["Approve"], "params_input": {}})
    assert said.status_code == 200, said.text
    assert airflow.finished("tables_restore", run, 400) == "success"
    assert "is at snapshot" in airflow.log("tables_restore", run, "restore")
    back = catalog.load_table(table)
    assert back.metadata.current_snapshot_id == first
    with airflow.registry() as connection:
        newest = changes.newest(connection, "table", table)[0]
    assert (newest.change, newest.comment, newest.detail["approved_by"]) == ("restore", "bad rows", "admin")
    for _ in range(2):
        back.append(back.scan().to_arrow().slice(0, 2))  # as it was, for the other tests


def test_a_check_with_nothing_due_is_green_and_says_so(airflow: AirflowService, ended: dict[str, str]) -> None:
    run = ended["nothing due"]
    assert airflow.state("quality_check", run) == "success"
    told = airflow.log("quality_check", run, "check")
    assert "nothing is due" in told
    assert "no checker is up" in told and "lakeward stack up --only checker" in told
    assert airflow.mapped("quality_check", run, "verdict") == {}, "no process was started for it"


@pytest.fixture
def checker(airflow: AirflowService) -> Iterator[CheckerPart]:
    """The checker of the stack, up."""
    part, since = CheckerPart(airflow.site), datetime.now(UTC)
    program = part.program()
    with part.log.open("ab") as sink:
        process = subprocess.Popen(
            program.command, env=program.environment, cwd="/", stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
    try:
        airflow.eventually(lambda: part.healthy(since), 120, "the checker to be up")
        yield part
        process.terminate()
        assert process.wait(60) == 0
        assert not part.healthy(since)
    finally:
        process.kill()
        process.wait()


def test_a_check_is_worked_on_by_the_checker_where_one_is_up(airflow: AirflowService, checker: CheckerPart) -> None:
    run = airflow.trigger("quality_check")
    assert airflow.finished("quality_check", run, 400) == "success"
    assert "process of its own" not in airflow.log("quality_check", run, "check")
    with airflow.registry() as connection:
        newest = connection.execute(select(check_runs).order_by(check_runs.c.id.desc()).limit(1)).one()
    assert (newest.state, newest.answer) == ("done", {"results": []})
    assert newest.owner.startswith("checker ")


def test_what_lands_while_a_check_waits_starts_no_second_one(airflow: AirflowService, suite: str) -> None:
    def paused(value: bool) -> None:
        assert airflow.call("PATCH", "/dags/quality_check", json={"is_paused": value}).status_code == 200

    paused(True)  # a run that somebody triggers stays queued
    try:
        waiting = airflow.trigger("quality_check", table=f"{suite[:-1]}*", dry_run=True)
        look = airflow.trigger("tables_observe")
        assert airflow.finished("tables_observe", look, 400) == "success"
        told = airflow.log("tables_observe", look, "observe")
        assert f"tables=['{suite}']" in told
        assert "unchecked rows found" in told and "check already runs, newer rows wait" in told
        events = airflow.call("GET", "/assets/events", params={"source_run_id": look}).json()["asset_events"]
        assert [each["name"] for each in events if each["name"] == "lakeward_tables_landed"] == []
    finally:
        paused(False)
    assert airflow.finished("quality_check", waiting, 400) == "success"
    told = airflow.log("quality_check", waiting, "check")
    assert "table due " in told and f"table={suite} " in told
    assert "1 checks" in told
    assert airflow.mapped("quality_check", waiting, "verdict") == {}, "a dry run checks nothing"


def test_a_check_of_a_table_without_a_suite_is_red_and_says_why(airflow: AirflowService, ended: dict[str, str]) -> None:
    run = ended["no suite"]
    assert airflow.state("quality_check", run) == "failed"
    assert "nyc.nowhere" in airflow.log("quality_check", run, "check")
