"""Each kind of trouble on one driver with many streams: what `next` says is typed until the stream is healthy."""

from __future__ import annotations

import shutil

import pytest
from pyiceberg.table.update import SetPropertiesUpdate
from town import Town

pytestmark = [pytest.mark.timeout(1800), pytest.mark.campaign]  # a bound for a hang; a busy machine may need minutes

USES = {
    "a_lost_checkpoint": "lost",
    "a_lost_checkpoint_of_windows": "window",
    "a_damaged_checkpoint": "cut",
    "an_older_copy_of_a_checkpoint": "older",
    "an_older_copy_of_the_checkpoint_of_files": "files",
    "bad_rows_without_a_quarantine_table": "bad",
    "a_position_removed_from_the_table": "unset",
    "a_column_dropped_from_the_table": "drift",
    "a_topic_that_does_not_exist_yet": "later",
    "staging_switched_off": "wap",
    "a_property_that_cannot_be_read": "retries",
    "a_renamed_table": "renamed",
    "a_hold_of_a_stream_whose_driver_is_killed": "held",
    "a_killed_driver": "held",
}
"""The stream of each test: only those of the selected tests are started."""


def test_a_lost_checkpoint(town: Town) -> None:
    with town.stopped("lost"):
        shutil.rmtree(town.checkpoint("lost"))
    town.walk("lost")


def test_a_lost_checkpoint_of_windows(town: Town) -> None:
    copy = town.folder / "copy"
    with town.stopped("window"):
        shutil.copytree(town.checkpoint("window"), copy)
        shutil.rmtree(town.checkpoint("window"))

    def put_back() -> None:
        shutil.rmtree(town.checkpoint("window"), ignore_errors=True)
        shutil.copytree(copy, town.checkpoint("window"))

    town.walk("window", put_back)


def test_a_damaged_checkpoint(town: Town) -> None:
    with town.stopped("cut"):
        newest = max((town.checkpoint("cut") / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        newest.write_bytes(b"v1\n{")
        newest.with_name(f".{newest.name}.crc").unlink()
    town.walk("cut")


def test_an_older_copy_of_a_checkpoint(town: Town) -> None:
    older(town, "older")


def test_an_older_copy_of_the_checkpoint_of_files(town: Town) -> None:
    older(town, "files")


def older(town: Town, name: str) -> None:
    copy = town.folder / f"copy-{name}"
    with town.stopped(name):
        shutil.copytree(town.checkpoint(name), copy)
    town.settle(name)
    for _ in range(3):
        town.land(name)
    with town.stopped(name):
        shutil.rmtree(town.checkpoint(name))
        shutil.copytree(copy, town.checkpoint(name))
    town.walk(name)


def test_bad_rows_without_a_quarantine_table(town: Town) -> None:
    seq = town.seq("bad")
    town.desk.world.produce(town.topic("bad"), ["no json"])
    town.desk.world.wait_for("the batch", lambda: town.seq("bad") > seq)
    town.exact("bad")


def test_a_position_removed_from_the_table(town: Town) -> None:
    with town.stopped("unset"):
        table = town.table("unset")
        with table.transaction() as change:
            change.remove_properties(f"lakeward.stream.{town.stream('unset')}.position")
    town.walk("unset")


def test_a_column_dropped_from_the_table(town: Town) -> None:
    with town.stopped("drift"), town.table("drift").update_schema() as change:
        change.delete_column("s")
    town.walk("drift")


def test_a_topic_that_does_not_exist_yet(town: Town) -> None:
    town.walk("later", lambda: town.later("later"))


def test_staging_switched_off(town: Town) -> None:
    with town.stopped("wap"), town.table("wap").transaction() as change:
        change.set_properties({"write.wap.enabled": "false"})
    town.walk("wap")


def test_a_property_that_cannot_be_read(town: Town) -> None:
    with town.stopped("retries"):
        table = town.table("retries")
        table.catalog.commit_table(table, (), (SetPropertiesUpdate(updates={"commit.retry.num-retries": "x"}),))
    town.walk("retries")


def test_a_renamed_table(town: Town) -> None:
    with town.stopped("renamed"):
        name = f"{town.desk.world.name}.renamed"
        town.desk.world.catalog().rename_table(name, f"{name}_x")
    town.walk("renamed")


def test_a_hold_of_a_stream_whose_driver_is_killed(town: Town) -> None:
    town.desk.done(f"lakeward streams hold {town.stream('held')} --until 2030-01-01T00:00:00Z")
    town.kill()
    town.walk("held")


def test_a_killed_driver(town: Town) -> None:
    town.kill()
    town.walk("held")
