"""Changing the marks beside rows in quarantine: one statement, again while running streams add rows to the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.attempt import ATTEMPTS, pause
from lakeward.connectors.iceberg import jvm
from lakeward.platform.errors import Transient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def change(session: SparkSession, table: str, statement: str) -> None:
    """One statement on the quarantine; it may be repeated.

    Raises:
        Transient: the table kept changing, or the catalog does not answer.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            pause(attempt)
        try:
            session.sql(statement).collect()
        except Exception as error:
            trouble = jvm.trouble(error)
            if trouble is jvm.Trouble.UNREACHABLE:
                raise jvm.catalog_down(table, error) from None
            if trouble is jvm.Trouble.OTHER:
                raise
            why = jvm.message(error)
            continue
        return
    raise Transient(
        f"The rows in {table} could not be marked: contention",
        why=f"{ATTEMPTS} attempts met a table that had changed; last: {why}",
        next=f"look for other writers in lake.{table}.snapshots (lakeward sql); then give the same command again",
        code="LW-3091",
    )
