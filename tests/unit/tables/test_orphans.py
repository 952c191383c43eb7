"""Orphans of real tables on a disk: PyIceberg, a real registry, no engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import time
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable
from shared_files import deployment

from lakeward.platform.errors import Refused
from lakeward.platform.runtime import Project, Runtime
from lakeward.registry import leases, maintenance
from lakeward.tables import orphans, run
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.guard.actor import SCOPE
from lakeward.tables.observe.listing import TRASH_FOLDER
from lakeward.telemetry import failpoints

ROWS = pa.table({"id": [1, 2, 3]})
POLICY = """
policies:
  - {match: lying.*, orphans: {max_share: 0.9}}
"""
MONTH_S = 30 * 86400


@pytest.fixture(scope="module")
def where(postgres, tmp_path_factory) -> Iterator[Runtime]:
    with deployment(postgres, tmp_path_factory.mktemp("orphans")) as made:
        yield made


@dataclass
class Lying:
    """A table and what lies below its location."""

    site: MaintenanceContext
    name: str

    @property
    def folder(self) -> Path:
        return Path(self.load().metadata.location.removeprefix("file://"))

    def load(self):
        return self.site.load(self.name)

    def sweep(self, **more):
        [entry] = orphans.remove_orphans(self.site, self.name, **more)["actions"]
        return entry

    def junk(self, path: str, age_s: float = MONTH_S) -> Path:
        """A file nothing names."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(ROWS, file)
        os.utime(file, (time() - age_s,) * 2)
        return file

    def age(self) -> None:
        """Let everything below the location be a month old."""
        for file in self.folder.rglob("*"):
            os.utime(file, (time() - MONTH_S,) * 2)

    def names(self) -> set[str]:
        below = self.folder
        return {str(each.relative_to(below)) for each in below.rglob("*") if each.is_file()}

    def rows(self) -> int:
        return len(self.load().scan().to_arrow())


@pytest.fixture
def make(where: Runtime, tmp_path: Path) -> Iterator[Callable[..., Lying]]:
    """Makes tables of two commits, a month old; dropped at the end."""
    project = Project(tmp_path)
    project.tables_file.parent.mkdir()
    project.tables_file.write_text(POLICY)
    site = MaintenanceContext.of(where, project)
    site.catalog.create_namespace_if_not_exists("lying")
    made: list[str] = []

    def make_one(location: str | None = None, **properties: str) -> Lying:
        name = f"lying.t_{uuid4().hex[:8]}"
        table = site.catalog.create_table(name, schema=ROWS.schema, location=location, properties=properties)
        made.append(name)
        table.append(ROWS)
        table.append(ROWS)
        lying = Lying(site, name)
        lying.age()
        return lying

    yield make_one
    for name in made:
        if site.catalog.table_exists(name):
            site.catalog.drop_table(name)
    assert isinstance(site.catalog, SqlCatalog)
    site.catalog.engine.dispose()


@pytest.fixture(autouse=True)
def no_hooks() -> Iterator[None]:
    yield
    failpoints._hooks.clear()


def last(table: Lying) -> dict:
    with table.site.registry() as connection:
        return maintenance.newest_actions(connection, table.name, 1)[0]


def test_the_first_run_shows_the_second_sets_aside_a_later_one_deletes(make) -> None:
    table = make()
    needed = table.names()
    table.junk("data/crashed.parquet")
    table.junk("metadata/lost-race.metadata.json")
    table.junk("data/writing.parquet", age_s=60)
    table.junk("data/_temporary/0/part.parquet")
    first = table.sweep()
    assert (first["result"], first["after"]["orphan_files"], first["after"]["young_files"]) == ("skipped", 2, 1)
    assert first["after"]["sample"] == ["data/crashed.parquet", "metadata/lost-race.metadata.json"]
    assert "first run with these thresholds" in first["why"]
    everything = table.names()

    second = table.sweep()
    assert (second["result"], second["verified"], second["after"]["taken_files"]) == ("done", True, 2), second
    left = table.names()
    aside = {each for each in left if each.startswith(TRASH_FOLDER)}
    assert {each.split("/", 2)[2] for each in aside} == {"data/crashed.parquet", "metadata/lost-race.metadata.json"}
    assert left - aside == everything - {"data/crashed.parquet", "metadata/lost-race.metadata.json"}
    assert needed <= left
    assert table.rows() == 6
    assert (last(table)["result"], last(table)["after"]["taken_files"]) == ("done", 2)

    assert orphans.remove_orphans(table.site, table.name)["actions"] == [], "a week has not gone by"
    [run_] = (table.folder / TRASH_FOLDER).iterdir()
    run_.rename(run_.with_name("20200101T000000Z"))
    with table.site.registry() as connection:
        connection.exec_driver_sql("UPDATE actions SET started_at = started_at - interval '8 days'")
    third = table.sweep()
    assert (third["result"], third["after"]["deleted_files"]) == ("done", 2), third
    assert table.names() == left - aside


