"""Stages a batch in PostgreSQL: Spark writes it as text, COPY loads it into a temporary table of the session.

Rows neither pass through Python one by one nor are held in the driver's memory: Spark's tasks write files in COPY's
text format below `spark.local.dir` (only files of finished tasks are used), and libpq reads them in pieces.
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
    """Write the rows as files in COPY's text format; the caller removes the returned folder.

    Args:
        has: the columns of the target table.
    """
    from pyspark.sql import functions as F

    local = rows.sparkSession.sparkContext.getConf().get("spark.local.dir") or tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="lakeward-copy-", dir=local.split(",")[0]))
    texts = [types.copy_text(field.name, field.dataType, has[field.name].kind) for field in rows.schema.fields]
    try:
        line = rows.select(F.concat_ws("\t", *texts).alias("line"))
        line.write.option("compression", "none").text(f"file://{folder}/rows")
    except BaseException:
        remove(folder)
        raise
    return folder


def remove(folder: Path) -> None:
    """Remove the folder that `write` created."""
    shutil.rmtree(folder, ignore_errors=True)


def copy(link: connection, folder: Path, table: Name, names: Sequence[str], has: Mapping[str, Column]) -> int:
    """Load the files into a new temporary table with the target's types; returns the number of rows.

    Raises:
        SpecError: a text has a character that PostgreSQL cannot store.
        psycopg2.Error: PostgreSQL refuses a row, or does not answer.
    """
    definitions = ", ".join(f"{quote(name)} {has[name].declared}" for name in names)
    total = 0
    with link.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {STAGED}")
        cursor.execute(f"CREATE TEMPORARY TABLE {STAGED.rpartition('.')[2]} ({definitions})")
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
    """The rule, in Spark SQL, that every text passes which PostgreSQL can store."""
    return f"is_valid_utf8({column}) AND NOT contains({column}, char(0))"


def _not_text(file: Path, table: Name, names: Sequence[str], error: psycopg2.Error) -> SpecError:
    """The error for an invalid text. PostgreSQL names only the line, so the column is searched in the file."""
    column = "?"
    with file.open("rb") as lines:
        for line in lines:
            for name, value in zip(names, line.rstrip(b"\n").split(b"\t"), strict=False):
                if b"\x00" in value or value.decode("utf-8", "replace").encode() != value:
                    column = name
                    break
            else:
                continue
            break
    primary = (error.diag.message_primary or "").strip()
    return SpecError(
        f"A text of column {column} cannot be stored in table {table.text}",
        why=f"{primary}: PostgreSQL stores neither NUL characters nor invalid UTF-8",
        next="add a rule to the stream's file that moves such rows to quarantine: rules: "
        f"{{real_text: {rule_for(column)!r}}}, or remove the character in the transform: "
        f"replace({column}, char(0), ''); then: lakeward deploy",
        code="LW-3144",
    )


def count_keys(link: connection, keys: Sequence[str]) -> int:
    """The number of distinct keys of the staged rows."""
    [(count,)] = query(link, f"SELECT count(*) FROM (SELECT DISTINCT {listed(keys)} FROM {STAGED}) k")  # noqa: S608  # all quoted
    return int(count)


def duplicate_key(link: connection, keys: Sequence[str]) -> tuple[str, int] | None:
    """A key that several staged rows have, as text, and the number of its rows; None if every key is unique."""
    names = listed(keys)
    rows = query(link, f"SELECT {names}, count(*) FROM {STAGED} GROUP BY {names} HAVING count(*) > 1 LIMIT 1")  # noqa: S608  # all quoted
    if not rows:
        return None
    *values, count = rows[0]
    return ", ".join(f"{name}={value}" for name, value in zip(keys, values, strict=True)), int(count)


def source(names: Sequence[str], keys: Sequence[str], order: Sequence[str]) -> str:
    """The SELECT of the staged rows, without a condition; with `order` only the newest row of each key.

    Args:
        names, keys: columns.
        order: the columns that order rows of a key; null is the oldest.
    """
    if not order:
        return f"SELECT {listed(names)} FROM {STAGED}"  # noqa: S608  # all quoted
    newest = ", ".join(f"{quote(name)} DESC NULLS LAST" for name in order)
    inner = f"SELECT DISTINCT ON ({listed(keys)}) {listed(names)} FROM {STAGED} ORDER BY {listed(keys)}, {newest}"  # noqa: S608  # all quoted
    return f"SELECT {listed(names)} FROM ({inner}) newest"  # noqa: S608  # all quoted
