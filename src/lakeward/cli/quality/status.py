"""`quality status`: verdict, verified snapshot and verification lag of each table with a suite."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.context import state
from lakeward.cli.quality.group import app
from lakeward.cli.streams.text import columns
from lakeward.cli.table_names import plain
from lakeward.platform.text import count, span

if TYPE_CHECKING:
    from lakeward.quality.results.status import JudgedLag, StatusDocument

_WELL = ("pass", "warn", None)


@app.command()
def status(
    table: Annotated[
        str | None, typer.Argument(callback=plain, help="namespace.table; by default every table with a suite.")
    ] = None,
) -> None:
    """Newest verdict of each table, the snapshot readers of `verified` see, and the verification lag.

    Exit code 3 when a table is held, could not be checked, or its lag exceeds `limits.verification_lag`.
    """
    from lakeward.platform.runtime import registry_url
    from lakeward.quality.results.status import proof_status

    here, now = state(), datetime.now(UTC)
    statuses = proof_status(here.runtime, registry_url(here.home), here.project, None if table is None else [table])
    documents = [table_status.document(now) for table_status in statuses]
    here.output.either({"tables": documents}, text(documents, now))
    if any(document["error"] or document["lag"]["late"] or document["verdict"] not in _WELL for document in documents):
        raise typer.Exit(3)


def text(tables: list[StatusDocument], now: datetime) -> str:
    """For people: one line a table."""
    head = ("table", "verdict", "verified", "proven", "not proven yet", "why")
    rows = [
        (
            table["table"],
            table["verdict"] or "-",
            str(table["verified_snapshot"] or "-"),
            f"{span((now - table['proven_at']).total_seconds())} ago" if table["proven_at"] else "-",
            _waiting(table["lag"]),
            table["error"] or table["why"],
        )
        for table in tables
    ]
    return columns([head, *rows]) if rows else "no table has a suite: write expectations/NAMESPACE.TABLE.yaml"


def _waiting(lag: JudgedLag) -> str:
    if not lag["snapshots"]:
        return "nothing"
    late = f", LATE: the limit is {span(lag['limit_s'])}" if lag["late"] else ""
    return f"{count(lag['snapshots'], 'commit')}, {count(lag['rows'], 'row')}, {span(lag['lag_s'])}{late}"
