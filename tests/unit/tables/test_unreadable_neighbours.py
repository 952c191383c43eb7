"""Tables that cannot be read, and what is still known of the files that they name: other tables are maintained."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from shared_files import SharedLake, deployment, entry, rows

from lakeward.platform.errors import Unhealthy
from lakeward.platform.runtime import Runtime
from lakeward.tables.ownership import erase_obstacle


@pytest.fixture(scope="module")
def where(postgres: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with deployment(postgres, tmp_path_factory.mktemp("unreadable")) as runtime:
        yield runtime


@contextmanager
def with_column(lake: SharedLake, name: str, field: dict[str, Any]) -> Iterator[None]:
    """A table with one more column, by its metadata file: PyIceberg may lack another engine's types."""
    file = Path(lake.load(name).metadata_location.removeprefix("file://"))
    text = file.read_text()
    document = json.loads(text)
    document["schemas"][0]["fields"].append({"id": 2, "required": False} | field)
    file.write_text(json.dumps(document))
    yield
    file.write_text(text)


@pytest.mark.parametrize(
    "kind",
    [
        "variant",
        {"type": "list", "element-id": 3, "element": "variant", "element-required": False},
        "a type of next year",
    ],
)
def test_a_table_with_a_type_that_pyiceberg_lacks_stops_no_other_table(lake: SharedLake, kind: Any) -> None:
    host, guest, other = lake.table(rows(1)), lake.table(), lake.table(rows(2), rows(3))
    kept = lake.live(host)
    lake.take_in(guest, kept)
    with with_column(lake, guest, {"name": "payload", "type": kind}):
        with pytest.raises(Unhealthy, match="is not maintained by Lakeward") as refused:
            lake.site.load(guest)
        assert "column payload" in refused.value.why and "other tables go on" in refused.value.next

        lake.rewrite(other)
        done = entry(lake.expire(other))
        assert (done["result"], done["after"]["spared_files"], done["after"]["deleted_files"] > 0) == ("done", 0, True)
        assert entry(lake.orphans(other))["result"] == "done"
        assert erase_obstacle(lake.site, lake.load(other)) == ""

        lake.rewrite(host)
        done = entry(lake.expire(host))
        assert done["after"]["spared_files"] == 1 and f"table {guest} names it" in done["why"]
        assert all(Path(file.removeprefix("file://")).exists() for file in kept)


def test_of_a_cut_metadata_file_no_path_is_guessed(lake: SharedLake) -> None:
    cut, other = lake.table(rows(1)), lake.table(rows(2), rows(3))
    file = Path(lake.load(cut).metadata_location.removeprefix("file://"))
    text = file.read_text()
    file.write_text(text[: len(text) // 2])
    with pytest.raises(Unhealthy, match="Cannot read table"):
        lake.site.load(cut)
    assert f"table {cut} cannot be read" in erase_obstacle(lake.site, lake.load(other))
    file.write_text(text)


def test_a_log_without_a_commit_is_no_table_that_may_name_files(lake: SharedLake) -> None:
    """What a CREATE TABLE leaves that died before its first commit."""
    log = Path(lake.runtime.lake.warehouse) / "delta.tables/shared/died/_delta_log"
    (log / "_sidecars").mkdir(parents=True)
    (log / ".00000000000000000000.json.77.tmp").write_text("{}")
    table = lake.table(rows(1))
    assert erase_obstacle(lake.site, lake.load(table)) == ""
    (log / f"{0:020d}.checkpoint.of.next.year").write_text("")
    assert "cannot be read" in erase_obstacle(lake.site, lake.load(table))
    shutil.rmtree(log.parent)
