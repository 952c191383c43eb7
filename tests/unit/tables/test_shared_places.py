"""Tables that share a place or a file in ways their spellings do not show: links, dots, another catalog's name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import delta_log
import pytest
from shared_files import SharedLake, rows

from lakeward.connectors.delta import location as delta_location
from lakeward.connectors.iceberg.catalog import pyiceberg_properties
from lakeward.platform.runtime import Runtime
from lakeward.tables import run
from lakeward.tables.guard.owners import Owners, inside, key
from lakeward.tables.ownership import erase_obstacle


@pytest.fixture
def theirs(where: Runtime) -> Iterator[Any]:
    """A catalog of another name in the same database."""
    from pyiceberg.catalog import load_catalog

    files = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
    found = load_catalog("theirs", **files | pyiceberg_properties(where.lake, where.pgpass))
    found.create_namespace("shared")
    yield found
    found.close()


def said(document: dict[str, Any]) -> str:
    [only] = document["actions"]
    return str(only["why"])


@pytest.mark.parametrize("how", ["link", "dots"])
def test_a_table_below_another_by_any_spelling_stops_orphan_removal(lake: SharedLake, tmp_path: Path, how: str) -> None:
    host = lake.table(rows(1), rows(2))
    folder = lake.folder(host)
    below = folder / "data" / "below"
    below.mkdir(parents=True)
    (tmp_path / "link").symlink_to(below)
    at = {"link": str(tmp_path / "link"), "dots": f"{folder.parent}/x/..//{folder.name}/data/below"}[how]
    # Its metadata is elsewhere, so that the listing of the host shows no other table.
    guest = lake.table(rows(3), rows(4), location=at, **{"write.metadata.path": str(tmp_path / "metadata")})
    assert f"table {guest} keeps files below its location" in said(lake.orphans(host))
    assert (lake.ids(host), lake.ids(guest)) == ([1, 2], [3, 4])


def test_a_link_among_the_files_of_a_table_names_the_file_it_leads_to(lake: SharedLake) -> None:
    host, guest = lake.table(rows(1), rows(2)), lake.table()
    data = lake.folder(guest) / "data"
    data.mkdir(parents=True)
    links = []
    for number, path in enumerate(lake.live(host)):
        links.append(str(data / f"{number}.parquet"))
        Path(links[-1]).symlink_to(path)
    lake.take_in(guest, links)
    lake.rewrite(host)
    assert f"2 (table {guest} names it)" in said(lake.expire(host))
    assert f"2 files spared, which {guest} names" in said(lake.orphans(host))
    assert (lake.ids(host), lake.ids(guest)) == ([1, 2], [1, 2])


def test_statistics_of_a_table_elsewhere_are_its_files_too(lake: SharedLake) -> None:
    from pyiceberg.table.statistics import StatisticsFile

    host, guest = lake.table(rows(1)), lake.table(rows(2))
    files = [lake.folder(host) / "metadata" / f"{number}.puffin" for number in range(2)]
    for file in files:
        file.write_bytes(b"PFA1")
        table = lake.load(guest)
        about = table.current_snapshot().snapshot_id
        with table.update_statistics() as change:
            change.set_statistics(
                StatisticsFile(
                    snapshot_id=about,
                    statistics_path=str(file),
                    file_size_in_bytes=4,
                    file_footer_size_in_bytes=0,
                    blob_metadata=[],
                )
            )
    lake.orphans(host)
    assert [file.exists() for file in files] == [False, True], "the first ones were replaced"


@pytest.mark.parametrize("same", [False, True], ids=["names its files", "at its location"])
def test_a_table_of_another_catalog_in_the_same_database_is_asked(lake: SharedLake, theirs: Any, same: bool) -> None:
    host = lake.table(rows(1), rows(2))
    folder = lake.folder(host)
    at = folder if same else folder.with_name("elsewhere")
    guest = theirs.create_table(host, schema=lake.load(host).schema(), location=str(at))
    guest.add_files(lake.live(host))
    lake.rewrite(host)
    assert f"2 (table {host} of catalog theirs names it)" in said(lake.expire(host)) or same
    stopped = f"table {host} of catalog theirs is in {folder}, below, above or at its location"
    assert (stopped if same else f"2 files spared, which {host} of catalog theirs names") in said(lake.orphans(host))
    read = theirs.load_table(host).scan().to_arrow()["id"].to_pylist()
    assert (lake.ids(host), sorted(read)) == ([1, 2], [1, 2])


def test_the_metadata_file_of_a_table_of_another_catalog_is_no_orphan(lake: SharedLake, theirs: Any) -> None:
    host = lake.table(rows(1))
    folder = lake.folder(host)
    there = {"write.metadata.path": f"{folder}/metadata"}
    guest = theirs.create_table(host, schema=lake.load(host).schema(), location=f"{folder}_other", properties=there)
    guest.append(rows(2))
    said(lake.orphans(host))
    assert theirs.load_table(host).scan().to_arrow()["id"].to_pylist() == [2]


def test_rows_of_a_table_are_not_erased_where_another_table_shares_its_folder(lake: SharedLake) -> None:
    """One metadata file registered under two names, and a table whose folder is below another one's."""
    first = lake.table(rows(1), rows(2))
    second = f"{first}_copy"
    lake.site.catalog.register_table(second, lake.load(first).metadata_location)
    lake.made.append(second)
    for one, other in ((first, second), (second, first)):
        why = erase_obstacle(lake.site, lake.load(one))
        assert why.startswith(f"table {other} is in ") and "below, above or at its location" in why

    alone = lake.table(rows(3))
    assert erase_obstacle(lake.site, lake.load(alone)) == ""
    below = lake.table(rows(4), location=f"{lake.load(alone).location()}/of_last_year")
    assert f"table {below} is in " in erase_obstacle(lake.site, lake.load(alone))
    assert f"table {alone} is in " in erase_obstacle(lake.site, lake.load(below))


