"""Column profile of a Delta table: from the log where that is exact, and one aggregate over the rows for the rest."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from lakeward.connectors.delta import log
from lakeward.connectors.delta.log import Head
from lakeward.platform.errors import expect
from lakeward.quality.delta.commits import rows_of
from lakeward.quality.delta.stats import file_statistics
from lakeward.quality.delta.table import DeltaTable
from lakeward.quality.ranges.file_statistics import ColumnFacts
from lakeward.quality.ranges.range import Read
from lakeward.quality.suite.column_facts import MOST_ROWS, aggregate, recent, with_unique
from lakeward.quality.suite.propose import ColumnProfile, TableProfile
from lakeward.spec.model.position_columns import OWN_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

_COMMITS = 1000
"""Newest versions whose times are compared: each is a file of the log."""
_KINDS = {
    **dict.fromkeys(("byte", "short", "integer", "long"), "integer"),
    **dict.fromkeys(("float", "double"), "number"),
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), "time"),
    "string": "text",
}


def profile_columns(table: DeltaTable, session: SparkSession) -> tuple[TableProfile, DataFrame]:
    """The column profile a suite is proposed from, and the rows that were read for it.

    Raises:
        LakewardError: the table does not exist, or its log cannot be read.
    """
    history, _ = table.look(())
    version, head = expect(history.head, "a version"), expect(log.head(table.folder), "a table")
    files = log.live(head) or ()
    counts = [rows_of(each) for each in files]
    total = sum(filter(None, counts)) if None not in counts else None
    stated = file_statistics(head, files)
    columns = [
        _known(head, field, stated.columns.get(str(field["name"])) if stated is not None else None)
        for field in head.fields
        if field["name"] not in OWN_COLUMNS
    ]
    small = total is not None and total <= MOST_ROWS
    read = Read(None, version) if small else recent(history, version)
    frame = table.rows(session, read)
    times = {str(field["name"]) for field in head.fields if field["type"] in ("timestamp", "timestamp_ntz")}
    partly = read.start is not None and any(each.nulls is None for each in columns)  # then nulls are of what was read
    count, columns = aggregate(frame, columns, times)
    appends = tuple(
        (each.at, each.added)
        for each in islice(history.ancestry(version), _COMMITS)
        if each.operation == "append" and each.added
    )
    rows = count if partly or total is None else total
    return with_unique(frame, TableProfile(table.name, rows, count, version, tuple(columns), appends)), frame


def _known(head: Head, field: dict[str, Any], facts: ColumnFacts | None) -> ColumnProfile:
    name, kind = str(field["name"]), _kind(field["type"])
    numeric = facts is not None and facts.bounded and kind in ("integer", "number")
    return ColumnProfile(
        name,
        kind,
        nulls=facts.nulls if facts is not None else None,
        low=facts.low if facts is not None and numeric else None,
        high=facts.high if facts is not None and numeric else None,
        required=field.get("nullable") is False,
        partition=name in head.partition_columns,
    )


def _kind(stated: Any) -> str:
    if isinstance(stated, dict):
        return str(stated.get("type"))
    return "number" if str(stated).startswith("decimal") else _KINDS.get(str(stated), str(stated))
