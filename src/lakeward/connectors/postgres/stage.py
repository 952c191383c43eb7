"""A batch on its way into PostgreSQL: Spark writes it as text, COPY takes it into a table that only this session sees.

Rows never pass through Python one by one, and never stand in the driver's memory: Spark's tasks write files in COPY's
own format below `spark.local.dir`, of which only those of finished tasks count, and libpq reads them in pieces.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg2

from lakeward.connectors.postgres import types
from lakeward.connectors.postgres.columns import Column
from lakeward.connectors.postgres.name import Name, listed, quote
from lakeward.connectors.postgres.table import query
from lakeward.platform.errors import SpecError

if TYPE_CHECKING:
    from psycopg2.extensions import connection
    from pyspark.sql import DataFrame

STAGED = 'pg_temp."lakeward_batch"'
_PIECE_BYTES = 1 << 16
_NOT_TEXT = "22021"


def write(rows: DataFrame, has: Mapping[str, Column]) -> Path:
    """The rows as files in COPY's text format; the caller removes the folder.

    Args:
        has: the columns of the table they go into.
    """
    from pyspark.sql import functions as F

    local = rows.sparkSession.sparkContext.getConf().get("spark.local.dir") or tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="lakeward-copy-", dir=local.split(",")[0]))
    texts = [types.written(field.name, field.dataType, has[field.name].kind) for field in rows.schema.fields]
    try:
        line = rows.select(F.concat_ws("\t", *texts).alias("line"))
        line.write.option("compression", "none").text(f"file://{folder}/rows")
    except BaseException:
        remove(folder)
        raise
    return folder


def remove(folder: Path) -> None:
    """Remove what `write` made."""
    shutil.rmtree(folder, ignore_errors=True)


def copy(link: connection, folder: Path, table: Name, names: Sequence[str], has: Mapping[str, Column]) -> int:
    """Take the files into a fresh temporary table of the target's types. Gives how many rows they are.

    Raises:
        SpecError: a text holds what PostgreSQL's cannot.
        psycopg2.Error: it refuses a row, or is away.
    """
    made = ", ".join(f"{quote(name)} {has[name].declared}" for name in names)
    total = 0
    with link.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {STAGED}")
        cursor.execute(f"CREATE TEMPORARY TABLE {STAGED.rpartition('.')[2]} ({made})")
        for file in sorted((folder / "rows").glob("part-*")):
            with file.open("rb") as lines:
                try:
                    cursor.copy_expert(f"COPY {STAGED} ({listed(names)}) FROM STDIN", lines, _PIECE_BYTES)
                except psycopg2.DataError as error:
                    if error.pgcode == _NOT_TEXT:
                        raise _not_text(file, table, names, error) from None
                    raise
            total += cursor.rowcount
    return total


def rule_for(column: str) -> str:
    """The rule, in Spark SQL, that holds for every text PostgreSQL takes."""
    return f"is_valid_utf8({column}) AND NOT contains({column}, char(0))"


def _not_text(file: Path, table: Name, names: Sequence[str], error: psycopg2.Error) -> SpecError:
    """PostgreSQL says no more than the line; which column it is, its file tells."""
    where = "a column"
    with file.open("rb") as lines:
        for line in lines:
            for name, value in zip(names, line.rstrip(b"\n").split(b"\t"), strict=False):
                if b"\x00" in value or value.decode("utf-8", "replace").encode() != value:
                    where = name
                    break
            else:
                continue
            break
    primary = (error.diag.message_primary or "").strip()
    return SpecError(
        f"A text of column {where} cannot stand in table {table.text}",
        why=f"{primary}: PostgreSQL's text holds no NUL character and nothing that is not Unicode",
        next=f"let a rule put such rows into quarantine: rules: {{real_text: {rule_for(where)!r}}}, or take it out in "
        f"the transform: replace({where}, char(0), ''); then: lakeward deploy",
        code="LW-3144",
    )


def distinct(link: connection, keys: Sequence[str]) -> int:
    """How many keys the staged rows have."""
    [(count,)] = query(link, f"SELECT count(*) FROM (SELECT DISTINCT {listed(keys)} FROM {STAGED}) k")  # noqa: S608  # all quoted
    return int(count)


def twice(link: connection, keys: Sequence[str]) -> tuple[str, int] | None:
    """A key that several staged rows have, in words, and how many; None where there is none."""
    names = listed(keys)
    found = query(link, f"SELECT {names}, count(*) FROM {STAGED} GROUP BY {names} HAVING count(*) > 1 LIMIT 1")  # noqa: S608  # all quoted
    if not found:
        return None
    *values, count = found[0]
    return ", ".join(f"{name}={value}" for name, value in zip(keys, values, strict=True)), int(count)


def source(names: Sequence[str], keys: Sequence[str], order: Sequence[str]) -> str:
    """The staged rows as a SELECT; with an order, the newest of each key only. Ends where a condition may follow.

    Args:
        names, keys: columns.
        order: columns that say which of two rows is newer, null the oldest.
    """
    if not order:
        return f"SELECT {listed(names)} FROM {STAGED}"  # noqa: S608  # all quoted
    newest = ", ".join(f"{quote(name)} DESC NULLS LAST" for name in order)
    inner = f"SELECT DISTINCT ON ({listed(keys)}) {listed(names)} FROM {STAGED} ORDER BY {listed(keys)}, {newest}"  # noqa: S608  # all quoted
    return f"SELECT {listed(names)} FROM ({inner}) newest"  # noqa: S608  # all quoted
