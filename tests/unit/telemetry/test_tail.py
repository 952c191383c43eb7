from __future__ import annotations

import json
from datetime import UTC, datetime

from lakeward.telemetry import tail


def line(second: int, event: str, **fields: object) -> str:
    return json.dumps({"timestamp": f"2026-01-01T00:00:{second:02}Z", "level": "info", "event": event, **fields})


def test_a_tail_is_cut_by_stream_text_and_time(tmp_path) -> None:
    lines = [
        line(1, "batch landed", stream="flights", batch=1),
        line(2, "batch landed", stream="alerts", batch=1),
        line(3, "the registry is away"),
        "  a line of a stack trace",
        line(9, "batch landed", stream="flights", batch=2),
    ]
    (tmp_path / "driver.log").write_text("\n".join(lines))
    file, found = tail.tail(tmp_path, "flights", 10)
    assert file == tmp_path / "driver.log"
    assert [each.get("event", each.get("raw")) for each in found] == [
        "batch landed", "the registry is away", "  a line of a stack trace", "batch landed",
    ]  # fmt: skip
    since = tail.tail(tmp_path, "flights", 10, since=datetime(2026, 1, 1, 0, 0, 3, tzinfo=UTC))[1]
    assert len(since) == 3, "a line without a time counts with the one before it"
    assert [each["batch"] for each in tail.tail(tmp_path, "flights", 10, grep="BATCH")[1]] == [1, 2]
    assert [each["batch"] for each in tail.tail(tmp_path, "flights", 1, grep="batch")[1]] == [2]


def test_a_search_goes_through_the_rotated_files_too(tmp_path) -> None:
    (tmp_path / "driver.log.1").write_text(line(1, "stream blocked", stream="flights"))
    (tmp_path / "driver.log").write_text(line(2, "started", stream="flights"))
    assert [each["event"] for each in tail.tail(tmp_path, "flights", 9, grep="blocked")[1]] == ["stream blocked"]
    assert [each["event"] for each in tail.tail(tmp_path, "flights", 9)[1]] == ["started"]


def test_what_python_printed_is_read_when_there_is_no_log(tmp_path) -> None:
    (tmp_path / "stdout.log").write_text("ImportError: no module named x\n")
    assert tail.tail(tmp_path, "flights", 5)[1] == [{"raw": "ImportError: no module named x"}]
    assert tail.tail(tmp_path / "none", "flights", 5) == (None, [])


def test_secrets_are_cut_out(tmp_path) -> None:
    (tmp_path / "driver.log").write_text(line(1, "cannot connect: password=hunter2", stream="flights"))
    (found,) = tail.tail(tmp_path, "flights", 5)[1]
    assert found["event"] == "cannot connect: password=***"
    assert "hunter2" not in tail.text(found)


def test_the_launch_before(tmp_path) -> None:
    for name in ("20260101T000000-a", "20260102T000000-b"):
        (tmp_path / name).mkdir()
    assert tail.before(tmp_path / "20260102T000000-b") == tmp_path / "20260101T000000-a"
    assert tail.before(tmp_path / "20260101T000000-a") is None


def test_what_is_next_to_a_failure_is_short_and_of_one_line_each(tmp_path) -> None:
    (tmp_path / "driver.log").write_text("\n".join(line(n, "x" * 1000, error="first\nsecond") for n in range(50)))
    found = tail.newest(tmp_path, "flights")
    assert len(found) == tail.LINES
    assert found[-1].startswith("2026-01-01T00:00:49Z")
    assert all(len(each) <= tail.WIDTH and "\n" not in each for each in found)
