from __future__ import annotations

from lakeward.supervision import spark_history


def test_launches_with_an_event_log_newest_first(tmp_path) -> None:
    for name, kept in (("20260101T000000-a", True), ("20260102T000000-b", False), ("20260103T000000-c", True)):
        (tmp_path / "nyc" / name / "events").mkdir(parents=True)
        if kept:
            (tmp_path / "nyc" / name / "events" / "eventlog_v2_local-1").mkdir()
    assert [item.name for item in spark_history.launches(tmp_path, "nyc")] == ["20260103T000000-c", "20260101T000000-a"]
    assert spark_history.launches(tmp_path, "none") == []
