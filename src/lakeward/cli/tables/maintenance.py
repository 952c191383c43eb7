"""`lakeward tables`: health, plan, policy, ledger and maintenance of the lake's tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lakeward.cli.context import state
from lakeward.cli.deploy import author
from lakeward.cli.output import ConsoleOutput
from lakeward.cli.tables.group import Comment, Optional, Table, app
from lakeward.platform.errors import SpecError
from lakeward.platform.text import moment

if TYPE_CHECKING:
    from lakeward.tables.plan.model import PlanDocument

_EXITS = {"failed": 3, "refused": 4, "timed_out": 5}


@app.command()
def health(table: Optional = None) -> None:
    """Health of every table: files, small files, manifests, snapshots, due actions.

    Exit code 3 when a table could not be read: it is a row with its error, and the others are shown.
    """
    from lakeward.tables import run

    here = state()
    data = run.health(here.runtime, here.project, table)
    columns = ["table", "files", "small_files", "size_bytes", "manifests", "snapshots", "last_maintenance", "due"]
    here.output.show(data, rows="tables", columns=[*columns, "advice"])
    if any(row["error"] for row in data["tables"]):
        raise typer.Exit(3)


@app.command()
def plan(table: Optional = None) -> None:
    """Show the due actions with reasons, and the others with the reason why not. Changes nothing.

    Exit code 3 when a table could not be read; the plans of the others are shown.
    """
    from lakeward.tables import run

    here = state()
    data = run.plans(here.runtime, here.project, table)
    if isinstance(here.output, ConsoleOutput):
        for plan in data["plans"]:
            _show_plan(plan)
    else:
        here.output.show(data)
    if any(plan.get("error") for plan in data["plans"]):
        raise typer.Exit(3)


@app.command()
def policy(table: Table) -> None:
    """Every threshold of a table, and its origin. Reads the project's files only."""
    from lakeward.cli.config import with_origins
    from lakeward.spec.model.table_names import TableName
    from lakeward.spec.model.tables import resolve_policy
    from lakeward.spec.read.loader import load_project
    from lakeward.spec.read.problems import raise_if_any
    from lakeward.spec.sql.names import catalog_in
    from lakeward.tables.context import class_of

    try:
        name = TableName(table)
    except ValueError as error:
        raise SpecError(
            f"{table!r} is not a valid table name", why=str(error), next="lakeward tables health", code="LW-1238"
        ) from None
    loaded = load_project(state().project)
    raise_if_any([problem for problem in loaded.problems if problem.file.startswith("conf/")])
    writers = {str(spec.sink.table): spec.sink.mode for spec in loaded.specs if spec.sink.table is not None}
    landing = tuple(spec.id for spec in loaded.specs if name in spec.tables)
    delta = any(spec.sink.delta is not None and spec.sink.delta.table == name for spec in loaded.specs)
    further = catalog_in(name, loaded.settings.others)
    external = further is not None or loaded.settings.lake is not None
    class_ = class_of(name, writers, landing, delta=delta, external=external)
    resolved = resolve_policy(loaded.tables, name, class_, further)
    document = resolved.policy.model_dump(mode="json", by_alias=True)
    data = {"table": name, "streams": landing, "policy": document, "origins": resolved.origins}
    state().output.either(data, with_origins(document, resolved.origins))


@app.command("import-policy")
def import_policy(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Policies as Apache Polaris returns them.")],
    match: Annotated[str, typer.Option(help="Tables of the policy, as a glob over namespace.table.")],
) -> None:
    """Print policies of Apache Polaris as an entry of conf/tables.yaml; settings without a counterpart are listed."""
    from lakeward.spec.model import polaris

    imported = polaris.imported(file.read_text(encoding="utf-8"), match)
    data = {"match": match, "settings": imported.settings, "unmapped": imported.unmapped}
    state().output.either(data, polaris.entry(imported, match).rstrip())


@app.command()
def history(
    table: Table, limit: Annotated[int, typer.Option(min=1, max=10_000, help="Number of actions, newest first.")] = 20
) -> None:
    """Actions on a table: before and after, duration, and whether the result was verified."""
    from lakeward.tables import ledger

    with state().registry() as connection:
        data = ledger.history(connection, table, limit)
    columns = ["started_at", "action", "result", "verified", "change", "duration_s", "cpu_s", "why"]
    state().output.show(data, rows="actions", columns=columns)


@app.command()
def savings(
    table: Table,
    price: Annotated[
        float, typer.Option("--request-price", min=0, help="US dollars for a million reads of an object.")
    ] = 0.40,
) -> None:
    """Savings and cost of a table's maintenance, with the formula."""
    from lakeward.tables import ledger

    with state().registry() as connection:
        data = ledger.savings(connection, table, price)
    state().output.either(data, "\n".join(ledger.sentences(data)))


