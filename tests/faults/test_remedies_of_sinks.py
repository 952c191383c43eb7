"""Sinks other than Iceberg that somebody drops and creates again under a stream: what `next` says is typed until the
stream is healthy."""

from __future__ import annotations

import shutil

import pytest
from town import Town

from lakeward.connectors.delta import location, log, properties
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.spec.model.position_columns import INGESTED_AT, POSITION_COLUMNS, POSITION_TYPES

pytestmark = [pytest.mark.timeout(1800), pytest.mark.campaign]  # a bound for a hang; a busy machine may need minutes

USES = {
    "a_delta_table_created_again_while_it_lands": "delta_lands",
    "a_delta_table_created_again_while_the_stream_is_stopped": "delta_stopped",
    "a_table_of_postgres_created_again_while_it_lands": "postgres_lands",
    "a_table_of_postgres_created_again_while_the_stream_is_stopped": "postgres_stopped",
    "a_renamed_table_of_postgres": "postgres_renamed",
    "an_unlogged_table_of_postgres": "postgres_unlogged",
    "a_restored_delta_table": "delta_restored",
    "properties_of_a_delta_table_that_cannot_be_read": "delta_odd",
    "a_folder_created_again_while_it_lands": "folder_lands",
    "a_folder_created_again_while_the_stream_is_stopped": "folder_stopped",
    "a_topic_created_again_under_a_stream_without_positions": "topic_lands",
}
"""The stream of each test: only those of the selected tests are started."""


def test_a_delta_table_created_again_while_it_lands(town: Town) -> None:
    town.land("delta_lands")
    recreate_delta(town, "delta_lands")
    town.send("delta_lands")
    town.walk_to_a_new_id("delta_lands")


def test_a_delta_table_created_again_while_the_stream_is_stopped(town: Town) -> None:
    with town.stopped("delta_stopped"):
        recreate_delta(town, "delta_stopped")
    town.walk_to_a_new_id("delta_stopped")


def test_a_table_of_postgres_created_again_while_it_lands(town: Town) -> None:
    town.land("postgres_lands")
    recreate_postgres(town, "postgres_lands")
    town.send("postgres_lands")
    town.walk_to_a_new_id("postgres_lands")


def test_a_table_of_postgres_created_again_while_the_stream_is_stopped(town: Town) -> None:
    with town.stopped("postgres_stopped"):
        recreate_postgres(town, "postgres_stopped")
    town.walk_to_a_new_id("postgres_stopped")


def test_a_renamed_table_of_postgres(town: Town) -> None:
    with town.stopped("postgres_renamed"):
        town.desk.psql(f'ALTER TABLE "{town.desk.world.name}"."postgres_renamed" RENAME TO "other"')
    said = town.walk("postgres_renamed")
    assert "RENAME TO" in said[0]


def test_an_unlogged_table_of_postgres(town: Town) -> None:
    with town.stopped("postgres_unlogged"):
        town.desk.psql(f'ALTER TABLE "{town.desk.world.name}"."postgres_unlogged" SET UNLOGGED')
    said = town.walk("postgres_unlogged")
    assert "SET LOGGED" in said[0]


def test_a_restored_delta_table(town: Town) -> None:
    town.land("delta_restored")
    with town.stopped("delta_restored"):
        town.desk.sql(f"RESTORE TABLE spark_catalog.{town.desk.world.name}.delta_restored TO VERSION AS OF 1")
    said = town.walk("delta_restored")
    assert "RESTORE TABLE" in said[0]


def test_properties_of_a_delta_table_that_cannot_be_read(town: Town) -> None:
    # By the first Delta cannot open the table; by the second it fails after it has committed.
    odd = {"delta.appendOnly": "ja", "delta.deletedFileRetentionDuration": "one week"}
    folder = location.folder_of(town.desk.world.runtime.lake, f"{town.desk.world.name}.delta_odd")
    town.land("delta_odd")
    with town.stopped("delta_odd"):
        head = log.head(folder)
        assert head is not None
        metadata = {**head.metadata, "configuration": {**head.properties, **odd}}
        commit = [{"commitInfo": {"operation": "SET"}}, {"metaData": metadata}]
        assert DeltaLog(folder).put(head.version + 1, commit)
    said = town.walk("delta_odd")
    assert "--actions metadata" in said[0]
    mended = log.head(folder)
    assert mended is not None and not properties.unreadable(mended.properties)


def test_a_folder_created_again_while_it_lands(town: Town) -> None:
    town.land("folder_lands")
    recreate_folder(town, "folder_lands")
    town.send("folder_lands")
    town.walk_to_a_new_id("folder_lands", "give the stream a new id and a new folder")


def test_a_folder_created_again_while_the_stream_is_stopped(town: Town) -> None:
    with town.stopped("folder_stopped"):
        recreate_folder(town, "folder_stopped")
    town.walk_to_a_new_id("folder_stopped", "give the stream a new id and a new folder")


def test_a_topic_created_again_under_a_stream_without_positions(town: Town) -> None:
    from confluent_kafka.admin import AdminClient

    name, topic = "topic_lands", town.topic("topic_lands")
    client = AdminClient({"bootstrap.servers": town.desk.world.kafka.bootstrap})
    town.land(name)
    with town.stopped(name):
        client.delete_topics([topic])[topic].result(30)
        town.later(name)
    town.walk_to_a_new_id(name, "give the stream a new id (")


def recreate_delta(town: Town, name: str) -> None:
    """Drop the table and create one of the same name and columns, as a person does: without Lakeward's settings."""
    folder = location.folder_of(town.desk.world.runtime.lake, f"{town.desk.world.name}.{name}")
    shutil.rmtree(folder)
    town.desk.sql(f"CREATE TABLE delta.`{folder}` ({columns()}) USING delta")


def columns() -> str:
    kept = (*POSITION_COLUMNS["kafka"], INGESTED_AT)
    return ", ".join(["n BIGINT", "s STRING", *(f"{each} {POSITION_TYPES[each]}" for each in kept)])


def recreate_postgres(town: Town, name: str) -> None:
    """Drop the table and create one of the same name and columns."""
    table = f'"{town.desk.world.name}"."{name}"'
    town.desk.psql(f'CREATE TABLE {table[:-1]}_copy" (LIKE {table})')
    town.desk.psql(f"DROP TABLE {table}")
    town.desk.psql(f'ALTER TABLE {table[:-1]}_copy" RENAME TO "{name}"')


def recreate_folder(town: Town, name: str) -> None:
    """Delete the folder and create it empty."""
    shutil.rmtree(town.path(name))
    town.path(name).mkdir()
