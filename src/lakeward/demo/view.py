"""The demo's progress view: parts, streams, tables, and where to look. Rich on a terminal, lines elsewhere."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lakeward.demo.glance import DemoSummary

_COLOURS = {
    "healthy": "green",
    "completed": "green",
    "starting": "yellow",
    "lagging": "yellow",
    "stopping": "yellow",
    "stopped": "dim",
}


def board(glance: DemoSummary, *, sent: int, url: str, user: str, password: str) -> RenderableType:
    """Everything on one screen; the way to the Airflow UI stands last, where the eye ends."""
    return Group(
        _streams(glance),
        Text(),
        _tables(glance),
        Text(),
        Text(f"{sent:,} flights produced"),
        Text.assemble(("Airflow  ", "bold"), url, ("   user  ", "bold"), user, ("   password  ", "bold"), password),
        Text("kill the driver and watch it come back:  lakeward streams status flights", style="dim"),
        Text("Ctrl-C stops everything", style="dim"),
    )


def line(glance: DemoSummary, *, sent: int) -> str:
    """The same in one line, for a log."""
    streams = ", ".join(f"{each.id} {each.state} ({_number(each.landed)} rows)" for each in glance.streams)
    tables = ", ".join(f"{each.name} {each.shape.files} files ({each.verdict})" for each in glance.tables)
    return f"{sent:,} produced; {streams}; {tables}"


def _streams(glance: DemoSummary) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for name in ("stream", "into", "state"):
        table.add_column(name, no_wrap=True)
    for name in ("rows", "quarantined"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why", overflow="ellipsis", no_wrap=True, ratio=1)
    for each in glance.streams:
        word = Text(each.state, style=_COLOURS.get(each.state, "red"))
        table.add_row(each.id, each.sink, word, _number(each.landed), _number(each.quarantined), each.why)
    return table


def _tables(glance: DemoSummary) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("table", no_wrap=True)
    for name in ("rows", "files", "snapshots"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("maintenance", no_wrap=True)
    table.add_column("checks", no_wrap=True, ratio=1)
    for each in glance.tables:
        shape = each.shape
        verdict = Text(each.verdict, style="red" if each.verdict.startswith(("hold", "error")) else "")
        table.add_row(each.name, f"{shape.rows:,}", str(shape.files), str(shape.snapshots), each.maintenance, verdict)
    return table


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
