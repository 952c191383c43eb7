"""Files have owners: maintenance of a table deletes no file that another table names or that lies elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import delta_log
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from shared_files import SharedLake, deployment, entry, plain_folder, rows

from lakeward.connectors.delta import location as delta_location
from lakeward.platform.runtime import Runtime
from lakeward.tables import orphans, run
from lakeward.tables.expiry import TRIES
from lakeward.tables.guard import owners
from lakeward.tables.guard.owners import FILE, Owners, inside, key
from lakeward.telemetry import failpoints


@pytest.fixture(scope="module")
def where(postgres: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with deployment(postgres, tmp_path_factory.mktemp("owners")) as runtime:
        yield runtime


def refusal(document: dict[str, Any]) -> str:
    assert document["actions"] == []
    [only] = [each["why"] for each in document["plan"]["not_planned"] if each["action"] == "expire"]
    return only


def copy_of(lake: SharedLake, raw: str) -> str:
    """A table made of another one's files, and then rewritten into files of its own."""
    copy = lake.table()
    lake.take_in(copy, lake.live(raw))
    lake.rewrite(copy)
    return copy


def test_expiry_of_a_copy_is_refused_with_the_files_and_what_to_set(lake: SharedLake) -> None:
    raw = lake.table(rows(1), rows(2), rows(3), rows(4))
    copy = copy_of(lake, raw)
    why = refusal(lake.expire(copy))
    assert "4 files outside of the table's location" in why and f"it lies below the location of table {raw}" in why
    assert "outside_files: keep" in why
    assert lake.ids(raw) == lake.ids(copy) == [1, 2, 3, 4]
    assert run.why(lake.runtime, lake.project, copy)["plan"]["actions"] == []
    [health] = run.health(lake.runtime, lake.project, copy)["tables"]
    assert health["advice"].startswith("refused: 4 files outside")


@pytest.mark.parametrize("outside", ["keep", "delete"])
def test_files_of_another_table_stay_whatever_the_policy(lake: SharedLake, outside: str) -> None:
    raw = lake.table(rows(1), rows(2))
    copy = copy_of(lake, raw)
    lake.policy(outside)
    done = entry(lake.expire(copy))
    assert (done["result"], done["verified"], done["after"]["spared_files"]) == ("done", True, 2)
    assert f"2 (it lies below the location of table {raw})" in done["why"]
    assert done["after"]["returned"][0]["deleted_data_files_count"] == 0
    assert lake.ids(raw) == lake.ids(copy) == [1, 2]
    assert len(lake.load(copy).metadata.snapshots) == 1


def test_files_of_a_plain_folder_go_only_by_policy(lake: SharedLake, tmp_path: Path) -> None:
    files = plain_folder(tmp_path / "landing", 1, 2, 3)
    table = lake.table()
    lake.take_in(table, files)
    lake.rewrite(table)
    why = refusal(lake.expire(table))
    assert "3 files outside" in why and files[0] in why
    lake.policy("keep")
    done = entry(lake.expire(table))
    assert (done["result"], done["after"]["spared_files"]) == ("done", 3)
    assert all(Path(file).exists() for file in files)

    other = lake.table()
    lake.take_in(other, files)
    lake.rewrite(other)
    lake.policy("delete")
    guest = lake.table()
    lake.take_in(guest, files[:1])
    done = entry(lake.expire(other))
    assert [Path(file).exists() for file in files] == [True, False, False], "one of them is another table's"
    assert done["after"]["spared"] == {f"table {guest} names it": 1}
    assert lake.ids(guest) == [1] and lake.ids(other) == [1, 2, 3]


