"""Rows kept aside: a table of our own, filled at most once per source record.

The insert is an anti-join on (stream, source position): a batch that is replayed finds its bad rows already there. It
runs before the batch is published, so a record is in quarantine or in the table before its position says it is done.
It needs no position of its own.

A row stays here when its record has landed after all: `replay` and `replayed_at` say when and by which act, see
`lakeward.connectors.iceberg.replay`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from lakeward.connectors.iceberg import jvm, table
from lakeward.platform.errors import Transient
from lakeward.platform.runtime import CATALOG
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS, INGESTED_AT, POSITION_TYPES, RECORD_COLUMNS
from lakeward.spec.sql.statements import quote, quote_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

STREAM, SOURCE, REASON, RAW, ERROR = "stream", "source", "reason", "raw", "error"
KEPT, ROW, GENERATION = "kept", "row", "generation"
REPLAY, BECAME, REPLAYED_AT = "replay", "became", "replayed_at"
MOVING = "moving"
"""In `became`: a copy of a row that a removal takes out of its table; it counts when the act is published."""
BACKFILL = "@backfill-"
"""In the name of a backfill's position, between the stream and a number."""
COLUMNS: dict[str, str] = {
    STREAM: "STRING",
    SOURCE: "STRING",
    **{name: kind for name, kind in POSITION_TYPES.items() if name != INGESTED_AT},
    REASON: "STRING",
    RAW: "BINARY",
    ERROR: "STRING",
    INGESTED_AT: "TIMESTAMP",
    KEPT: "STRING",
    **RECORD_COLUMNS["kafka"],
    ROW: "STRING",
    GENERATION: "INT",
    REPLAY: "STRING",
    BECAME: "STRING",
    REPLAYED_AT: "TIMESTAMP",
}
"""The quarantine table: whose row, where it came from, why it is here, the record's bytes as they came.

`reason` is a short code (`decode`, or a rule's name), `error` the detail; `raw` can be read with
`CAST(raw AS STRING)`. Position columns of other connectors are null. `kept` says what `raw` is: see `Kept`. `row` is
the row as JSON where a rule was broken, `generation` whose rules and decoding it was. `replay` is the act that took the
row, `became` what it made of it (`landed`, `filtered` or `present`), `replayed_at` when that was done; null until then.
"""


class Kept(StrEnum):
    """What is kept of a record."""

    RECORD = "record"  # its value, and its key and headers
    VALUE = "value"  # its value
    PART = "part"  # the beginning of its value: it is too long
    ROW = "row"  # what the transform made of it, as JSON: no one record is behind it, or it cannot be found again


_ATTEMPTS = 5
_PATH = "_file_path"


def put_aside_as(position: str, table: str) -> str:
    """The stream under whose name bad rows of a table of its own are put aside.

    Backfills are counted in each table by itself, so two into different tables have one name: with the table they have
    two. A rebuild's number is the stream's.
    """
    return f"{position} into {table}" if BACKFILL in position else position


def create(session: SparkSession, name: str) -> bool:
    """Create the quarantine table unless it exists; partitioned by stream, because it is read and joined by stream."""
    columns = ", ".join(f"{column} {kind}" for column, kind in COLUMNS.items())
    made = table.create(session, name, session.createDataFrame([], columns).schema, partition_by=[STREAM])
    if not made:
        _complete(session, name)
    return made


def lacking(session: SparkSession, name: str) -> list[str]:
    """The columns that a quarantine table of an earlier version does not have."""
    return [column for column in COLUMNS if column not in session.table(quote_table(name, CATALOG)).columns]


def _complete(session: SparkSession, name: str) -> None:
    """Give a table of an earlier version the columns it lacks."""
    for attempt in range(_ATTEMPTS):
        missing = lacking(session, name)
        if not missing:
            return
        added = ", ".join(f"{quote(column)} {COLUMNS[column]}" for column in missing)
        try:
            session.sql(f"ALTER TABLE {quote_table(name, CATALOG)} ADD COLUMNS ({added})")
        except Exception:
            # Another stream of this table starts too, and was first.
            session.catalog.refreshTable(quote_table(name, CATALOG))
            if attempt + 1 == _ATTEMPTS:
                raise


