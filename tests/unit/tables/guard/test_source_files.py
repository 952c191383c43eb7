"""Whose the files of a file source are: asked of every table, Iceberg and Delta, before a landed file goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shared_files import SharedLake, deployment, plain_folder, rows

from lakeward.platform.errors import Unhealthy
from lakeward.platform.runtime import Runtime
from lakeward.tables.guard.source_files import SourceFileOwners


@pytest.fixture(scope="module")
def where(postgres: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with deployment(postgres, tmp_path_factory.mktemp("sources")) as runtime:
        yield runtime


def test_a_file_is_a_tables_by_its_name_in_a_manifest_or_by_a_location(lake: SharedLake, tmp_path: Path) -> None:
    owners = SourceFileOwners(lake.runtime)
    files = plain_folder(tmp_path / "landing", 1, 2)
    assert owners.of(files) == {} and owners.below(str(tmp_path / "landing")) == {}
    guest = lake.table()
    lake.take_in(guest, files[:1])
    assert owners.of(files) == {files[0]: f"table {guest} names it"}, "also a table made since the first look"
    assert owners.below(str(tmp_path / "landing")) == {files[0]: f"table {guest} names it"}
    host = lake.table(rows(1))
    [own] = lake.live(host)
    assert owners.of([own]) == {own: f"it lies below the location of table {host}"}
    folder = lake.load(host).metadata.location
    assert f"table {host} is in" in owners.below(f"{folder}/data")[f"{folder}/data"]


def test_with_a_table_that_cannot_be_read_it_is_not_known(lake: SharedLake, tmp_path: Path) -> None:
    files = plain_folder(tmp_path / "landing", 1, 2)
    guest, broken = lake.table(), lake.table(rows(1))
    lake.take_in(guest, files[:1])
    metadata = Path(lake.load(broken).metadata_location.removeprefix("file://"))
    whole = metadata.read_bytes()
    metadata.write_text("{")
    owners = SourceFileOwners(lake.runtime)
    assert set(owners.of(files)) == {files[0]}, "what is known is said"
    with pytest.raises(Unhealthy, match=f"table {broken} cannot be read"):
        owners.of(files[1:])
    metadata.write_bytes(whole)