@pytest.mark.parametrize("space", ["shared", "shared.deep.below"])
def test_expiry_and_orphans_of_the_host_leave_what_a_guest_names(lake: SharedLake, space: str) -> None:
    host = lake.table(rows(1), rows(2))
    guest = lake.table(space=space)
    lake.take_in(guest, lake.live(host))
    lake.rewrite(host)
    done = entry(lake.expire(host))
    assert done["result"] == "done" and done["after"]["spared"] == {f"table {guest} names it": 2}
    assert done["after"]["returned"][0]["deleted_manifest_files_count"] > 0
    assert lake.ids(guest) == [1, 2]
    swept = entry(lake.orphans(host))
    assert swept["after"]["spared_files"] == 2 and f"2 files spared, which {guest} names" in swept["why"]
    assert lake.ids(guest) == lake.ids(host) == [1, 2]


def test_a_guest_with_a_dot_in_its_name_is_asked(lake: SharedLake) -> None:
    host = lake.table(rows(1))
    guest = lake.site.catalog.create_table(("shared", "odd.name-1"), schema=rows(1).schema)
    guest.add_files(lake.live(host))
    lake.rewrite(host)
    done = entry(lake.expire(host))
    assert done["after"]["spared"] == {"table shared.`odd.name-1` names it": 1}
    assert len(guest.scan().to_arrow()) == 1
    lake.site.catalog.drop_table(("shared", "odd.name-1"))


def test_a_host_expired_by_others_keeps_the_guests_files_as_orphans(lake: SharedLake) -> None:
    host = lake.table(rows(1), rows(2))
    guest = lake.table()
    lake.take_in(guest, lake.live(host))
    lake.rewrite(host)
    lake.load(host).maintenance.expire_snapshots().older_than(datetime(2999, 1, 1)).commit()
    lake.orphans(host)
    lake.orphans(host)
    assert lake.ids(guest) == [1, 2]


def test_a_file_in_the_trash_that_a_guest_names_is_restored(lake: SharedLake) -> None:
    host, guest = lake.table(rows(1)), lake.table()
    [file] = lake.live(host)
    lake.take_in(guest, [file])
    lake.rewrite(host)
    lake.expire(host)
    moved = lake.folder(host) / ".lakeward_orphans" / "20260101T000000Z" / "data" / Path(file).name
    moved.parent.mkdir(parents=True)
    Path(file).rename(moved)
    done = entry(lake.orphans(host))
    assert done["result"] == "failed" and "restored from the trash folder" in done["why"]
    assert lake.ids(guest) == [1]


def test_history_is_distinguished_from_a_replaced_table_after_the_expiry(lake: SharedLake) -> None:
    table = lake.table(rows(1), rows(2), rows(3))
    before = lake.load(table).metadata
    assert entry(lake.expire(table))["result"] == "done"
    after = lake.load(table).metadata
    [left] = after.snapshots
    assert left.parent_snapshot_id == before.current_snapshot().parent_snapshot_id, "the walk ends as expired"
    assert [each.snapshot_id for each in after.snapshot_log] == [left.snapshot_id]
    assert lake.ids(table) == [1, 2, 3]
    assert len(list(lake.folder(table).rglob("snap-*.avro"))) == 1


def test_a_commit_in_between_is_kept(lake: SharedLake) -> None:
    table = lake.table(rows(1), rows(2))
    lake.rewrite(table)
    again = iter([rows(3), rows(4)])

    def commit() -> None:
        for each in again:
            lake.load(table).append(each)

    with failpoints.on("expire-read", commit):
        done = entry(lake.expire(table))
    assert done["result"] == "done"
    assert lake.ids(table) == [1, 2, 3, 4]


def test_a_tag_in_between_keeps_its_snapshot_and_files(lake: SharedLake) -> None:
    table = lake.table(rows(1))
    lake.rewrite(table)
    lake.rewrite(table)
    first = lake.load(table).metadata.snapshots[0].snapshot_id

    def tag() -> None:
        lake.load(table).manage_snapshots().create_tag(first, "kept").commit()

    with failpoints.on("expire-read", tag):
        assert entry(lake.expire(table))["result"] == "done"
    assert len(lake.load(table).scan(snapshot_id=first).to_arrow()) == 1