def test_a_dry_run_takes_nothing_however_often(make) -> None:
    table = make()
    table.junk("data/crashed.parquet")
    before = table.names()
    for _ in range(2):
        done = run.maintain(table.site.runtime, table.site.project, table.name, ["orphans"], dry_run=True)
        assert [each["result"] for each in done["actions"]] == ["skipped"]
        assert done["plan"]["actions"][0]["files"] == 1
    assert table.names() == before


def test_what_a_branch_a_tag_or_only_history_holds_stays(make) -> None:
    table = make()
    first, second = table.load().metadata.snapshots
    with table.load().manage_snapshots() as change:
        change.create_tag(first.snapshot_id, "month").create_branch(second.snapshot_id, "side")
    table.load().delete()
    table.load().append(ROWS)
    table.age()
    before = table.names()
    assert table.sweep()["after"]["orphan_files"] == 0
    assert table.names() == before
    assert len(table.load().scan(snapshot_id=first.snapshot_id).to_arrow()) == 3


def test_a_file_committed_while_the_location_was_listed_stays(make) -> None:
    table = make()
    late = table.junk("data/late.parquet")
    table.sweep()
    failpoints._hooks["orphans-listed"] = lambda: table.load().add_files([str(late)])
    done = table.sweep()
    assert (done["result"], done["after"]["orphan_files"]) == ("done", 0), done
    assert table.rows() == 9


def test_a_file_committed_between_two_thousands_stays(make, monkeypatch) -> None:
    monkeypatch.setattr(orphans, "AT_ONCE", 1)
    table = make()
    table.junk("data/a.parquet")
    late = table.junk("data/b.parquet")
    table.sweep()

    def commit() -> None:
        failpoints._hooks.clear()
        table.load().add_files([str(late)])

    failpoints._hooks["orphans-file"] = commit
    done = table.sweep()
    assert (done["result"], done["after"]["taken_files"]) == ("done", 1), done
    assert table.rows() == 9


def test_a_file_committed_after_it_was_taken_is_put_back_and_a_person_is_warned(make) -> None:
    table = make()
    table.junk("data/a.parquet")
    table.junk("data/b.parquet")
    table.sweep()
    names = iter(["a", "b"])

    def commit() -> None:
        if next(names) == "b":  # `a` went already; a writer that had looked at it before commits it now
            failpoints._hooks.clear()
            source = next(table.folder.glob(f"{TRASH_FOLDER}/*/data/a.parquet"))
            os.link(source, table.folder / "data/a.parquet")
            table.load().add_files([str(table.folder / "data/a.parquet")])
            (table.folder / "data/a.parquet").unlink()

    failpoints._hooks["orphans-file"] = commit
    done = table.sweep()
    assert (done["result"], "restored: data/a.parquet" in done["why"]) == ("failed", True), done
    assert table.rows() == 9
    with table.site.registry() as connection:
        assert "restored" in (maintenance.all_tables(connection)[table.name].expiry_hold or "")
    refused = table.sweep()
    assert (refused["result"], "expiry is held" in refused["why"]) == ("refused", True)