def insert(
    bad: DataFrame,
    name: str,
    stream: str,
    identity: Sequence[str] = IDENTITY_COLUMNS["kafka"],
    generation: int = 0,
) -> None:
    """Add the rows of `bad` that are not in quarantine yet.

    Args:
        bad: columns of the quarantine table but `stream`; missing ones become null. Read twice: persist it where
            that is dear. Each source record at most once.
        name: the quarantine table, `namespace.table`.
        stream: whose rows they are.
        identity: the columns that identify a record of the source.
        generation: whose decoding and rules found them bad.

    Raises:
        Transient: the table kept changing, or the catalog does not answer.
    """
    from pyspark.sql import functions as F

    session = bad.sparkSession
    shaped = shape(bad, stream, generation)
    key = [STREAM, SOURCE, *identity]

    def named(frame: DataFrame) -> list[Column]:
        """The key's columns; a record's bytes by their hash, for there may be a megabyte of them."""
        return [(F.sha2(frame[each], 256) if each == RAW else frame[each]).alias(f"key_{each}") for each in key]

    shaped = shaped.select("*", *named(shaped))
    for _ in range(_ATTEMPTS):
        known = session.table(quote_table(name, CATALOG)).where(F.col(STREAM) == stream)
        known = narrowed(known, shaped, identity)
        known = known.select(*named(known)).alias("known")
        same = [F.col(f"new.key_{column}").eqNullSafe(F.col(f"known.key_{column}")) for column in key]
        fresh = shaped.alias("new").join(F.broadcast(known), same, "left_anti").select(*COLUMNS)
        try:
            fresh.writeTo(quote_table(name, CATALOG)).append()
        except Exception as error:
            trouble = jvm.trouble(error)
            if trouble is jvm.Trouble.UNREACHABLE:
                raise jvm.catalog_down(name, error) from None
            if trouble in (jvm.Trouble.COMMIT_FAILED, jvm.Trouble.UNKNOWN):
                continue  # whether it is there or not, the anti-join finds out
            raise
        return
    raise Transient(
        f"Rows of stream {stream} could not be put aside in {name}: contention",
        why=f"{_ATTEMPTS} attempts met a table that had changed",
        next=f"look for other writers in lake.{name}.snapshots (lakeward sql)",
        code="LW-3080",
    )


def shape(bad: DataFrame, stream: str, generation: int) -> DataFrame:
    """Bad rows with all columns of the quarantine table; those they lack are null."""
    from pyspark.sql import functions as F

    bad = bad.withColumn(GENERATION, F.lit(generation))
    given = set(bad.columns)
    return bad.select(
        F.lit(stream).alias(STREAM),
        *(
            (F.col(column) if column in given else F.lit(None)).cast(kind).alias(column)
            for column, kind in COLUMNS.items()
            if column != STREAM
        ),
    )


def narrowed(known: DataFrame, bad: DataFrame, identity: Sequence[str]) -> DataFrame:
    """Only the part of a table that can hold the records of `bad`: files are pruned by the range of offsets, or by the
    paths of the files a batch has read."""
    from pyspark.sql import functions as F

    if _PATH in identity:
        paths = [row[0] for row in bad.select(_PATH).distinct().collect()]
        return known.where(F.col(_PATH).isin([path for path in paths if path is not None]) | F.col(_PATH).isNull())
    numbers = [column for column in identity if POSITION_TYPES.get(column) == "BIGINT"]
    if not numbers:
        return known
    ends = [edge for column in numbers for edge in (F.min(column), F.max(column))]
    found = bad.agg(*ends).first()
    if found is None or found[0] is None:
        return known
    for index, column in enumerate(numbers):
        known = known.where(F.col(column).between(found[2 * index], found[2 * index + 1]))
    return known