def test_nothing_is_expired_after_main_was_moved_back(lake: SharedLake) -> None:
    table = lake.table(rows(1), rows(2), rows(3))
    older = lake.load(table).metadata.snapshots[1].snapshot_id

    def move_back() -> None:
        lake.load(table).manage_snapshots().set_current_snapshot(older).commit()

    with failpoints.on("expire-read", move_back):
        done = entry(lake.expire(table))
    assert done["result"] == "failed" and "main was moved back" in done["why"]
    assert len(lake.load(table).metadata.snapshots) == 3


def test_a_writer_that_always_wins_ends_the_expiry_without_a_change(lake: SharedLake, monkeypatch: Any) -> None:
    from pyiceberg.exceptions import CommitFailedException

    from lakeward.tables import expiry

    tried = []

    def lose(*_: Any) -> None:
        tried.append(1)
        raise CommitFailedException("another process")

    monkeypatch.setattr(expiry, "expire_snapshots", lose)
    monkeypatch.setattr(expiry, "_PAUSE_S", 0)
    table = lake.table(rows(1), rows(2))
    done = entry(lake.expire(table))
    assert (done["result"], len(tried)) == ("failed", TRIES) and "other commits came first" in done["why"]
    assert len(lake.load(table).metadata.snapshots) == 2


def test_killed_after_the_commit_the_orphans_are_removed(lake: SharedLake) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    table = lake.table(rows(1), rows(2))
    lake.rewrite(table)
    with failpoints.on("expire-committed", die), pytest.raises(KeyboardInterrupt):
        lake.expire(table)
    done = entry(lake.orphans(table))
    assert done["result"] == "done" and done["after"]["taken_files"] > 2
    assert lake.ids(table) == [1, 2]


