"""Quarantine tables that somebody drops under a stream: what `next` says is typed until the stream is healthy, and the
records that were lost with the table are named."""

from __future__ import annotations

import json

import pytest
from town import Town

pytestmark = [pytest.mark.timeout(1800), pytest.mark.campaign]  # a bound for a hang; a busy machine may need minutes

USES = {
    "a_table_without_rows_dropped_while_bad_records_come": "empty",
    "a_table_with_rows_dropped_while_bad_records_come": "kept",
    "a_table_with_rows_dropped_while_the_stream_is_stopped": "rejected",
    "a_table_purged_with_its_rows": "purged",
    "a_table_with_rows_created_again_by_somebody_else": "other",
}
"""The stream of each test: only those of the selected tests are started."""


def test_a_table_without_rows_dropped_while_bad_records_come(town: Town) -> None:
    drop(town, "empty")
    bad(town, "empty")
    town.settle("empty")
    town.exact("empty")
    assert quarantined(town, "empty") == 1


def test_a_table_with_rows_dropped_while_bad_records_come(town: Town) -> None:
    offset = bad(town, "kept")
    drop(town, "kept")
    named = f"1 rejected record ({town.topic('kept')}/0: {offset}) is in no table"  # once the registry has its batch
    town.desk.world.wait_for(
        "the offsets in the block",
        lambda: town.desk.status(town.stream("kept"))["data"]["text"].startswith(named),
    )
    seen = town.desk.status(town.stream("kept"))
    assert (seen["state"], seen["data"]["lost"]) == ("healthy", "yes")
    assert "register_table" in seen["next_text"]
    town.desk.world.produce(town.topic("kept"), ["no json either"])
    blocked = town.desk.blocked(town.stream("kept"))
    assert f"{town.topic('kept')}/0: {offset})" in blocked["data"]["text"]
    said = town.walk("kept")
    assert "register_table" in said[0]
    town.desk.world.wait_for("the bad record", lambda: quarantined(town, "kept") == 2)
    town.exact("kept")
    assert town.desk.status(town.stream("kept"))["data"]["lost"] == "no"


def test_a_table_with_rows_dropped_while_the_stream_is_stopped(town: Town) -> None:
    bad(town, "rejected")
    with town.stopped("rejected"):
        drop(town, "rejected")
    said = town.walk("rejected")
    assert "register_table" in said[0]


def test_a_table_purged_with_its_rows(town: Town) -> None:
    lost = bad(town, "purged")
    drop(town, "purged", purge=True)
    kept = bad(town, "purged", landed=False)
    town.desk.blocked(town.stream("purged"))
    said = town.desk.healthy_by_its_next(town.stream("purged"))
    assert "CREATE TABLE" in said[0]
    assert missing(town, "purged") == [lost]
    town.desk.world.wait_for("the bad record", lambda: quarantined(town, "purged") == 1)
    text = town.desk.status(town.stream("purged"))["data"]["text"]
    assert f"{town.topic('purged')}/0: {lost})" in text
    assert f"{town.topic('purged')}/0: {kept}" not in text


def test_a_table_with_rows_created_again_by_somebody_else(town: Town) -> None:
    table = f"{town.desk.world.name}.other_quarantine"
    lost = bad(town, "other")
    columns = town.desk.world.catalog().load_table(table).schema()
    with town.stopped("other"):
        drop(town, "other")
        town.desk.world.catalog().create_table(table, columns)
    town.settle("other")
    bad(town, "other")
    seen = town.desk.status(town.stream("other"))
    assert (seen["state"], seen["data"]["lost"]) == ("healthy", "yes")
    assert f"{town.topic('other')}/0: {lost})" in seen["data"]["text"]
    assert missing(town, "other") == [lost]


def bad(town: Town, name: str, *, landed: bool = True) -> int:
    """A record that is no JSON, in a batch of its own; returns its offset."""
    seq = town.seq(name)
    end = json.loads(town.desk.world.position(f"{town.desk.world.name}.{name}", town.stream(name))["end"]["source"])
    town.desk.world.produce(town.topic(name), ["no json"])
    if landed:
        town.desk.world.wait_for("the batch", lambda: town.seq(name) > seq)
    return int(end[town.topic(name)]["0"])


def drop(town: Town, name: str, *, purge: bool = False) -> None:
    catalog, table = town.desk.world.catalog(), f"{town.desk.world.name}.{name}_quarantine"
    (catalog.purge_table if purge else catalog.drop_table)(table)


def quarantined(town: Town, name: str) -> int:
    return len(town.desk.world.rows(f"{town.desk.world.name}.{name}_quarantine"))


def missing(town: Town, name: str) -> list[int]:
    """The offsets that the audit misses."""
    code, told = town.desk.type(f"lakeward streams audit {town.stream(name)}", "-o", "json")
    found = json.loads(told)
    gaps = [gap for part in found["partitions"] for gap in part["gaps"]]
    lost = [offset for low, high in gaps for offset in range(low, high)]
    assert (code, found["missing"], found["duplicates"]) == (3 if lost else 0, len(lost), 0), told
    return lost
