"""The quarantine table: invalid rows, inserted at most once per source record.

The insert is an anti-join on (stream, source position): a batch that runs again finds its invalid rows in the table. It
runs before the batch is published, so a record is in quarantine or in the sink before the position counts it. The
quarantine table needs no position of its own.

A row stays in quarantine after its record has landed: `replay` and `replayed_at` name the replay and its time, see
`lakeward.connectors.iceberg.replay`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from lakeward.connectors.iceberg import jvm, table
from lakeward.connectors.iceberg.qualified import in_lake, spoken
from lakeward.platform.errors import Transient
from lakeward.platform.text import word
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS, INGESTED_AT, POSITION_TYPES, RECORD_COLUMNS
from lakeward.spec.sql.statements import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

STREAM, SOURCE, REASON, RAW, ERROR = "stream", "source", "reason", "raw", "error"
KEPT, ROW, GENERATION = "kept", "row", "generation"
REPLAY, BECAME, REPLAYED_AT = "replay", "became", "replayed_at"
MOVING = "moving"
"""In `became`: a copy of a row that a removal takes out of its table; it counts once the removal is published."""
BACKFILL = "@backfill-"
"""The part of a backfill's position name between the stream and a number."""
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
"""The columns of the quarantine table: stream, source and position, reason, and the record's bytes.

`reason` is a short code (`decode`, or a rule's name), `error` the detail; `raw` can be read with
`CAST(raw AS STRING)`. Position columns of other connectors are null. `kept` says what `raw` contains: see `Kept`. `row`
is the row as JSON where a rule failed; `generation` is the generation whose rules and decoding were used. `replay` is
the token of the replay that took the row, `became` its outcome (`landed`, `filtered` or `present`), `replayed_at` the
time; all null until then.
"""


class Kept(StrEnum):
    """What the column `raw` contains."""

    RECORD = "record"  # the record's value; its key and headers are in their columns
    VALUE = "value"  # the record's value
    PART = "part"  # the beginning of the record's value, which is too long
    ROW = "row"  # the transform's row as JSON: it is not one record, or the record cannot be read again


_ATTEMPTS = 5
_PATH = "_file_path"


def quarantine_stream_name(position: str, table: str) -> str:
    """The stream name in quarantine for invalid rows of a position.

    Backfills are numbered per table, so two backfills into different tables have the same position name: the table is
    appended. Rebuilds are numbered per stream.
    """
    return f"{position} into {table}" if BACKFILL in position else position


def create(session: SparkSession, name: str) -> bool:
    """Create the quarantine table unless it exists; partitioned by stream, because reads and joins filter by stream."""
    columns = ", ".join(f"{column} {kind}" for column, kind in COLUMNS.items())
    created = table.create(session, name, session.createDataFrame([], columns).schema, partition_by=[STREAM])
    if not created:
        _complete(session, name)
    return created


def lacking(session: SparkSession, name: str) -> list[str]:
    """The columns that are missing in a quarantine table of an earlier version."""
    return [column for column in COLUMNS if column not in session.table(in_lake(session, name)).columns]


def _complete(session: SparkSession, name: str) -> None:
    """Add the missing columns to a table of an earlier version."""
    for attempt in range(_ATTEMPTS):
        missing = lacking(session, name)
        if not missing:
            return
        added = ", ".join(f"{quote(column)} {COLUMNS[column]}" for column in missing)
        try:
            session.sql(f"ALTER TABLE {in_lake(session, name)} ADD COLUMNS ({added})")
        except Exception:
            # Another stream with this table starts at the same time, and was first.
            session.catalog.refreshTable(in_lake(session, name))
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
        bad: columns of the quarantine table except `stream`; missing ones become null. Read twice: persist it if that
            is expensive. Each source record at most once.
        name: the quarantine table, `namespace.table`.
        stream: the stream of the rows.
        identity: the columns that identify a record of the source.
        generation: the generation whose decoding and rules rejected them.

    Raises:
        Transient: the table kept changing, or the catalog does not answer.
    """
    from pyspark.sql import functions as F

    session = bad.sparkSession
    shaped = shape(bad, stream, generation)
    key = [STREAM, SOURCE, *identity]

    def named(frame: DataFrame) -> list[Column]:
        """The key's columns; a record's bytes are hashed, because there may be a megabyte of them."""
        return [(F.sha2(frame[name], 256) if name == RAW else frame[name]).alias(f"key_{name}") for name in key]

    shaped = shaped.select("*", *named(shaped))
    for _ in range(_ATTEMPTS):
        known = _table(session, name, stream).where(F.col(STREAM) == stream)
        known = narrowed(known, shaped, identity)
        known = known.select(*named(known)).alias("known")
        same = [F.col(f"new.key_{column}").eqNullSafe(F.col(f"known.key_{column}")) for column in key]
        fresh = shaped.alias("new").join(F.broadcast(known), same, "left_anti").select(*COLUMNS)
        try:
            fresh.writeTo(in_lake(bad.sparkSession, name)).append()
        except Exception as error:
            trouble = jvm.trouble(error)
            if trouble is jvm.Trouble.UNREACHABLE:
                raise jvm.catalog_down(name, error) from None
            if jvm.is_missing(error):
                raise dropped(name, stream) from None
            if trouble in (jvm.Trouble.COMMIT_FAILED, jvm.Trouble.UNKNOWN):
                continue  # the anti-join of the next attempt finds out whether the rows were written
            raise
        return
    raise Transient(
        f"Rows of stream {stream} were not quarantined in {name}: contention",
        why=f"the table changed during each of {_ATTEMPTS} attempts",
        next=f"look for other writers by: lakeward sql {word(f'FROM {spoken(bad.sparkSession, name)}.snapshots')}",
        code="LW-3080",
    )


def _table(session: SparkSession, name: str, stream: str) -> DataFrame:
    """The quarantine table.

    Raises:
        Transient: there is none.
        DependencyDown: the catalog does not answer.
    """
    try:
        return session.table(in_lake(session, name))
    except Exception as error:
        if jvm.trouble(error) is jvm.Trouble.UNREACHABLE:
            raise jvm.catalog_down(name, error) from None
        if jvm.is_missing(error):
            raise dropped(name, stream) from None
        raise


def dropped(name: str, stream: str) -> Transient:
    """The error for a table that was dropped under a running stream: the next start creates it, or blocks the stream
    if rejected records were in it."""
    return Transient(
        f"Table {name}, which keeps rejected records of stream {stream}, does not exist any more",
        why="it was dropped or renamed while the stream ran; no record of this batch is lost, it runs again",
        next=f"lakeward streams start {stream}   creates it, or says which records were in it",
        code="LW-3451",
    )


def shape(bad: DataFrame, stream: str, generation: int) -> DataFrame:
    """Invalid rows with all columns of the quarantine table; missing ones are null."""
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
    """The part of a table that can have the records of `bad`: files are pruned by the range of offsets, or by the paths
    of the files that a batch read."""
    from pyspark.sql import functions as F

    if _PATH in identity:
        paths = [row[0] for row in bad.select(_PATH).distinct().collect()]
        return known.where(F.col(_PATH).isin([path for path in paths if path is not None]) | F.col(_PATH).isNull())
    numbers = [column for column in identity if POSITION_TYPES.get(column) == "BIGINT"]
    if not numbers:
        return known
    ends = [edge for column in numbers for edge in (F.min(column), F.max(column))]
    bounds = bad.agg(*ends).first()
    if bounds is None or bounds[0] is None:
        return known
    for index, column in enumerate(numbers):
        known = known.where(F.col(column).between(bounds[2 * index], bounds[2 * index + 1]))
    return known
