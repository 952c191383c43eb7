"""States and blocks that no table or topic of a stream's own causes: what `next` says is typed until the stream is
healthy."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from town import Town

pytestmark = [pytest.mark.timeout(1800), pytest.mark.campaign]  # a bound for a hang; a busy machine may need minutes

USES = {
    "a_stopped_stream": "halted",
    "a_stream_that_lands_what_is_there": "once",
    "a_stream_behind_its_limit": "slow",
    "a_watermark_ahead_of_the_clock": "ahead",
    "a_checkpoint_of_another_stream": "foreign",
    "a_position_that_cannot_be_read": "garbled",
    "a_dropped_table_that_a_stream_reads": "hop_dropped",
    "a_table_created_again_that_a_stream_reads": "hop_again",
    "a_table_rolled_back_that_a_stream_reads": "hop_back",
    "a_file_that_does_not_fit": "files_csv",
    "rows_deleted_from_a_table_that_a_stream_reads": "hop_deleted",
}
"""The stream of each test: only those of the selected tests are started."""


def once(town: Town) -> dict[str, Any]:
    return {"trigger": {"available_now": True, "schedule": "0 0 1 1 *"}}


def slow(town: Town) -> dict[str, Any]:
    source = {"kafka": {"topics": [town.topic("slow")], "max_offsets_per_trigger": 1}}
    return {"source": source, "limits": {"lag_records": 20}}


def ahead(town: Town, bound: str = "off") -> dict[str, Any]:
    mark = {"column": "at", "delay": "1s", "max_ahead": bound}
    sql = "SELECT window.end AS at, count(*) AS n FROM source GROUP BY window(at, '1 second')"
    return {
        "source": {"kafka": {"topics": [town.topic("ahead")], "max_offsets_per_trigger": 500}, "watermark": mark},
        "decode": {"json": "n BIGINT, s STRING, at TIMESTAMP"},
        "transform": {"sql": sql},
        "lineage": "none",
    }


def files_csv(town: Town) -> dict[str, Any]:
    columns = {"format": "csv", "header": True, "columns": "n BIGINT, s STRING"}
    files = {"path": str(town.folder / "files_csv"), "max_files_per_trigger": 10, **columns}
    return {"source": {"files": files}, "decode": None, "lineage": "none"}


SPECS = {"once": once, "slow": slow, "ahead": ahead, "files_csv": files_csv}
"""What differs in the file of a stream."""


def test_a_stopped_stream(town: Town) -> None:
    town.desk.done(f"lakeward streams stop {town.stream('halted')} --wait")
    town.send("halted")
    assert town.desk.status(town.stream("halted"))["state"] == "stopped"
    said = town.desk.healthy_by_its_next(town.stream("halted"))
    assert said == [f"lakeward streams start {town.stream('halted')}"]
    town.exact("halted")


def test_a_stream_that_lands_what_is_there(town: Town) -> None:
    stream = town.stream("once")
    town.desk.world.wait_for("its end", lambda: town.desk.status(stream)["state"] == "completed")
    assert town.desk.status(stream)["next_text"] == "nothing to do"
    town.send("once")
    town.desk.done(f"lakeward streams start {stream}")
    town.desk.world.wait_for("the rest", lambda: town.desk.world.landed(f"{town.desk.world.name}.once", stream) == 10)
    town.exact("once")


def test_a_stream_behind_its_limit(town: Town) -> None:
    stream = town.stream("slow")
    for _ in range(20):
        town.send("slow")
    town.desk.world.wait_for("the lag", lambda: town.desk.status(stream)["state"] == "lagging")

    def more() -> None:
        source = {"kafka": {"topics": [town.topic("slow")], "max_offsets_per_trigger": 500}}
        town.write("slow", source=source)

    with town.coming("slow"):
        said = town.desk.healthy_by_its_next(stream, more)
    assert "max_offsets_per_trigger" in said[0]
    town.exact("slow")


def test_a_watermark_ahead_of_the_clock(town: Town) -> None:
    def send(*times: str) -> None:
        town.desk.world.produce(town.topic("ahead"), [json.dumps({"n": 1, "s": "a", "at": at}) for at in times])

    old = town.stream("ahead")
    send("2099-01-01T00:00:00Z")
    send(datetime.now(UTC).isoformat())

    def seen() -> bool:
        send(datetime.now(UTC).isoformat())
        return bool(town.desk.status(old)["state"] == "lagging")

    town.desk.world.wait_for("the lag", seen)

    def renew_once() -> None:
        if town.stream("ahead") == old:
            town.renew("ahead", **ahead(town, "1h"))

    said = town.desk.healthy_by_its_next(lambda: town.stream("ahead"), renew_once)
    assert "max_ahead" in said[0]
    town.exact("ahead")


def test_a_checkpoint_of_another_stream(town: Town) -> None:
    with town.stopped("foreign"):
        metadata = town.checkpoint("foreign") / "metadata"
        metadata.with_name(".metadata.crc").unlink(missing_ok=True)
        metadata.write_text(json.dumps({"id": "5f0c5f5e-0000-4000-8000-000000000000"}))
    said = town.walk("foreign")
    assert "recover" in said[0]


def test_a_position_that_cannot_be_read(town: Town) -> None:
    with town.stopped("garbled"), town.table("garbled").transaction() as change:
        change.set_properties({f"lakeward.stream.{town.stream('garbled')}.position": "no position"})
    said = town.walk("garbled")
    assert "recover" in said[0]


def test_a_dropped_table_that_a_stream_reads(town: Town) -> None:
    with town.stopped("hop_dropped", sending=False):
        town.desk.world.catalog().drop_table(town.feed("hop_dropped"))
    said = town.walk("hop_dropped")
    assert "register_table" in said[0]


def test_a_table_created_again_that_a_stream_reads(town: Town) -> None:
    with town.stopped("hop_again"):
        town.desk.world.catalog().drop_table(town.feed("hop_again"))
    town.walk_to_a_new_id("hop_again")


def test_a_table_rolled_back_that_a_stream_reads(town: Town) -> None:
    town.land("hop_back")
    with town.stopped("hop_back", sending=False):
        feed = town.desk.world.catalog().load_table(town.feed("hop_back"))
        parent = feed.current_snapshot().parent_snapshot_id
        feed.manage_snapshots().set_current_snapshot(snapshot_id=parent).commit()
    said = town.walk("hop_back")
    assert "set_current_snapshot" in said[0]


def test_rows_deleted_from_a_table_that_a_stream_reads(town: Town) -> None:
    with town.stopped("hop_deleted"):
        town.desk.world.catalog().load_table(town.feed("hop_deleted")).delete("n = 100")

    def skip() -> None:
        source = {
            "iceberg": {
                "table": town.feed("hop_deleted"),
                "max_files_per_trigger": 10,
                "skip": ["deletes", "overwrites"],
            }
        }
        town.write("hop_deleted", source=source)

    town.desk.blocked(town.stream("hop_deleted"))
    with town.coming("hop_deleted"):
        said = town.desk.healthy_by_its_next(town.stream("hop_deleted"), skip)
    assert "skip: [" in said[0]
    rows = sorted([100, *town.there("hop_deleted")])
    town.desk.world.wait_for("every row, and the deleted one", lambda: town.numbers("hop_deleted") == rows)


def test_a_file_that_does_not_fit(town: Town) -> None:
    file = town.folder / "files_csv" / "other.csv"
    file.write_text("n,other\n1000,row 1000")

    def correct() -> None:
        file.write_text("n,s\n1000,row 1000")

    town.walk("files_csv", correct)