@app.command()
def readers(table: Table) -> None:
    """Show who keeps old snapshots, how many, and what ends it: streams, readers, checks, tags, branches."""
    from lakeward.tables import run

    here = state()
    data = run.pins(here.runtime, here.project, table)
    here.output.show(data, rows="pins", columns=["who", "why", "since", "snapshots", "bytes", "next"])
    for refusal in data["refusals"]:
        here.output.note(f"Expiry does not run: {refusal}")


@app.command()
def why(table: Table) -> None:
    """Why a table is, or is not, maintained now: the plan with its reasons, and the last action."""
    from lakeward.tables import run

    here = state()
    data = run.why(here.runtime, here.project, table)
    if not isinstance(here.output, ConsoleOutput):
        here.output.show(data)
        return
    _show_plan(data["plan"])
    for line in data["advice"]:
        here.output.text(f"  advice   {line}")
    last = data["last"]
    if last is not None:
        change = f" {last['change']}." if last["change"] else ""
        here.output.text(
            f"  last     {last['action']:<10} {moment(last['started_at'])}, "
            f"{last['result'] or 'under way'}.{change} {last['why']}"
        )


@app.command()
def maintain(
    table: Table,
    actions: Annotated[
        str | None,
        typer.Option(
            "--actions",
            help="Only these, separated by commas: compact, deletes, manifests, tags, expire, metadata, orphans.",
        ),
    ] = None,
    partitions: Annotated[
        list[str] | None,
        typer.Option("--partition", help="Compact only this partition, as named in the plan; repeatable."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, change nothing.")] = False,
    engine: Annotated[
        Literal["connect", "submit"] | None,
        typer.Option(
            help="connect: the warm server; submit: a Spark application of its own. By default as in the policy."
        ),
    ] = None,
) -> None:
    """Run the due actions of one table, verify the result from metadata, and record before and after.

    Orphan removal runs only if named: listing the location is expensive. Its first run only shows the orphans.
    """
    from lakeward.tables import run

    here = state()
    chosen = [item.strip() for item in actions.split(",") if item.strip()] if actions else None
    console = isinstance(here.output, ConsoleOutput)
    data = run.maintain(
        here.runtime,
        here.project,
        table,
        chosen,
        partitions=partitions or (),
        dry_run=dry_run,
        engine=engine,
        on_plan=(lambda report: _show_plan(report["plan"])) if console else (lambda _: None),
    )
    if console:
        for item in data["actions"]:
            here.output.note(f"{item['action']}: {item['result']} in {item['duration_s']:.1f} s. {item['why']}")
    else:
        here.output.show(data)
    code = max((_EXITS.get(action["result"], 0) for action in data["actions"]), default=0)
    if code:
        raise typer.Exit(code)


@app.command()
def hold(
    table: Table,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="RFC 3339, e.g. 2026-11-21T06:00:00Z")] = None,
    for_: Annotated[str | None, typer.Option("--for", metavar="DURATION", help="e.g. 2h")] = None,
    comment: Comment = "",
) -> None:
    """Hold maintenance of a table until a time. Streams continue to land."""
    from lakeward.cli.times import until_when
    from lakeward.tables import hold as holding
    from lakeward.tables.run import make_known

    moment = until_when(until, for_)
    make_known(state().runtime, state().project, table)
    with state().registry() as connection:
        detail = holding.hold(connection, table, moment, author=author(), comment=comment)
    state().output.show({"operation": "hold", "table": table, "result": "done", "detail": detail})


@app.command()
def unhold(table: Table, comment: Comment = "") -> None:
    """Lift a hold: a person's, or the one of expiry after a failed verification (then --comment needs the finding)."""
    from lakeward.tables import hold as holding

    with state().registry() as connection:
        detail = holding.lift(connection, table, author=author(), comment=comment)
    state().output.show({"operation": "unhold", "table": table, "result": "done", "detail": detail})


def _show_plan(data: PlanDocument) -> None:
    here = state()
    lines = [data["table"]]
    if error := data.get("error"):
        lines.append(f"  error    {error}")
    for action in data["actions"]:
        lines.append(f"  due      {action['action']:<10} {action['why']}")
    for item in data["not_planned"]:
        at = f" (next {moment(item['next_at'])})" if item["next_at"] else ""
        lines.append(f"  not due  {item['action']:<10} {item['why']}{at}")
    here.output.text("\n".join(lines))
