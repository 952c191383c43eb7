"""State, logs and catalogs that come back older, or not at all: `next` is typed until the stream is healthy."""

from __future__ import annotations

import re
import shutil
from typing import Any

import pytest
from town import Town

pytestmark = [pytest.mark.timeout(1800), pytest.mark.campaign]  # a bound for a hang; a busy machine may need minutes

NUMBER = re.compile(r"\.?(\d+)\.")
"""Of a version of the state."""

USES = {
    "a_lost_file_of_the_state": "state_file",
    "a_lost_folder_of_the_state": "state_folder",
    "a_catalog_that_was_restored_from_an_older_backup": "rewound",
    "records_that_expired_under_windows": "state_expired",
    "a_stream_under_a_new_id_in_its_old_table": "again",
    "a_lost_checkpoint_of_files_without_the_copy_of_its_log": "files_nolog",
}
"""The stream of each test: only those of the selected tests are started."""


def windows(town: Town, name: str) -> dict[str, Any]:
    mark = {"column": "_kafka_timestamp", "delay": "1s"}
    sql = "SELECT window.end AS at, count(*) AS n FROM source GROUP BY window(_kafka_timestamp, '1 second')"
    source = {"kafka": {"topics": [town.topic(name)], "max_offsets_per_trigger": 1000}, "watermark": mark}
    return {"source": source, "transform": {"sql": sql}, "lineage": "none"}


SPECS = {
    "state_file": lambda town: windows(town, "state_file"),
    "state_folder": lambda town: windows(town, "state_folder"),
    "state_expired": lambda town: windows(town, "state_expired"),
}
"""What differs in the file of a stream."""


def because(town: Town, name: str, reason: str) -> None:
    """The stream is blocked, and for this reason."""
    town.desk.blocked(town.stream(name))
    assert (town.desk.world.stream(town.stream(name)).blocked or {})["reason"] == reason


def test_a_lost_file_of_the_state(town: Town) -> None:
    lose_state(town, "state_file", whole=False)


def test_a_lost_folder_of_the_state(town: Town) -> None:
    lose_state(town, "state_folder", whole=True)


def lose_state(town: Town, name: str, *, whole: bool) -> None:
    """State is deleted while the stream is stopped, and put back from a copy when the text says so."""
    copy = town.folder / f"copy-{name}"
    for _ in range(2):
        town.land(name)
    with town.stopped(name):
        shutil.copytree(town.checkpoint(name), copy)
        state = town.checkpoint(name) / "state"
        if whole:
            shutil.rmtree(state)
        else:
            files = {file: found[1] for file in (state / "0" / "0").iterdir() if (found := NUMBER.match(file.name))}
            newest = max(files.values(), key=int)
            for file in (file for file, number in files.items() if number == newest):
                file.unlink()

    def put_back() -> None:
        shutil.rmtree(town.checkpoint(name))
        shutil.copytree(copy, town.checkpoint(name))

    because(town, name, "changed-shape" if whole else "damaged-state")
    town.walk(name, put_back)


def test_a_catalog_that_was_restored_from_an_older_backup(town: Town) -> None:
    """The table's history goes back with it: the checkpoint alone knows of the batches since."""
    name = "rewound"
    before = town.table(name).metadata_location
    for _ in range(2):
        town.land(name)
    with town.stopped(name):
        where = f"table_namespace = '{town.desk.world.name}' AND table_name = '{name}'"
        town.desk.psql(f"UPDATE iceberg_tables SET metadata_location = '{before}' WHERE {where}")
    because(town, name, "checkpoint-ahead")
    said = town.walk(name)
    assert "recover" in said[0]


def test_records_that_expired_under_windows(town: Town) -> None:
    """`reset` refuses a stream with state, and no copy of its checkpoint brings the records back."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    name = "state_expired"
    client = AdminClient({"bootstrap.servers": town.desk.world.kafka.bootstrap})
    with town.stopped(name):
        for _ in range(3):
            town.send(name)
        first = TopicPartition(town.topic(name), 0, town.sent[name] - 2)
        for done in client.delete_records([first]).values():
            done.result(30)
    because(town, name, "source-expired")
    town.walk_to_a_new_id(name)


def test_a_stream_under_a_new_id_in_its_old_table(town: Town) -> None:
    name, table = "again", f"{town.desk.world.name}.again"
    old = town.renew(name, sink={"iceberg": {"table": table}}, quarantine=None)
    new = town.stream(name)
    town.desk.done(f"lakeward deploy --retire {old}")

    def back_to_the_old_id() -> None:
        if town.stream(name) == new:
            (town.desk.project / "conf" / "streams" / f"{new}.yaml").unlink()
            town.ids[name] = old
            town.write(name)

    because(town, name, "renamed-stream")
    said = town.walk(name, back_to_the_old_id)
    assert said[0].endswith(f"then: lakeward deploy --retire {new}")
    town.desk.world.wait_for("the rest", lambda: len(town.numbers(name)) == town.sent[name])
    assert town.numbers(name) == sorted(set(town.numbers(name)))


def test_a_lost_checkpoint_of_files_without_the_copy_of_its_log(town: Town) -> None:
    name = "files_nolog"
    copy = town.folder / "copy-files"
    with town.stopped(name):
        shutil.copytree(town.checkpoint(name), copy)
        shutil.rmtree(town.checkpoint(name))
        shutil.rmtree(f"{town.table(name).location().removeprefix('file:')}.sources")

    def put_back() -> None:
        shutil.rmtree(town.checkpoint(name), ignore_errors=True)
        shutil.copytree(copy, town.checkpoint(name))

    because(town, name, "checkpoint-missing")
    said = town.walk(name, put_back)
    assert said[0].startswith("restore the checkpoint from a copy; then: lakeward streams start")
