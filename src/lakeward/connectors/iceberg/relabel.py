"""Renames quarantined rows after a rebuild: the rows of the fill become the stream's, its old rows get another name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.attempt import ATTEMPTS, pause
from lakeward.connectors.iceberg import jvm
from lakeward.connectors.iceberg.qualified import in_lake
from lakeward.connectors.iceberg.quarantine import STREAM
from lakeward.connectors.kafka.position import Offsets
from lakeward.platform.errors import Transient
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS, INGESTED_AT
from lakeward.spec.sql.statements import quote, quote_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def forget(session: SparkSession, table: str, stream: str) -> None:
    """Remove the quarantined rows of an earlier, dropped fill of the same name."""
    delete = f"DELETE FROM {in_lake(session, table)} WHERE {_of(stream)}"  # noqa: S608  # through quote_text
    _until(session, table, delete, lambda: not _any(session, table, stream))


def relabel(
    session: SparkSession, table: str, stream: str, fill: str, before: str, end: Offsets, at: str, *, rows: bool
) -> None:
    """Rename the fill's rows to the stream, and the stream's rows of the same records to `before`, in one commit.

    Safe to repeat: if the fill had rows and has none any more, the rename is done.

    Args:
        table: the quarantine table; may not exist.
        stream, fill, before: names in its column `stream`.
        end: where the fill ended (exclusive). The stream's rows from there on belong to the new table.
        at: when the fill ended (RFC 3339): it identifies old rows that have no source position.
        rows: whether the fill quarantined any rows.
    """
    topic, partition, offset = (quote(column) for column in IDENTITY_COLUMNS["kafka"])
    # UPDATE accepts no bound values, so these are literals: every text goes through quote_text, the rest are numbers.
    parts = [
        f"({topic} = {quote_text(name)} AND {partition} = {int(number)} AND {offset} < {int(to)})"
        for name, numbers in end.items()
        for number, to in numbers.items()
    ]
    untraced = f"({offset} IS NULL AND {quote(INGESTED_AT)} < TIMESTAMP {quote_text(at)})"
    old = " OR ".join([*parts, untraced])
    _until(
        session,
        table,
        f"UPDATE {in_lake(session, table)} SET {quote(STREAM)} = "  # noqa: S608  # see above
        f"CASE WHEN {_of(fill)} THEN {quote_text(stream)} ELSE {quote_text(before)} END "
        f"WHERE {_of(fill)} OR ({_of(stream)} AND ({old}))",
        lambda: rows and not _any(session, table, fill),
    )


def _any(session: SparkSession, table: str, stream: str) -> bool:
    return bool(session.table(in_lake(session, table)).where(_of(stream)).head(1))


def _until(session: SparkSession, table: str, statement: str, done: Callable[[], bool]) -> None:
    """Run the statement once, with retries: other streams insert into the same table, and an answer may be lost."""
    if not session.catalog.tableExists(in_lake(session, table)):
        return
    for attempt in range(ATTEMPTS):
        if attempt:
            pause(attempt)
        session.catalog.refreshTable(in_lake(session, table))
        if done():
            return
        try:
            session.sql(statement)
        except Exception as error:
            trouble = jvm.trouble(error)
            if trouble is jvm.Trouble.UNREACHABLE:
                raise jvm.catalog_down(table, error) from None
            if trouble not in (jvm.Trouble.COMMIT_FAILED, jvm.Trouble.CONFLICT, jvm.Trouble.UNKNOWN):
                raise
        else:
            return
    raise Transient(
        f"Rows in {table} were not renamed: contention",
        why=f"the table changed during each of {ATTEMPTS} attempts",
        next="repeat the command",
        code="LW-3082",
    )


def _of(stream: str) -> str:
    return f"{quote(STREAM)} = {quote_text(stream)}"
