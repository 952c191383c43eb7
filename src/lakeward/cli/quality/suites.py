"""`quality import`, `quality export`: suites from and to Great Expectations' JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.cli.quality.group import app
from lakeward.cli.table_names import plain
from lakeward.platform.errors import LakewardError, Refused, SpecError, expect
from lakeward.platform.text import word

if TYPE_CHECKING:
    from lakeward.quality.arguments.columns import Columns
    from lakeward.spec.model.suite import Suite

Table = Annotated[str, typer.Argument(callback=plain, help="The table: namespace.table.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the existing suite.")]


@app.command("import")
def import_(
    table: Table,
    file: Annotated[Path, typer.Argument(help="A suite as JSON, of Great Expectations 1.x or 0.18.")],
    owner: Annotated[str | None, typer.Option(help="Owner of the suite; you by default.")] = None,
    force: Force = False,
) -> None:
    """Write expectations/TABLE.yaml from a suite of Great Expectations, list what cannot be carried, and lint it.

    Exit code 2 when the written suite has problems; each is printed with its place in the file.
    """
    from lakeward.cli.deploy import author
    from lakeward.quality.suite.exchange import imported
    from lakeward.quality.suite.lint import lint

    done = imported(_read(file), _name(table), owner, author())
    target = write(table, done.document, [f"Imported from {file.name}."], force=force)
    shown = target.relative_to(state().project.root).as_posix()
    problems = [item for item in lint(state().project, known_columns()) if item.file == shown]
    ok = all(problem.severity != "error" for problem in problems)
    count = len(done.document["expectations"])
    data = {
        "table": table,
        "file": shown,
        "expectations": count,
        "left": list(done.left),
        "ok": ok,
        "problems": [problem.document() for problem in problems],
    }
    lines = [
        f"{shown}: {count} expectation{'' if count == 1 else 's'}",
        *(f"  not carried  {item}" for item in done.left),
    ]
    lines += [problem.text() for problem in problems]
    lines.append(
        "  next         "
        + (f"lakeward quality run {word(table)}" if ok else "correct the file, then: lakeward quality lint")
    )
    state().output.either(data, "\n".join(lines))
    if not ok:
        raise typer.Exit(2)


def known_columns() -> Callable[[str], Columns | None]:
    """Table -> its columns in the lake; nothing without a stack."""
    from lakeward.quality.suite.known_columns import of_table

    try:
        runtime = state().runtime
    except LakewardError:
        runtime = None
    return partial(of_table, runtime)


@app.command()
def export(table: Table) -> None:
    """Print a suite as JSON that Great Expectations 1.x reads: ExpectationSuite(**json.load(file))."""
    from lakeward.quality.suite.exchange import exported

    data = exported(suite_of(table))
    state().output.either(data, json.dumps(data, indent=2, ensure_ascii=False))


def suite_of(table: str) -> Suite:
    """The table's suite in the project.

    Raises:
        SpecError: the suite does not exist, or is invalid.
    """
    from lakeward.quality.suite.project import LINT, read_suite
    from lakeward.spec.read.problems import raise_if_any

    file = suite_file(table)
    if not file.exists():
        raise SpecError(
            f"{table} has no suite",
            why=f"{file} does not exist.",
            next=f"write it, then: {LINT}",
            code="LW-1213",
        )
    suite, problems = read_suite(file, state().project)
    raise_if_any(problems, LINT)
    return expect(suite, "a suite without problems")


def suite_file(table: str) -> Path:
    """The path of the table's suite, whether it exists or not."""
    return state().project.expectations / f"{_name(table)}.yaml"


def write(table: str, document: dict[str, Any], head: list[str], comments: Any = None, *, force: bool) -> Path:
    """Write the table's suite.

    Raises:
        Refused: the suite exists and `force` is not given.
    """
    from lakeward.quality.suite.yaml_text import SCHEMA, suite_text

    text = suite_text(document, [SCHEMA.removeprefix("# "), *head], comments)
    file = suite_file(table)
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise Refused(
            f"{table} has a suite already",
            why=f"{file} exists.",
            next="the same command with --force replaces it",
            code="LW-1214",
        ) from None
    return file


def _name(table: str) -> str:
    from lakeward.spec.model.table_names import TableName

    try:
        return str(TableName(table))
    except ValueError as error:
        raise SpecError(
            f"{table!r} is not a valid table name", why=str(error), next="lakeward tables health", code="LW-1215"
        ) from None


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SpecError(
            f"Cannot read {file}", why=error.strerror or str(error), next="correct the path of the file", code="LW-1216"
        ) from None
    except ValueError as error:  # also for bytes that are not text
        raise SpecError(
            f"{file} is not JSON",
            why=str(error),
            next="name a suite written as JSON by Great Expectations or by: lakeward quality export TABLE",
            code="LW-1217",
        ) from None
