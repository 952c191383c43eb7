"""Every kind of delete makes a table due: equality deletes, shared position deletes, Delta's deletion vectors."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from equality_deletes import delete_by_id

from lakeward.connectors.delta import location
from lakeward.connectors.delta.log import absolute
from lakeward.tables import run
from lakeward.tables.context import MaintenanceContext
from lakeward.tables.maintain import maintain_table

FAR = 1 << 40
MERGE_ON_READ = {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")}


def live(table) -> list[int]:
    return sorted(row.id for row in table.sql("SELECT id FROM {t}"))


@pytest.mark.timeout(600)  # two JVMs start for it
@pytest.mark.parametrize("files", [pytest.param(40, marks=pytest.mark.campaign), 1])
def test_equality_deletes_are_applied_and_their_writer_is_named(
    spark, site: MaintenanceContext, make_table, files: int
) -> None:
    table = make_table("", **{"write.target-file-size-bytes": "2000"})
    table.sql(f"INSERT INTO {{t}} SELECT {FAR} + id, 'EWR', null FROM range(0, 1000, 1, 1)")
    table.sql(f"INSERT INTO {{t}} SELECT {FAR} + id, 'JFK', null FROM range(1000, 2000, 1, 1)")
    gone = range(FAR, FAR + 2000, 5)
    for n in range(files):
        delete_by_id(spark, f"lake.{table.name}", gone[n::files])
    table.sql("REFRESH TABLE {t}")
    [health] = run.health(site.runtime, site.project, table.name)["tables"]
    assert (health["delete_files"], health["deleted_rows"]) == (files, 400)
    assert "compact" in health["due"]
    assert f"{files} equality-delete file" in health["advice"]
    assert "Flink job 4f2a" in health["advice"]
    done = maintain_table(site, table.name, ["compact"])
    assert [(each["result"], each["verified"]) for each in done["actions"]] == [("done", True)], done
    assert live(table) == sorted(set(range(FAR, FAR + 2000)) - set(gone))
    assert table.sql("SELECT count(*) FROM {t}.delete_files")[0][0] == 0
    assert maintain_table(site, table.name, ["compact"])["actions"] == []


def test_one_delete_file_for_several_data_files_makes_them_due(site: MaintenanceContext, make_table) -> None:
    properties = {"write.delete.granularity": "partition", "write.target-file-size-bytes": "2000"}
    table = make_table("", **MERGE_ON_READ | properties)
    table.sql("INSERT INTO {t} SELECT id, 'EWR', null FROM range(0, 1000, 1, 1)")
    table.sql("INSERT INTO {t} SELECT id, 'JFK', null FROM range(1000, 2000, 1, 1)")
    table.sql("DELETE FROM {t} WHERE id % 5 = 0")
    assert table.sql("SELECT count(*) FROM {t}.delete_files")[0][0] == 1
    [health] = run.health(site.runtime, site.project, table.name)["tables"]
    assert (health["deleted_rows"], "compact" in health["due"]) == (400, True)
    assert "write.delete.granularity" in health["advice"]
    done = maintain_table(site, table.name, ["compact"])
    assert [(each["result"], each["verified"]) for each in done["actions"]] == [("done", True)], done
    assert live(table) == [each for each in range(2000) if each % 5]
    # Iceberg leaves the delete file for a while. It deletes nothing in files that are younger than itself.
    assert maintain_table(site, table.name, ["compact"])["actions"] == []
    [health] = run.health(site.runtime, site.project, table.name)["tables"]
    assert (health["deleted_rows"], "compact" in health["due"]) == (0, False)


class Delta:
    """A Delta table of the warehouse, made and changed through the Connect session."""

    def __init__(self, remote, site: MaintenanceContext) -> None:
        self.name = f"maintained.v_{uuid.uuid4().hex[:8]}"
        self.folder = location.folder_of(site.runtime.lake, self.name)
        self._remote = remote

    def sql(self, text: str) -> list:
        return self._remote.sql(text.format(t=location.by_path(self.folder))).collect()

    def add_as_delta_rs(self, source: str, partition: str) -> None:
        """Commit a copy of a file whose partition value is spelled in another way."""
        log = self.folder / "_delta_log"
        version = len(list(log.glob("*.json")))
        for file in sorted(log.glob("*.json")):
            for line in file.read_text().splitlines():
                added = json.loads(line).get("add")
                if added is not None and added["partitionValues"]["p"] == source:
                    found = added
        path = f"rs-{version}.parquet"
        shutil.copy(absolute(self.folder, found["path"]), self.folder / path)
        action = {"add": {**found, "path": path, "partitionValues": {"p": partition}}}
        (log / f"{version:020d}.json").write_text(json.dumps(action) + "\n")


@pytest.fixture
def delta(remote, site: MaintenanceContext) -> Iterator[Delta]:
    made = Delta(remote, site)
    yield made
    shutil.rmtree(made.folder, ignore_errors=True)


def test_deletion_vectors_are_counted_and_purged(site: MaintenanceContext, delta: Delta) -> None:
    delta.sql(
        "CREATE TABLE {t} (id BIGINT, p STRING) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    for n in range(2):
        delta.sql(f"INSERT INTO {{t}} SELECT id, if(id < 2000, 'a', 'b') FROM range({n}000, {n + 2}000, 1, 1)")
    delta.sql("DELETE FROM {t} WHERE id % 5 = 0 AND p = 'a'")
    delta.sql("DELETE FROM {t} WHERE id = 2001")
    rows = delta.sql("SELECT id, p FROM {t} ORDER BY id, p")
    [health] = run.health(site.runtime, site.project, delta.name)["tables"]
    assert (health["delete_files"], health["deleted_rows"]) == (3, 601)
    assert "compact" in health["due"]
    done = maintain_table(site, delta.name, ["compact"])
    assert [(each["result"], each["verified"]) for each in done["actions"]] == [("done", True)], done
    assert delta.sql("SELECT id, p FROM {t} ORDER BY id, p") == rows
    [health] = run.health(site.runtime, site.project, delta.name)["tables"]
    assert (health["delete_files"], health["deleted_rows"]) == (1, 1), "one row of a thousand is not worth a rewrite"
    assert maintain_table(site, delta.name, ["compact"])["actions"] == []


KINDS = {
    "TIMESTAMP": ("timestamp'1965-03-01 23:30:00'", "1965-03-01 23:30:00"),
    "DOUBLE": ("1e20D", "100000000000000000000"),
    "DECIMAL(10,2)": ("1.5BD", "1.5"),
}


@pytest.mark.parametrize(
    "kind", ["TIMESTAMP", *(pytest.param(each, marks=pytest.mark.campaign) for each in KINDS if each != "TIMESTAMP")]
)
def test_two_spellings_of_a_partition_value_are_one_partition(
    site: MaintenanceContext, delta: Delta, kind: str
) -> None:
    literal, spelled = KINDS[kind]
    delta.sql(f"CREATE TABLE {{t}} (id BIGINT, p {kind}) USING delta PARTITIONED BY (p)")
    for n in range(3):
        delta.sql(f"INSERT INTO {{t}} SELECT {n}, {literal}")
    first = json.loads(Path(next(delta.folder.glob("_delta_log/*1.json"))).read_text().splitlines()[-1])
    source = (first.get("add") or {}).get("partitionValues", {}).get("p")
    assert source is not None and source != spelled
    for _ in range(3):
        delta.add_as_delta_rs(source, spelled)
    rows = delta.sql("SELECT id, p FROM {t} ORDER BY id, p")
    [health] = run.health(site.runtime, site.project, delta.name)["tables"]
    assert (health["files"], health["partitions"]) == (6, 1)
    done = maintain_table(site, delta.name, ["compact"])
    assert [(each["result"], each["verified"]) for each in done["actions"]] == [("done", True)], done
    assert delta.sql("SELECT id, p FROM {t} ORDER BY id, p") == rows


def test_an_empty_string_stays_one_and_the_others_are_compacted(site: MaintenanceContext, delta: Delta) -> None:
    delta.sql("CREATE TABLE {t} (id BIGINT, p STRING) USING delta PARTITIONED BY (p)")
    for n in range(4):
        delta.sql(f"INSERT INTO {{t}} SELECT {n}, 'a' UNION ALL SELECT {n}, null")
    for _ in range(5):
        delta.add_as_delta_rs("a", "")
    rows = delta.sql("SELECT id, p FROM {t} ORDER BY id, p")
    assert {row.p for row in rows} == {"", "a", None}
    done = maintain_table(site, delta.name, ["compact"])
    assert [(each["result"], each["verified"]) for each in done["actions"]] == [("done", True)], done
    assert delta.sql("SELECT id, p FROM {t} ORDER BY id, p") == rows, "OPTIMIZE of everything makes NULL of it"
    [health] = run.health(site.runtime, site.project, delta.name)["tables"]
    assert health["files"] == 7
