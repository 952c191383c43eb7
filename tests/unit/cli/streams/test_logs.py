"""`lakeward streams logs|threads`: of a driver on this machine, and of one on a cluster."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from demo_site import running

from lakeward.registry import drivers, launches
from lakeward.supervision import launch_log


def test_logs_are_the_lines_of_this_stream_and_of_the_whole_driver(site: Any) -> None:
    assert site.lakeward("streams", "logs", "flights").code == 2
    running(site, query_state="running")
    folder = site.runtime.drivers / "demo" / "one"
    lines = [
        {
            "timestamp": "2026-01-01T00:00:00Z",
            "level": "info",
            "event": "Batch 3 landed",
            "stream": "flights",
            "rows": 9,
        },
        {"timestamp": "2026-01-01T00:00:01Z", "level": "info", "event": "Batch 4 landed", "stream": "delay_alerts"},
        {"timestamp": "2026-01-01T00:00:02Z", "level": "warning", "event": "The registry does not answer"},
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    (folder / "driver.log").write_text(text + "\nnot json\n")
    found = site.lakeward("streams", "logs", "flights", "-o", "json").json
    assert [line.get("event", line.get("raw")) for line in found["lines"]] == [
        "Batch 3 landed",
        "The registry does not answer",
        "not json",
    ]
    shown = site.lakeward("streams", "logs", "flights", "-n", "3").out
    assert "Batch 3 landed  stream=flights rows=9" in shown


def test_logs_and_report_of_a_driver_on_a_cluster_are_read_from_the_registry(site: Any) -> None:
    handle = {"submission": "driver-0001", "master": "spark://h:7077"}
    line = {"timestamp": "2026-01-01T00:00:00Z", "level": "error", "event": "Batch 3 failed", "stream": "flights"}
    with site.registry() as connection:
        previous = drivers.find(connection, "demo")
        before = previous.token if previous is not None else None
        assert drivers.record_intent(connection, "demo", token="t1", previous=before, backend="standalone")
        launches.record(connection, "abc", driver="demo", token="t1", document={}, place={"master": "spark://h:7077"})
        launches.arrived(connection, "abc", handle, host="node", log="/work/driver-0001")
        drivers.started(connection, "demo", "t1", handle=handle, host="node", log="/work/driver-0001")
        launches.write_logs(connection, "abc", log=json.dumps(line), printed="")
        row = drivers.find(connection, "demo")
        assert row is not None
        assert "Batch 3 failed" in str(launch_log.newest(connection, row, "flights"))
        assert launch_log.newest(connection, row, "flights", row.launched_at - timedelta(hours=1)) == []
    answer = site.lakeward("streams", "logs", "flights")
    assert "Batch 3 failed" in answer.out
    assert "the whole file is in /work/driver-0001 on node" in answer.err
    assert site.lakeward("streams", "logs", "flights", "-o", "json").json["lines"] == [line]


def test_the_newest_thread_dump_is_a_file_here_or_the_registrys_of_a_cluster(site: Any) -> None:
    running(site, query_state="running")
    with site.registry() as connection:
        here = drivers.find(connection, "demo")
    assert here is not None and here.log is not None  # the folder of its launch
    refused = site.lakeward("streams", "threads", "flights")
    assert refused.code == 1 and "lakeward streams threads flights --now" in refused.err
    for launch, file, content in (
        (Path(here.log), "20260102T000000-flights-4.txt", "the newest"),
        (Path(here.log).with_name("an earlier launch"), "20260101T000000-driver.txt", "an older one"),
    ):
        (launch / "dumps").mkdir(parents=True)
        (launch / "dumps" / file).write_text(content)
    found = site.lakeward("streams", "threads", "flights", "-o", "json").json
    assert (found["text"], Path(found["file"]).name) == ("the newest", "20260102T000000-flights-4.txt")

    handle = {"submission": "driver-0001", "master": "spark://h:7077"}
    with site.registry() as connection:
        assert drivers.record_intent(connection, "demo", token="t1", previous=here.token, backend="standalone")
        launches.record(connection, "abc", driver="demo", token="t1", document={}, place={"master": "spark://h:7077"})
        drivers.started(connection, "demo", "t1", handle=handle, host="node", log="/work/driver-0001")
    assert site.lakeward("streams", "threads", "flights").code == 1
    with site.registry() as connection:
        launches.write_dump(connection, "abc", "main: waits in land")
        launches.record(connection, "def", driver="demo", token="t2", document={}, place={"master": "spark://h:7077"})
    answer = site.lakeward("streams", "threads", "flights")
    assert "main: waits in land" in answer.out and "from the registry" in answer.err


def test_logs_are_cut_by_text_and_by_time(site: Any) -> None:
    running(site, query_state="running")
    folder = site.runtime.drivers / "demo" / "one"
    lines = [{"timestamp": f"2026-01-01T00:00:0{n}Z", "level": "info", "event": f"line {n}"} for n in range(4)]
    (folder / "driver.log").write_text("\n".join(json.dumps(line) for line in lines))

    def told(*more: str) -> list[str]:
        found = site.lakeward("streams", "logs", "flights", "-o", "json", *more).json["lines"]
        return [line["event"] for line in found]

    assert told("--since", "2026-01-01T00:00:02Z") == ["line 2", "line 3"]
    assert told("--since", "90s") == []
    assert told("--grep", "LINE 1") == ["line 1"]
    assert site.lakeward("streams", "logs", "flights", "--since", "soon").code == 2
