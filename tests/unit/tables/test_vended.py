"""Maintenance with the credentials that a REST catalog vends for each table, which end while an action runs.

The catalog is Iceberg's own REST handlers; its store takes a vended key below its table's folder alone, until its end.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import reference_rest
from assumed_role import BUCKET
from reference_rest import LATE_S, Reference
from shared_files import SharedLake, deployment, entry, rows

from lakeward.connectors.iceberg.catalogs.examine import answers_of
from lakeward.connectors.iceberg.file_io import Vended, files_of
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Project, Runtime
from lakeward.tables import orphans
from lakeward.tables.guard import pins
from lakeward.telemetry import failpoints

LIFE_S = 2.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reference]:
    with reference_rest.running(tmp_path_factory.mktemp("reference"), life_s=LIFE_S) as made:
        yield made


@pytest.fixture(scope="module")
def where(server: Reference, postgres: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with deployment(postgres, tmp_path_factory.mktemp("vended"), server.lake) as runtime:
        yield runtime


@pytest.fixture
def lake(where: Runtime, server: Reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedLake]:
    monkeypatch.setattr(pins, "STAGED_FLOOR", timedelta(0))  # no stream stages here
    made = SharedLake(where, Project(tmp_path / "project"))
    yield made
    made.drop()
    assert server.store.refused == [], "no request had a key that had ended, or that is another table's"


def objects(server: Reference, lake: SharedLake, table: str) -> set[str]:
    """The files below the folder of a table."""
    folder = lake.load(table).metadata.location.removeprefix(f"s3://{BUCKET}/")
    return {name.removeprefix(f"{folder}/") for name in server.store.names(f"{folder}/")}


def late() -> None:
    """A step that takes longer than a key is valid."""
    time.sleep(LIFE_S + LATE_S + 0.2)


def test_expiry_deletes_the_files_that_no_snapshot_needs(lake: SharedLake, server: Reference) -> None:
    table = lake.table(rows(1), rows(2))
    lake.rewrite(table)
    before = objects(server, lake, table)
    with failpoints.on("expire-files", late):
        done = entry(lake.expire(table))
    assert (done["result"], done["verified"]) == ("done", True), done
    returned = done["after"]["returned"][0]
    assert returned["deleted_data_files_count"] == 2 and "left" not in done["why"], done
    assert len(before - objects(server, lake, table)) == sum(returned.values())
    assert lake.ids(table) == [1, 2]


def test_orphans_are_found_moved_and_put_back_by_name(
    lake: SharedLake, server: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "oldest_removable", lambda *_: datetime.now(UTC))  # the objects are of now
    table = lake.table(rows(1))
    loaded = lake.load(table)
    files_of(lake.runtime.lake, loaded).write(f"{loaded.metadata.location}/data/left.parquet", b"x")
    with failpoints.on("orphans-listed", late):
        assert entry(lake.orphans(table))["result"] == "done"
    left = objects(server, lake, table)
    assert "data/left.parquet" not in left
    assert [name for name in left if name.startswith(".lakeward_orphans/") and name.endswith("/data/left.parquet")]
    assert lake.ids(table) == [1]


def test_a_table_that_was_loaded_long_ago_is_read(lake: SharedLake) -> None:
    loaded = lake.load(lake.table(rows(1), rows(2)))
    late()
    assert sorted(loaded.scan().to_arrow()["id"].to_pylist()) == [1, 2]
    assert files_of(lake.runtime.lake, loaded).exists(loaded.metadata_location)


def test_a_file_elsewhere_is_refused_in_words(lake: SharedLake, server: Reference) -> None:
    loaded = lake.load(lake.table(rows(1)))
    with pytest.raises(SpecError, match="refused access") as refused:
        files_of(lake.runtime.lake, loaded).content(f"s3://{BUCKET}/elsewhere/file")
    assert "as the catalog's credentials of the table" in (refused.value.why or "")
    assert (refused.value.next or "").startswith("correct what the catalog allows this login")
    server.store.refused.clear()


def test_a_copy_in_another_process_has_the_keys_of_now(lake: SharedLake) -> None:
    loaded = lake.load(lake.table(rows(1)))
    copy = pickle.loads(pickle.dumps(loaded.io))
    assert copy.new_input(loaded.metadata_location).exists()


def test_doctor_says_that_credentials_are_vended(lake: SharedLake, where: Runtime) -> None:
    lake.table(rows(1))
    answers = {answer.name: answer for answer in answers_of(where.lake)}
    assert [answer for answer in answers.values() if not answer.ok] == []
    assert answers["catalog credentials"].found == "vended for each table"


def test_credentials_are_loaded_again_before_they_end_and_once() -> None:
    given = [{"s3.access-key-id": f"k{n}", "s3.session-token-expires-at-ms": "0"} for n in range(9)]

    def ends(life_s: float) -> str:
        return str(int((time.time() + life_s) * 1000))

    loads: list[float] = []

    def load() -> dict[str, str]:
        loads.append(time.time())
        return {**given[len(loads)], "s3.session-token-expires-at-ms": ends(3600)}

    vended = Vended({**given[0], "s3.session-token-expires-at-ms": ends(59)}, load)
    assert (vended.now()["s3.access-key-id"], loads) == ("k0", []), "a tenth of its life is left to renew it"
    vended = Vended({**given[0], "s3.session-token-expires-at-ms": ends(-1)}, load)
    assert {vended.now()["s3.access-key-id"] for _ in range(3)} == {"k1"} and len(loads) == 1
    for_ever = Vended({"s3.access-key-id": "k"}, load)
    assert for_ever.now() == {"s3.access-key-id": "k"} and len(loads) == 1
