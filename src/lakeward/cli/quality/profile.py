"""`quality profile`: proposes a first suite from the data of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.context import state
from lakeward.cli.quality.group import app
from lakeward.cli.quality.suites import Force, Table, suite_file, write
from lakeward.platform.errors import Refused, SpecError, expect
from lakeward.platform.text import word
from lakeward.spec.sql.names import name_parts

if TYPE_CHECKING:
    from lakeward.quality.suite.propose import Proposal, TableProfile


@app.command()
def profile(
    table: Table,
    owner: Annotated[str | None, typer.Option(help="Owner of the suite; by default its stream's, else you.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the suite; write nothing.")] = False,
    force: Force = False,
) -> None:
    """Propose expectations/TABLE.yaml from the data: metadata first, then one aggregate, each check with its reason.

    The proposal is run on the same rows before it is written: what they fail is left out.

    Of a table with more than five million rows only the newest commits are read.
    """
    from lakeward.cli.deploy import author
    from lakeward.quality.suite.propose import head_lines
    from lakeward.quality.suite.yaml_text import SCHEMA, suite_text

    target = suite_file(table)
    if target.exists() and not (force or dry_run):  # before any data is read
        raise Refused(
            f"{table} has a suite already",
            why=f"{target} exists.",
            next=f"lakeward quality profile {word(table)} --dry-run   prints a proposal; --force replaces the file",
            code="LW-1209",
        )
    seen, made = _look(table)
    document = {"table": table, "owner": owner or _owner(table) or author(), "expectations": made.expectations}
    head = list(head_lines(seen, made))
    shown = target.relative_to(state().project.root).as_posix()
    data: dict[str, object] = {
        "table": table,
        "file": None if dry_run else shown,
        "snapshot": seen.snapshot,
        "rows": seen.rows,
        "rows_read": seen.read,
        "expectations": made.expectations,
        "left": made.left,
    }
    if dry_run:
        text = suite_text(document, [SCHEMA.removeprefix("# "), *head], made.comments)
        state().output.either(data, text.rstrip("\n"))
        return
    write(table, document, head, made.comments, force=force)
    count = len(made.expectations)
    lines = [f"{shown}: {count} expectation{'' if count == 1 else 's'} from {seen.rows:,} rows"]
    lines += [f"  no check of  {column}: {why}" for column, why in made.left.items()]
    lines.append(f"  next         review the file, then: lakeward quality run {word(table)}")
    state().output.either(data, "\n".join(lines))


def _look(table: str) -> tuple[TableProfile, Proposal]:
    """The profile of a table, and the suite that it suggests and its own rows pass."""
    from pyspark.errors import PySparkException

    from lakeward.connectors.spark.connect import answers, session
    from lakeward.quality.delta.table import DeltaTable
    from lakeward.quality.ranges import metadata
    from lakeward.quality.results.json_values import sentence
    from lakeward.quality.runs import formats
    from lakeward.quality.suite import column_facts, delta_columns
    from lakeward.quality.suite.propose import propose
    from lakeward.quality.suite.trial import tried

    runtime = state().runtime
    lake = metadata.catalog(runtime)
    found = formats.of(table, lake, runtime.lake)
    history = None if isinstance(found, DeltaTable) else metadata.history(lake, table)
    if history is not None and history.head is None:
        raise SpecError(
            f"Cannot propose a suite for {table}",
            why="The table has no snapshot yet.",
            next="lakeward streams list",
            code="LW-1211",
        )
    with session(runtime) as spark:
        try:
            if isinstance(found, DeltaTable):
                seen, frame = delta_columns.profile_columns(found, spark)
            else:
                known = expect(history, "the history")
                seen, frame = column_facts.profile_columns(lake.load_table(name_parts(table)), known, spark)
            return seen, tried(propose(seen), frame)
        except PySparkException as error:
            if not answers(runtime, spark):
                raise
            raise Refused(
                f"Spark cannot read the table {table}",
                why=sentence(str(error)),
                next=f"write expectations/{table}.yaml by hand, then: lakeward quality lint",
                code="LW-3500",
            ) from error


def _owner(table: str) -> str | None:
    """The owner of the project's stream that lands in the table; None without one."""
    from lakeward.spec.read.loader import load_project

    streams = load_project(state().project).streams.values()
    return next((str(found.spec.owner) for found in streams if str(found.spec.sink.table) == table), None)
