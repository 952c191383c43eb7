"""Progress view of the demo: streams, tables and the Airflow UI. Rich on a terminal, lines elsewhere."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lakeward.demo.summary import DemoSummary

_COLOURS = {
    "healthy": "green",
    "completed": "green",
    "starting": "yellow",
    "lagging": "yellow",
    "stopping": "yellow",
    "stopped": "dim",
}


def board(summary: DemoSummary, *, sent: int, url: str, user: str, password: str) -> RenderableType:
    """All streams and tables on one screen, with the address of the Airflow UI at the end."""
    return Group(
        _streams(summary),
        Text(),
        _tables(summary),
        Text(),
        Text(f"{sent:,} flights produced"),
        Text.assemble(("Airflow  ", "bold"), url, ("   user  ", "bold"), user, ("   password  ", "bold"), password),
        Text("kill the driver and watch its restart:  lakeward streams status flights", style="dim"),
        Text("Ctrl-C stops everything", style="dim"),
    )


def line(summary: DemoSummary, *, sent: int) -> str:
    """The same as one line, for a log."""
    streams = ", ".join(f"{item.id} {item.state} ({_number(item.landed)} rows)" for item in summary.streams)
    tables = ", ".join(f"{item.name} {item.shape.files} files ({item.verdict})" for item in summary.tables)
    return f"{sent:,} produced; {streams}; {tables}"


def _streams(summary: DemoSummary) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for name in ("stream", "into", "state"):
        table.add_column(name, no_wrap=True)
    for name in ("rows", "quarantined"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why", overflow="ellipsis", no_wrap=True, ratio=1)
    for stream in summary.streams:
        word = Text(stream.state, style=_COLOURS.get(stream.state, "red"))
        table.add_row(stream.id, stream.sink, word, _number(stream.landed), _number(stream.quarantined), stream.why)
    return table


def _tables(summary: DemoSummary) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("table", no_wrap=True)
    for name in ("rows", "files", "snapshots"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("maintenance", no_wrap=True)
    table.add_column("checks", no_wrap=True, ratio=1)
    for item in summary.tables:
        shape = item.shape
        verdict = Text(item.verdict, style="red" if item.verdict.startswith(("hold", "error")) else "")
        table.add_row(item.name, f"{shape.rows:,}", str(shape.files), str(shape.snapshots), item.maintenance, verdict)
    return table


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