def test_a_file_that_somebody_else_removed_keeps_no_other_from_its_place(make) -> None:
    table = make()
    for name in ("a", "b", "c"):
        table.junk(f"data/{name}.parquet")
    table.sweep()
    names = iter(["a", "b", "c"])

    def commit() -> None:
        if next(names) == "c":  # a writer commits all three, and another clean-up has removed `a`
            failpoints._hooks.clear()
            for each in ("a", "b"):
                source = next(table.folder.glob(f"{TRASH_FOLDER}/*/data/{each}.parquet"))
                os.link(source, table.folder / f"data/{each}.parquet")
            table.load().add_files([str(table.folder / f"data/{each}.parquet") for each in ("a", "b", "c")])
            for file in [*table.folder.rglob("a.parquet"), table.folder / "data/b.parquet"]:
                file.unlink()

    failpoints._hooks["orphans-file"] = commit
    done = table.sweep()
    words = "3 files became referenced during the run; restored: data/b.parquet, data/c.parquet"
    assert (done["result"], done["why"]) == ("failed", f"{words}; removed by somebody else: data/a.parquet"), done
    assert {"data/b.parquet", "data/c.parquet"} <= table.names()


def test_a_needed_file_an_earlier_run_set_aside_comes_back(make) -> None:
    table = make()
    table.junk("data/crashed.parquet")
    table.sweep()
    path = next(each for each in table.names() if each.endswith(".parquet") and "crashed" not in each)
    away = table.folder / TRASH_FOLDER / "20260201T000000Z" / path
    away.parent.mkdir(parents=True)
    (table.folder / path).rename(away)
    done = table.sweep()
    assert (done["result"], "restored from the trash folder" in done["why"]) == ("failed", True), done
    assert table.rows() == 6
    assert "data/crashed.parquet" in table.names()


def test_a_needed_file_that_is_nowhere_stops_the_run(make) -> None:
    table = make()
    table.junk("data/crashed.parquet")
    table.sweep()
    path = next(each for each in table.names() if each.endswith(".parquet") and "crashed" not in each)
    (table.folder / path).unlink()
    done = table.sweep()
    assert (done["result"], path in done["why"]) == ("refused", True), done
    assert "data/crashed.parquet" in table.names()


def test_another_table_of_the_catalog_below_the_location_stops_the_run(make) -> None:
    table = make()
    table.junk("data/crashed.parquet")
    inner = make(location=str(table.folder / "inner"))
    done = table.sweep()
    assert (done["result"], inner.name in done["why"]) == ("refused", True), done
    done = inner.sweep()
    assert (done["result"], table.name in done["why"]) == ("refused", True), done
    other = make()
    apart = make(**{"write.data.path": str(other.folder / "elsewhere")})
    done = other.sweep()
    assert (done["result"], apart.name in done["why"]) == ("refused", True), done


@pytest.mark.parametrize("what", ["gc", "checkpoint", "hold"])
def test_what_may_belong_to_others_is_not_touched(make, what) -> None:
    table = make(**({"gc.enabled": "no"} if what == "gc" else {}))
    table.junk("data/crashed.parquet")
    if what == "checkpoint":
        for name in ("offsets", "commits"):
            table.junk(f"somebodys/{name}/0")
    if what == "hold":
        with table.site.registry() as connection:
            maintenance.register(connection, table.name, format="iceberg", location=None, table_class=None)
            maintenance.hold_expiry(connection, table.name, "row count differs")
    before = table.names()
    done = table.sweep()
    words = {"gc": "gc.enabled is false", "checkpoint": "a checkpoint at somebodys", "hold": "row count differs"}
    assert (done["result"], words[what] in done["why"]) == ("refused", True), done
    assert table.names() == before


@pytest.mark.parametrize("name", ["v7.metadata.json", "7.metadata.json"])
def test_what_readers_by_a_version_hint_need_stays(make, name: str) -> None:
    table = make()
    older = table.load().metadata_location
    table.load().append(ROWS)
    newest = Path(table.load().metadata_location.removeprefix("file://"))
    table.site.catalog.drop_table(table.name)
    table.site.catalog.register_table(table.name, older)
    hinted = newest.with_name(name)
    newest.rename(hinted)
    (newest.parent / "version-hint.text").write_text("7\n")
    table.junk("data/left.parquet")
    table.age()
    table.sweep()
    done = table.sweep()
    assert done["why"].startswith("1 orphan file of "), done
    assert StaticTable.from_metadata(f"file://{hinted}").scan().to_arrow().num_rows == 9
    hinted.write_text("{")
    failed = table.sweep(dry_run=True)
    assert failed["result"] == "failed" and "version-hint.text leads readers" in failed["why"], failed


