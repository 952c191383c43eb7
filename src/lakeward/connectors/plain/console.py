"""Console sink, for inspection: logs some rows of each batch as JSON in the driver's log, and counts the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from lakeward.connectors.row_json import TIMES
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = structlog.get_logger(__name__)

LONGEST = 1000
"""A row's text is cut after this many characters, so that large rows do not fill the log."""


def write(rows: DataFrame, stream: str, batch: int, most: int) -> None:
    """Log up to `most` rows of a batch. `rows` must be persisted: it is read twice."""
    from pyspark.sql import functions as F

    whole = F.to_json(F.struct(*(F.col(quote(name)) for name in rows.columns)), TIMES | {"ignoreNullFields": "false"})
    shown = [str(row[0]) for row in rows.select(whole).limit(most).collect()]
    for text in shown:
        cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
        _log.info("row", stream=stream, batch=batch, row=cut)
    hidden = rows.count() - len(shown)
    if hidden:
        _log.info("rows not shown", stream=stream, batch=batch, rows=hidden, shown=len(shown))
