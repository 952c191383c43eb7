from __future__ import annotations

from io import StringIO

from rich.console import Console

from lakeward.demo.lake import Shape
from lakeward.demo.summary import DemoSummary, StreamSummary, TableSummary, _maintenance
from lakeward.demo.view import board, line

SEEN = DemoSummary(
    (
        StreamSummary("flights", "nyc.flights", "healthy", "batch 3 landed 1 s ago; nothing waits", 17412, 88),
        StreamSummary(
            "delay_alerts", "kafka:delay_alerts", "restarting", "killed by signal 9; attempt 1 in 4 s", None, 3
        ),
    ),
    (TableSummary("nyc.flights", Shape(12, 17412, 9), "compact done: 40 files to 6", "hold, 10:00:01 UTC"),),
)


def shown(width: int) -> str:
    console = Console(file=StringIO(), width=width, color_system=None)
    console.print(board(SEEN, sent=17500, url="http://127.0.0.1:8080", user="admin", password="secret-word"))
    output = console.file
    assert isinstance(output, StringIO)
    return output.getvalue()


def test_the_board_tells_streams_tables_and_where_to_look() -> None:
    text = shown(140)
    for part in (
        "17,412",
        "restarting",
        "compact done: 40 files to 6",
        "hold, 10:00:01 UTC",
        "17,500 flights produced",
    ):
        assert part in text
    assert "http://127.0.0.1:8080   user  admin   password  secret-word" in text
    assert text.rstrip().endswith("Ctrl-C stops everything")


def test_on_a_narrow_terminal_the_sentence_is_shortened_and_not_folded() -> None:
    lines = shown(80).splitlines()
    assert sum("flights" in each and "healthy" in each for each in lines) == 1
    assert all(len(each.rstrip()) <= 80 for each in lines)


def test_without_a_terminal_it_is_one_line() -> None:
    text = line(SEEN, sent=17500)
    assert "\n" not in text
    assert text.startswith("17,500 produced; flights healthy (17,412 rows), delay_alerts restarting (- rows)")


def test_maintenance_in_words() -> None:
    assert _maintenance(None) == "nothing yet"
    assert _maintenance({"action": "compact", "result": None}) == "compact under way"
    entry = {"action": "expire", "result": "done", "before": {"snapshots": 20}, "after": {"snapshots": 5}}
    assert _maintenance(entry) == "expire done: 20 snapshots to 5"
    assert _maintenance({"action": "expire", "result": "refused", "before": None, "after": None}) == "expire refused"
