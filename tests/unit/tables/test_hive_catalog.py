"""A real Hive Metastore through PyIceberg: which commits it takes, and what is said where it does not answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lossy_metastore
import metastore
import pyarrow as pa
import pytest
from hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor
from hive_metastore.ttypes import Table as HiveTable
from metastore import Metastore
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from lakeward.connectors.iceberg import catalog as addresses
from lakeward.connectors.iceberg.catalogs import hive_client
from lakeward.connectors.iceberg.catalogs.examine import answers_of
from lakeward.platform.errors import DependencyDown
from lakeward.platform.runtime import CATALOG, Lake

ROWS = pa.table({"id": pa.array([1], pa.int64())})


def opened(hive: Metastore, port: int = 0) -> Any:
    return load_catalog(CATALOG, **addresses.pyiceberg_properties(lake_of(hive, port)))


def lake_of(hive: Metastore, port: int = 0) -> Lake:
    uri = f"thrift://127.0.0.1:{port or hive.port}"
    return Lake(warehouse=str(hive.warehouse), properties={**hive.properties, "uri": uri})


@pytest.fixture(scope="module")
def hive(postgres: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    """On PostgreSQL, as in production; the night's races (tests/faults) have Derby, too."""
    folder, name = tmp_path_factory.mktemp("hive"), postgres.create_database()
    with metastore.running(folder, metastore.on_postgres(postgres, name, folder / "database.json")) as running:
        opened(running).create_namespace("db")
        yield running
    postgres.drop_database(name)


@pytest.fixture
def table(hive: Metastore, request: pytest.FixtureRequest) -> Any:
    name = "".join(letter for letter in request.node.name.lower() if letter.isalnum())
    return opened(hive).create_table(f"db.{name}", ROWS.schema)


def ids(table: Any) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def test_of_two_commits_on_one_base_one_is_taken(hive: Metastore, table: Any) -> None:
    with table.transaction() as change:  # by default PyIceberg builds an append again on the newer base
        change.set_properties({"commit.retry.num-retries": "0"})
    stale = opened(hive).load_table(table.name())
    table.append(ROWS)
    with pytest.raises(CommitFailedException):
        stale.append(ROWS)
    assert ids(table) == [1]


def test_a_writer_whose_lock_has_ended_replaces_nothing(hive: Metastore, table: Any, monkeypatch: Any) -> None:
    """It stands still between its comparison and its commit, as a stopped process does, until its lock is gone."""
    written = hive_client.HiveClient._write_metadata

    def late(*given: Any, **more: Any) -> None:
        written(*given, **more)
        monkeypatch.setattr(hive_client.HiveClient, "_write_metadata", staticmethod(written))
        [held] = [lock for lock in locks(hive) if lock.tablename == table.name()[1]]
        with opened(hive)._client as client:
            from hive_metastore.ttypes import UnlockRequest

            hive_client.Client.unlock(client, UnlockRequest(lockid=held.lockid))
        opened(hive).load_table(table.name()).append(ROWS)

    monkeypatch.setattr(hive_client.HiveClient, "_write_metadata", staticmethod(late))
    with pytest.raises(CommitFailedException), table.transaction() as change:
        change.set_properties({"a": "b"})
    assert ids(table) == [1], "the rows of the other writer are still there"


def locks(hive: Metastore) -> list[Any]:
    from hive_metastore.ttypes import ShowLocksRequest

    with opened(hive)._client as client:
        return list(client.show_locks(ShowLocksRequest()).locks)


def test_a_lock_that_a_killed_writer_left_is_said(hive: Metastore, table: Any) -> None:
    catalog = opened(hive)
    with catalog._client as client:
        client.lock(catalog._create_lock_request(*table.name()))
    table.catalog._lock_check_retries = 1
    with pytest.raises(DependencyDown, match="is locked in the Hive Metastore") as refused:
        table.append(ROWS)
    assert refused.value.code == "LW-3502"
    assert "SHOW LOCKS" in refused.value.next


def test_a_lost_answer_is_unknown_and_the_commit_is_there(hive: Metastore, table: Any) -> None:
    with lossy_metastore.running(hive.port) as proxy:
        through = opened(hive, proxy.port).load_table(table.name())
        proxy.lose(1)
        with pytest.raises(CommitStateUnknownException):
            through.append(ROWS)
    assert ids(table) == [1]


def test_threads_that_share_a_catalog_have_connections_of_their_own(hive: Metastore, table: Any) -> None:
    catalog, wrong = opened(hive), list[object]()

    def ask() -> None:
        for _ in range(20):
            if catalog.load_table(table.name()).metadata.table_uuid != table.metadata.table_uuid:
                wrong.append(1)

    def guarded() -> None:
        try:
            ask()
        except Exception as error:  # noqa: BLE001  # whatever it is, the test shows it
            wrong.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_table_of_another_format_is_not_listed_and_harms_no_other(hive: Metastore, table: Any) -> None:
    serde = SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe")
    columns = [FieldSchema("a", "int", "")]
    place = StorageDescriptor(
        columns, str(hive.warehouse / "plain"), "org.apache.hadoop.mapred.TextInputFormat",
        "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat", serdeInfo=serde,
    )  # fmt: skip
    with opened(hive)._client as client:
        client.create_table(HiveTable("plain", "db", "me", sd=place, parameters={}, partitionKeys=[]))
    listed = opened(hive).list_tables("db")
    assert ("db", "plain") not in listed
    assert table.name() in listed


def test_a_long_position_fits_into_the_metastore(hive: Metastore, table: Any) -> None:
    with table.transaction() as change:
        change.set_properties({"lakeward.position.a": "x" * 20_000})
    assert len(opened(hive).load_table(table.name()).properties["lakeward.position.a"]) == 20_000


def test_the_metastore_is_examined(hive: Metastore, table: Any) -> None:
    answers = answers_of(lake_of(hive))
    assert [(answer.name, answer.ok) for answer in answers] == [("catalog", True), ("catalog namespaces", True)]
    assert "2 top-level namespaces" in answers[1].found


def test_a_metastore_that_is_not_there_is_named(tmp_path: Path) -> None:
    lake = Lake(warehouse=str(tmp_path), properties={"type": "hive", "uri": "thrift://127.0.0.1:1"})
    with pytest.raises(DependencyDown, match="Hive Metastore does not answer") as down:
        load_catalog(CATALOG, **addresses.pyiceberg_properties(lake)).list_namespaces()
    assert down.value.code == "LW-3501"
    [answer] = answers_of(lake)
    assert (answer.ok, answer.severe) == (False, True)
    assert "thrift://127.0.0.1:1" in answer.found