def test_a_metadata_file_under_two_names_is_not_left_to_later_commits(lake: SharedLake, theirs: Any) -> None:
    host = lake.table(rows(1), **{"write.metadata.previous-versions-max": "1"})

    def planned() -> dict[str, str]:
        plan = run.why(lake.runtime, lake.project, host)["plan"]
        return {each["action"]: each["why"] for each in (*plan["actions"], *plan["not_planned"])}

    theirs.register_table(host, lake.load(host).metadata_location)
    lake.load(host).append(rows(2))
    why = planned()["metadata"]
    assert why.startswith(f"refused: table {host} of catalog theirs is in ") and "metadata files by which it may" in why
    theirs.drop_table(host)
    assert "none is ever deleted" in planned()["metadata"]


def test_a_table_of_another_catalog_that_was_dropped_is_not_asked(lake: SharedLake, theirs: Any) -> None:
    host = lake.table(rows(1))
    name = f"shared.{uuid4().hex}"
    guest = theirs.create_table(name, schema=lake.load(host).schema(), location=str(lake.folder(host).with_name("x")))
    with Owners.of(lake.site) as owners:
        assert f"{name} of catalog theirs" in owners.others(host).locations
        found = lake.site.neighbours()
        theirs.drop_table(name)
        assert owners._neighbour("one", next(iter(found)), "/missing/metadata.json") is None
        assert owners.others(host).locations == {}
        theirs.register_table(name, guest.metadata_location)
        Path(guest.metadata_location).unlink()
        (lake.runtime.drivers.parent / "file-owners.sqlite").unlink()
    with Owners.of(lake.site) as owners:
        assert f"table {name} of catalog theirs cannot be read" in owners.others(host).unknown


def test_a_clone_that_was_made_again_at_the_same_version_is_read_again(lake: SharedLake) -> None:
    clone = delta_location.folder_of(lake.runtime.lake, "shared.clone")
    for _ in range(2):
        host = lake.table(rows(1))
        [file] = lake.live(host)
        shutil.rmtree(clone, ignore_errors=True)
        delta_log.commit(clone, 0, delta_log.table(""), delta_log.add(f"file:{file}", 1))
        lake.rewrite(host)
        assert "1 (table shared.clone names it)" in said(lake.expire(host))
        assert Path(file).exists()
    shutil.rmtree(clone)


def test_the_parent_of_a_link_is_that_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "t" / "data").mkdir(parents=True)
    (tmp_path / "other" / "deep").mkdir(parents=True)
    (tmp_path / "t" / "link").symlink_to(tmp_path / "other" / "deep")
    path = f"{tmp_path}/t/link/../a"
    assert key(path) == f"{tmp_path}/other/a" and not inside(path, str(tmp_path / "t"))
    assert inside(f"FILE://{tmp_path}/t//data/./a", str(tmp_path / "t"))
