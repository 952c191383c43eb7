"""`lakeward streams list|status|audit`: show streams, also while Airflow is down. Operations: `streams.operations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.context import state
from lakeward.cli.streams.group import Stream, Tag, app
from lakeward.cli.supervised import explain
from lakeward.platform.errors import SpecError

if TYPE_CHECKING:
    from lakeward.supervision.report.material import View


def _view() -> View:
    """All streams, evaluated now rather than by the last reconcile pass: Airflow may be down."""
    from lakeward.supervision.reconcile import backend_of
    from lakeward.supervision.report.material import observe_all

    return observe_all(lambda: state().registry(), backend_of(state().runtime), explain)


_STATES = (
    "only streams with this state: starting, healthy, lagging, stalled, restarting, stopping, stopped, completed, "
    "blocked, or unknown"
)


@app.command("list")
def list_streams(
    only: Annotated[str | None, typer.Option("--state", help=_STATES)] = None,
    tag: Tag = None,
    owner: Annotated[str | None, typer.Option(help="only streams of this owner")] = None,
) -> None:
    """Every stream: its state, since when, and why.

    Exit code 3 when a stream could not be shown in full: it is a row with its error, and the others are shown.
    """
    from lakeward.cli.streams.text import table
    from lakeward.supervision.decide.health import State
    from lakeward.supervision.report.document import entries_of

    words = [state_name.value for state_name in State]
    if only is not None and only not in words:
        raise SpecError(
            f"There is no state {only!r}",
            why=f"valid states: {', '.join(words)}",
            next="lakeward streams list --state blocked",
            code="LW-1235",
        )
    view = _view()
    entries, unreadable = entries_of(view)
    entries = [
        stream
        for stream in entries
        if (only is None or stream["state"] == only)
        and (tag is None or tag in stream["tags"])
        and (owner is None or stream["owner"] == owner)
    ]
    supervised = {"state": view.presence.state, "why": view.unsupervised, "next": view.presence.next or None}
    state().output.either(
        {"streams": entries, "supervision": supervised}, table(entries, view.facts.now, view.presence)
    )
    if unreadable:
        raise typer.Exit(3)


@app.command()
def status(stream: Stream) -> None:
    """Status of one stream: problem, lag, last batch, next step. Exit code 3 if it is down."""
    from lakeward.supervision import report
    from lakeward.supervision.decide.health import TROUBLE
    from lakeward.supervision.report.block import block

    view, document = report.read(lambda: state().registry(), state().runtime, stream, explain=explain)
    state().output.either(document, "\n".join(block(document)))
    if view.verdicts[stream].state in TROUBLE:
        raise typer.Exit(3)


@app.command()
def audit(stream: Stream) -> None:
    """Compare every source position with the tables. Exit code 3 if a record is missing or duplicated."""
    from lakeward.cli.streams import audit as stream_audit
    from lakeward.registry import streams
    from lakeward.supervision.report import late

    with state().registry() as connection:
        streams.get(connection, stream)
        dropped, kept = late.read(connection, stream)
    spec = _view().spec(stream)
    if spec is None:
        raise SpecError(
            f"Stream {stream} has no generation to audit",
            why="no spec of it was deployed",
            next="lakeward deploy",
            code="LW-1236",
        )
    document = stream_audit.audit(state().runtime, spec, dropped, kept)
    columns = ["source", "partition", "from", "to", "missing", "duplicates"]
    people = stream_audit.for_people(document, late.words(dropped, kept) or "none")
    state().output.show(document, rows="partitions", columns=columns, people=people)
    if document["missing"] or document["duplicates"] or document.get("beyond"):
        raise typer.Exit(3)
