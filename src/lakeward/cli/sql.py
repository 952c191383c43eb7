"""`lakeward sql`: one statement on the warm Spark Connect server, in the lake's catalog; Delta's is `spark_catalog`."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.cli.output import ConsoleOutput
from lakeward.platform.errors import DependencyDown, LakewardError, Refused, SpecError
from lakeward.platform.failures import FailureClass, judge

# Functions that call any Java method on the server. Read-only mode is a convenience, not a security boundary.
_NOT_READING = {"reflect", "java_method", "try_reflect"}


def sql(
    statement: Annotated[str, typer.Argument(metavar="SQL", help="One statement; a SELECT unless --write.")],
    write: Annotated[bool, typer.Option("--write", help="Allow statements that change something.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Rows shown at most.")] = 1000,
) -> None:
    """Run one SQL statement against the lake."""
    from pyspark.errors import PySparkException

    from lakeward.connectors.delta import location
    from lakeward.connectors.spark.connect import session

    checked = check(statement, write=write)
    here = state()
    try:
        with session(here.runtime) as spark:
            if location.CATALOG in checked:  # Delta has no catalog: known tables are registered first
                for table in location.tables_of(here.runtime.lake):
                    location.register(spark, here.runtime.lake, table)
            spark.catalog.setCurrentCatalog(here.runtime.lake.name)
            frame = spark.sql(checked)
            columns = list(frame.columns)
            rows = [list(row) for row in frame.limit(limit + 1).collect()]
    except PySparkException as error:
        raise refusal(error) from None
    if len(rows) > limit:
        here.output.note(f"only the first {limit} rows are shown; --limit N shows more")
        rows = rows[:limit]
    values = [[_value(cell) for cell in row] for row in rows]
    if isinstance(here.output, ConsoleOutput):
        records = [dict(zip(columns, row, strict=True)) for row in values]
        here.output.show({"rows": records}, rows="rows", columns=columns)
    else:
        here.output.show({"columns": columns, "rows": values})


def check(statement: str, *, write: bool) -> str:
    """The statement, if it may run.

    Raises:
        SpecError: it is not one statement of SQL.
        Refused: it changes something and `write` is false.
    """
    from sqlglot import exp

    from lakeward.spec.sql.statements import SqlProblem, statements

    if write:
        return statement  # Spark reports errors in it
    try:
        statements_ = statements(statement)
    except SqlProblem as error:
        raise SpecError(
            "Cannot parse the SQL", why=str(error), next="correct it; write strings in '...'", code="LW-1222"
        ) from None
    if len(statements_) != 1:
        raise SpecError(
            "Expected exactly one SQL statement",
            why=f"the text has {len(statements_)} statements",
            next='lakeward sql "SELECT ..."',
            code="LW-1218",
        )
    parsed = statements_[0]
    reading = isinstance(parsed, exp.Query | exp.Values | exp.Describe | exp.Show) or _is_show(parsed)
    if not reading or parsed.find(exp.Into, exp.Insert, exp.Delete, exp.Update, exp.Merge):
        raise Refused(
            "The statement may change data",
            why=f"it is {_kind(parsed)}; without --write only a SELECT, VALUES, SHOW or DESCRIBE runs",
            next="repeat the command with --write, if this is intended",
            code="LW-1219",
        )
    called = {function.name.lower() for function in parsed.find_all(exp.Anonymous)}
    if called & _NOT_READING:
        raise Refused(
            f"{sorted(called & _NOT_READING)[0]}() runs Java code on the server",
            why="without --write only functions that read are allowed",
            next="repeat the command with --write, if this is intended",
            code="LW-1220",
        )
    return statement


def _is_show(parsed: object) -> bool:
    from sqlglot import exp

    return isinstance(parsed, exp.Command) and str(parsed.this).upper() == "SHOW"


def _kind(parsed: object) -> str:
    from sqlglot import exp

    return str(parsed.this).upper() if isinstance(parsed, exp.Command) else type(parsed).__name__.upper()


def refusal(error: Exception) -> LakewardError:
    """Spark's refusal in words: a part that does not answer is no fault of the statement."""
    if judge(text=str(error)).failure_class is FailureClass.DEPENDENCY:
        return DependencyDown(
            "What the statement needs does not answer",
            why=_reason(error).splitlines()[0],
            next="lakeward stack status",
            code="LW-1386",
        )
    return SpecError("Spark refused the statement", why=_reason(error), next=_next(error), code="LW-1221")


def _reason(error: Exception) -> str:
    """What Spark says of the statement, without its stack trace and without the plan below the sentence."""
    said = str(error).split("JVM stacktrace")[0].strip()
    return said.split(";\n'", 1)[0].split(";\n+-", 1)[0]


def _next(error: Exception) -> str:
    if "TABLE_OR_VIEW_NOT_FOUND" in str(error):
        return "lakeward tables health   shows the tables of the lake; a Delta table is spark_catalog.namespace.table"
    return "correct the statement and repeat the command"


def _value(value: Any) -> Any:
    """A cell as JSON: numbers stay numbers, other types that JSON lacks become text."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, date | Decimal | timedelta):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, dict):
        return {str(key): _value(item) for key, item in value.items()}
    if hasattr(value, "asDict"):
        return _value(value.asDict())
    if isinstance(value, list | tuple):
        return [_value(item) for item in value]
    return value
