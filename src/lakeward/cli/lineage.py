"""`lakeward lineage`: OpenLineage events of streams, maintenance and check runs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import typer

from lakeward.cli.context import state
from lakeward.platform.errors import SpecError, Unhealthy

if TYPE_CHECKING:
    from sqlalchemy import Connection

_CLOSE_S = 30.0
"""How long a transport that sends in the background has for what is still in its queue."""
app = typer.Typer(
    help="Show what lineage was sent in OpenLineage's format, and send what is due.", no_args_is_help=True
)


@app.command()
def status() -> None:
    """Show how far the events of each stream have come. The triggerer of Airflow sends them."""
    from lakeward.lineage import transport

    transport.require()
    from lakeward.lineage import store
    from lakeward.registry import heartbeats

    with state().registry() as connection:
        progress = store.load(connection)
        newest = heartbeats.newest(connection, store.TICK)
    streams = [
        {
            "stream": name,
            "run": cursor.run,
            "generation": cursor.generation,
            "open": cursor.open,
            "covered": cursor.covered,
            "sent": cursor.sent,
        }
        for name, cursor in sorted(progress.streams.items())
    ]
    state().output.show(
        {
            "configured": transport.configured(),
            "namespace": transport.namespace(),
            "passed_at": None if newest is None else newest.at,
            "failure": progress.failure or None,
            "streams": streams,
        },
        rows="streams",
        columns=["stream", "generation", "open", "covered", "sent"],
    )
    if progress.failure:
        state().output.note(f"the last events were not taken: {progress.failure}")
    if newest is None:
        state().output.note("no event was sent yet; see docs/how-to/send-lineage.md")


@app.command()
def send() -> None:
    """Send the events that are due now, to the backend that this shell configures.

    Exit code 2 when OpenLineage is not configured here, 3 when the backend did not take the events: they stay due.
    """
    from lakeward.lineage import transport
    from lakeward.spec.read.settings_file import usable_settings

    if not transport.configured():
        raise SpecError(
            "OpenLineage is not configured",
            why="neither OPENLINEAGE_URL, nor a variable OPENLINEAGE__TRANSPORT__.., nor openlineage.yml is there",
            next="export OPENLINEAGE_URL=http://localhost:5000   or see docs/how-to/send-lineage.md",
            code="LW-1286",
        )
    transport.require()
    from lakeward.lineage import emit

    here = state()

    def connect() -> AbstractContextManager[Connection]:
        return here.registry()

    client = transport.client()
    sent = emit.run(
        connect,
        emit.addresses_of(here.runtime, str(here.project.root)),
        client,
        transport.namespace(),
        usable_settings(here.project).openlineage.every.timedelta,
    )
    client.close(_CLOSE_S)
    here.output.show(
        {"events": sent.events, "waiting": dict(sent.waiting), "failure": sent.failure or None, "skipped": sent.skipped}
    )
    if sent.failure:
        raise Unhealthy(
            "The OpenLineage backend did not take the events",
            why=sent.failure,
            next="lakeward lineage send   sends them again when the backend answers",
            code="LW-1287",
        )