def test_a_table_that_cannot_be_read_keeps_files_not_the_history(lake: SharedLake) -> None:
    table, broken = lake.table(rows(1)), lake.table(rows(2))
    lake.rewrite(table)
    file = Path(lake.load(broken).metadata_location.removeprefix("file://"))
    text = file.read_text()
    file.write_text(text[: len(text) // 2])
    done = entry(lake.expire(table))
    assert done["result"] == "done" and f"table {broken} cannot be read" in done["why"]
    assert done["after"]["returned"][0]["deleted_data_files_count"] == 0
    file.write_text(text)
    assert entry(lake.orphans(table))["after"]["taken_files"] > 1


@pytest.mark.parametrize(("log", "deleted"), [("100", 1), ("1", 0)], ids=["in the metadata log", "left it"])
def test_readers_by_a_version_hint_keep_what_they_read(lake: SharedLake, log: str, deleted: int) -> None:
    """Of a version in the metadata log its current snapshot, of one that the catalog does not know its history too."""
    table = lake.table(rows(1), **{"write.metadata.previous-versions-max": log})
    lake.rewrite(table)
    lake.load(table).append(rows(2))
    hinted = Path(lake.load(table).metadata_location.removeprefix("file://"))
    hint = hinted.with_name("version-hint.text")
    hint.write_text(hinted.name)
    lake.rewrite(table)
    lake.load(table).append(rows(3))

    def read() -> list[int]:
        return sorted(StaticTable.from_metadata(f"file://{hinted}").scan().to_arrow()["id"].to_pylist())

    done = entry(lake.expire(table))
    assert done["result"] == "done" and "(version-hint.text leads readers to it)" in done["why"]
    assert done["after"]["returned"][0]["deleted_data_files_count"] == deleted
    assert read() == [1, 2]
    lake.orphans(table)
    assert (read(), lake.ids(table)) == ([1, 2], [1, 2, 3])
    hint.unlink()
    assert "no orphans" not in entry(dict(orphans.remove_orphans(lake.site, table, dry_run=True)))["why"]


def test_the_metadata_file_of_a_version_hint_is_not_left_to_later_commits(lake: SharedLake) -> None:
    table = lake.table(rows(1), **{"write.metadata.previous-versions-max": "1"})
    hinted = Path(lake.load(table).metadata_location.removeprefix("file://"))
    hint = hinted.with_name("version-hint.text")
    hint.write_text(hinted.name)

    def planned() -> dict[str, str]:
        plan = run.why(lake.runtime, lake.project, table)["plan"]
        return {each["action"]: each["why"] for each in (*plan["actions"], *plan["not_planned"])}

    lake.load(table).append(rows(2))
    assert f"refused: version-hint.text leads readers without the catalog to {hinted}, which" in planned()["metadata"]
    hint.write_text(Path(lake.load(table).metadata_location).name)  # as a reader's job that follows each commit
    assert "none is ever deleted" in planned()["metadata"]


def test_manifests_are_read_once(lake: SharedLake, monkeypatch: Any) -> None:
    tables = [lake.table(rows(1), rows(2)) for _ in range(3)]
    with Owners.of(lake.site) as asked:
        asked.others(tables[0])
    read: list[str] = []
    monkeypatch.setattr(owners, "paths_of", lambda path, io: read.append(path) or ())
    with Owners.of(lake.site) as asked:
        asked.others(tables[0])
        assert read == []
        lake.load(tables[1]).append(rows(3))
        asked.others(tables[0])
    assert len(read) == 1


def test_names_of_expired_snapshots_are_forgotten(lake: SharedLake, tmp_path: Path) -> None:
    files = plain_folder(tmp_path / "landing", 1)
    guest, other = lake.table(), lake.table()
    lake.take_in(guest, files)
    with Owners.of(lake.site) as asked:
        assert asked.others(other).claim(files[0], "/elsewhere") == f"table {guest} names it"
    lake.rewrite(guest)
    lake.policy("keep")
    lake.expire(guest)
    with Owners.of(lake.site) as asked:
        assert asked.others(other).claim(files[0], "/elsewhere") == ""


def test_a_damaged_file_of_owners_is_replaced(lake: SharedLake) -> None:
    host, guest = lake.table(rows(1)), lake.table()
    lake.take_in(guest, lake.live(host))
    lake.rewrite(host)
    (lake.runtime.drivers.parent / FILE).write_bytes(b"no database" * 1000)
    assert entry(lake.expire(host))["after"]["spared_files"] == 1
    assert lake.ids(guest) == [1]


def delta(lake: SharedLake, name: str, *lines: dict[str, Any]) -> Path:
    folder = Path(lake.runtime.lake.warehouse) / name
    (folder / "_delta_log").mkdir(parents=True)
    (folder / "_delta_log" / f"{0:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.mark.parametrize("name", ["delta.tables/shared/clone", "by/path"])
def test_a_clone_names_files_of_its_base(lake: SharedLake, name: str) -> None:
    host = lake.table(rows(1))
    [file] = lake.live(host)
    clone = delta(lake, name, {"add": {"path": f"file:{file}", "partitionValues": {}, "size": 1}})
    lake.rewrite(host)
    done = entry(lake.expire(host))
    assert done["after"]["spared_files"] == 1 and Path(file).exists()
    assert str(clone) in done["why"] or "shared.clone" in done["why"]
    for each in sorted(clone.rglob("*"), reverse=True):
        each.unlink() if each.is_file() else each.rmdir()
    clone.rmdir()


def vacuum_of(lake: SharedLake, name: str) -> tuple[bool, str]:
    """Whether a VACUUM is planned, and why or why not."""
    [plan] = run.plans(lake.runtime, lake.project, name)["plans"]
    [found] = [each for each in (*plan["actions"], *plan["not_planned"]) if each["action"] == "expire"]
    return found in plan["actions"], found["why"]


def test_a_vacuum_is_refused_for_the_files_of_a_clone(lake: SharedLake) -> None:
    base, clone = (delta_location.folder_of(lake.runtime.lake, f"shared.{name}") for name in ("base", "clone"))
    delta_log.commit(base, 0, delta_log.table(""), delta_log.add("a%20b.parquet", 1), delta_log.add("c.parquet", 1))
    delta_log.commit(base, 1, delta_log.remove("a%20b.parquet"))
    assert vacuum_of(lake, "shared.base")[0]
    delta_log.commit(clone, 0, delta_log.table(""), delta_log.add(f"file:{base}/c.parquet", 1))
    assert vacuum_of(lake, "shared.base")[0], "a live file stays in any case"
    delta_log.commit(clone, 1, delta_log.add(f"file://{base}/a%20b.parquet", 1))
    planned, why = vacuum_of(lake, "shared.base")
    assert not planned and "1 file of other tables (a b.parquet: table shared.clone names it)" in why

    vector = {"storageType": "p", "pathOrInlineDv": f"file:{base}/deletion_vector_1.bin"}
    delta_log.commit(clone, 1, {"add": {"path": "own.parquet", "partitionValues": {}, "deletionVector": vector}})
    delta_log.commit(clone, 2, {"commitInfo": {}})  # what was read of version 1 is not asked again
    assert "deletion_vector_1.bin" in vacuum_of(lake, "shared.base")[1]
    for folder in (base, clone):
        shutil.rmtree(folder)


def test_a_clone_whose_checkpoint_has_sidecars_keeps_the_files_of_its_base(lake: SharedLake) -> None:
    base, clone = (delta_location.folder_of(lake.runtime.lake, f"shared.{name}") for name in ("base3", "clone3"))
    delta_log.commit(base, 0, delta_log.table(""), delta_log.add("a.parquet", 1), delta_log.add("b.parquet", 1))
    delta_log.commit(base, 1, delta_log.remove("a.parquet"))
    sidecars = clone / "_delta_log" / "_sidecars"
    sidecars.mkdir(parents=True)
    pq.write_table(pa.table({"add": [{"path": f"file:{base}/a.parquet"}]}), sidecars / "one.parquet")
    pq.write_table(pa.table({"sidecar": [{"path": "one.parquet"}]}), sidecars.parent / f"{7:020d}.checkpoint.parquet")
    try:
        planned, why = vacuum_of(lake, "shared.base3")
        assert not planned and "table shared.clone3 names it" in why
    finally:
        for folder in (base, clone):
            shutil.rmtree(folder)


def test_a_log_that_cannot_be_read_may_name_any_file(lake: SharedLake) -> None:
    base, cut = (delta_location.folder_of(lake.runtime.lake, f"shared.{name}") for name in ("base2", "cut"))
    delta_log.commit(base, 0, delta_log.table(""), delta_log.add("a.parquet", 1))
    delta_log.commit(base, 1, delta_log.remove("a.parquet"))
    delta_log.commit(cut, 5, delta_log.add("b.parquet", 1))  # versions 0 to 4 and their checkpoint are missing
    try:
        planned, why = vacuum_of(lake, "shared.base2")
        assert not planned and "table shared.cut cannot be read" in why
        host = lake.table(rows(1))
        lake.rewrite(host)
        assert "shared.cut cannot be read" in entry(lake.expire(host))["why"]
    finally:
        for folder in (base, cut):
            shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("path", "location", "yes"),
    [
        ("/lake/t/data/a", "/lake/t", True),
        ("file:/lake/t/data/a", "file:///lake/t/", True),
        ("/lake/t/../u/a", "/lake/t", False),
        ("/lake/tt/a", "/lake/t", False),
        ("s3a://b/t/a", "s3://b/t", True),
        ("s3://c/t/a", "s3://b/t", False),
    ],
)
def test_inside_a_location(path: str, location: str, yes: bool) -> None:
    assert inside(path, location) is yes


def test_a_link_leads_outside(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "t" / "data").symlink_to(tmp_path / "elsewhere")
    assert not inside(str(tmp_path / "t" / "data" / "a"), str(tmp_path / "t"))
    assert key(str(tmp_path / "t" / "data" / "a")) == key(f"file:{tmp_path}/elsewhere//a")


@pytest.mark.parametrize("one, other", [("s3a://b/x/a", "s3://b//x/a"), ("hdfs://n:1/x/a", "hdfs:///x/a")])
def test_two_spellings_have_one_key(one: str, other: str) -> None:
    assert key(one) == key(other)