def test_files_that_somebody_else_removes_meanwhile_are_reported(make) -> None:
    table = make()
    junk = [table.junk(f"data/{name}.parquet") for name in ("a", "b")]
    table.sweep()

    def remove() -> None:
        failpoints._hooks.clear()
        junk[0].unlink()

    failpoints._hooks["orphans-file"] = remove
    done = table.sweep()
    assert done["why"].endswith(" for 7 days; 1 file removed by somebody else meanwhile"), done


def test_two_sweeps_of_one_table_are_one_too_many(make) -> None:
    table = make()
    with table.site.registry() as connection:
        leases.take(connection, SCOPE, table.name, "t", "somebody pid 7", orphans.TTL)
    with pytest.raises(Refused, match="Another run maintains"):
        table.sweep()


def test_a_table_replaced_while_it_was_listed_is_left_alone(make) -> None:
    table = make()
    table.junk("data/crashed.parquet")
    location = table.load().metadata.location
    table.sweep()

    def replace() -> None:
        table.site.catalog.drop_table(table.name)
        table.site.catalog.create_table(table.name, schema=ROWS.schema, location=location)

    failpoints._hooks["orphans-listed"] = replace
    before = {each for each in table.names() if each.startswith("data")}
    done = table.sweep()
    assert (done["result"], "was replaced" in done["why"]) == ("failed", True), done
    assert before <= table.names()


def test_killed_in_the_middle_the_next_run_goes_on(make, tmp_path) -> None:
    table = make()
    wanted = [table.junk(f"data/{name}.parquet") for name in "abc"]
    table.sweep()
    runtime = tmp_path / "runtime.json"
    runtime.write_text(table.site.runtime.model_dump_json())
    code = (
        "import sys; from pathlib import Path; from lakeward.platform.runtime import Project, Runtime; "
        "from lakeward.tables import orphans; from lakeward.tables.context import MaintenanceContext; "
        "site = MaintenanceContext.of(Runtime.load(Path(sys.argv[1])), Project(Path(sys.argv[2]))); "
        "orphans.remove_orphans(site, sys.argv[3])"
    )
    dies = {"LAKEWARD_FAILPOINT": "orphans-file:2", "LAKEWARD_FAILPOINTS_ALLOWED": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(runtime), str(table.site.project.root), table.name],
        env={**os.environ, **dies}, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    assert [file.exists() for file in wanted] == [False, True, True]
    assert table.rows() == 6
    assert last(table)["result"] is None
    with table.site.registry() as connection:
        held = leases.current(connection, SCOPE, [table.name])[table.name]
        leases.release(connection, SCOPE, [table.name], held.token)
    again = table.sweep()
    assert (again["result"], again["after"]["taken_files"]) == ("done", 2), again
    assert table.rows() == 6
    with table.site.registry() as connection:
        dead = maintenance.newest_actions(connection, table.name, 2)[1]
    assert (dead["result"], "its process died" in dead["why"]) == ("failed", True)


def test_time_is_up_and_the_rest_goes_with_the_next_run(make, monkeypatch) -> None:
    monkeypatch.setattr(orphans, "AT_ONCE", 1)
    table = make()
    table.junk("data/a.parquet")
    table.junk("data/b.parquet")
    table.sweep()
    clock = iter([0.0] * 40)
    failpoints._hooks["orphans-file"] = lambda: monkeypatch.setattr(orphans, "monotonic", lambda: 1e12)
    monkeypatch.setattr(orphans, "monotonic", lambda: next(clock, 0.0))
    done = table.sweep()
    assert (done["result"], "1 orphan file" in done["why"], "of 2" in done["why"]) == ("timed_out", True, True), done
    monkeypatch.undo()
    failpoints._hooks.clear()
    assert table.sweep()["after"]["taken_files"] == 1
