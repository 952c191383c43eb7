"""Updates the marker columns of quarantined rows: one statement, retried while running streams insert rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.attempt import ATTEMPTS, pause
from lakeward.connectors.iceberg import jvm
from lakeward.connectors.iceberg.qualified import spoken
from lakeward.platform.errors import Transient
from lakeward.platform.text import word

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def change(session: SparkSession, table: str, statement: str) -> None:
    """Run one statement on the quarantine table; it must be repeatable.

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
        f"The rows in {table} were not marked: contention",
        why=f"the table changed during each of {ATTEMPTS} attempts; last: {why}",
        next=f"look for other writers by: lakeward sql {word(f'FROM {spoken(session, table)}.snapshots')}   "
        "then repeat the command",
        code="LW-3091",
    )
