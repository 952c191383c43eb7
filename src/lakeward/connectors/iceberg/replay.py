"""Landing rows of the quarantine in an Iceberg table, each exactly once: the act's token ties two tables together.

Two tables cannot be changed in one commit. So the token of an act is written three times, in this order:
1. *begin*: into the sink's property, by compare-and-set. Whoever had begun before can publish nothing any more.
2. *claim*: beside the rows in quarantine that are to land, unless another act has claimed them since they were read.
3. *publish*: the rows and `published`, in one commit on the sink, if the token of 1 still stands there.
From then on the claimed rows count as landed, whoever looks. 4. *settle* notes the time beside them; the next act does
that first where this one died. An act that dies before 3 leaves claims that mean nothing: its token is never published.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import replay
from lakeward.connectors.commit_protocol.attempt import ATTEMPTS, RetryCommit, pause
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.replay import Replay, Replayed
from lakeward.connectors.iceberg import jvm, publish, quarantine
from lakeward.connectors.iceberg.check import TableState, check_table
from lakeward.connectors.iceberg.publish import Take
from lakeward.connectors.iceberg.replay_markers import change
from lakeward.connectors.iceberg.stage import Staged
from lakeward.platform.errors import Refused, Transient
from lakeward.platform.runtime import CATALOG
from lakeward.spec.sql.statements import quote, quote_table, quote_text
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_CLAIMS = "_lw_claims"
OLD = "old"
"""Column of a claim: what stood in `replay` when the row was read."""


@dataclass(frozen=True)
class At:
    """The sink as one version of its metadata has it: the stream's state, and what it says of replays."""

    state: TableState
    raw: str | None
    newest: Replay


def look(session: SparkSession, table: str, stream: str) -> At:
    """The sink, read afresh."""
    return _at(jvm.metadata_of(jvm.load(session, table)), table, stream)


def begin(session: SparkSession, at: At, generation: int) -> At:
    """Step 1: put a new token in the place of the one that was read. Gives the sink as it then is.

    Raises:
        Refused: another act began since.
        Transient: other commits came first, every time.
    """
    table, stream = at.state.table, at.state.stream
    seq = at.newest.seq + 1
    made = Replay(
        seq=seq,
        token=f"{stream}/replay-{seq}/{secrets.token_hex(8)}",
        published=False,
        totals=at.newest.totals,
        generation=generation,
        at=_now(),
    )

    def write(transaction: Any) -> None:
        _same(transaction.startMetadata(), at)
        publish.commit(transaction, replay.key(stream), made.to_json())

    _commit(session, table, stream, write, lambda found: found == made.token)
    failpoints.hit("replay-begun")
    return At(at.state, made.to_json(), made)


def publish_rows(session: SparkSession, at: At, staged: Staged | None, more: Replayed, *, take: Take) -> Replay:
    """Step 3: make the rows visible and say so, both or neither.

    Args:
        at: as `begin` gave it, with the state the rows were sorted against.
        staged: the rows; None where all of them are dropped by the transform now, or are in the table already.
        more: what is added to the totals.
        take: makes the staged snapshot main's head within a transaction.

    Raises:
        Refused: another act began since, or the stream was reset.
        Redo: the rows must be staged again.
        Blocked: the table was rolled back or replaced.
    """
    table, stream = at.state.table, at.state.stream
    done = at.newest.model_copy(update={"published": True, "totals": at.newest.totals.plus(more), "at": _now()})

    def write(transaction: Any) -> None:
        start = transaction.startMetadata()
        _same(start, at)
        now = jvm.state_of(start, stream, table)
        halt = check_table(now)
        if halt is not None:
            raise halt.error()
        if not _still_passed(at.state.position, now.position):
            raise Refused(
                f"The quarantine of stream {stream} cannot be replayed now",
                why="the stream's position was moved by hand meanwhile: it may read these records again itself",
                next=f"lakeward streams status {stream}   then replay again",
                code="LW-3090",
            )
        if staged is not None:
            try:
                take(transaction, staged)
            except (publish.StagedGone, publish.HeadMoved) as moved:
                raise RetryCommit(f"publishing: {type(moved).__name__}") from moved
        publish.commit(transaction, replay.key(stream), done.to_json())

    _commit(session, table, stream, write, lambda _: False, published=done.token)
    return done


def claim(session: SparkSession, claims: DataFrame, table: str, at: At, identity: Sequence[str]) -> None:
    """Step 2: mark rows in quarantine with the act's token and what becomes of them.

    Args:
        claims: `source`, the identity columns, `old` and `became`, each record once. Rows, not a plan over tables: a
            MERGE looks those of its source up again, and Spark has no plan for that.
        table: the quarantine table.
        identity: the columns that identify a record of the source.

    Raises:
        Redo: another act has claimed one of them since they were read.
    """
    from pyspark.sql import functions as F

    token, stream = at.newest.token, at.state.stream
    columns = [quarantine.STREAM, quarantine.SOURCE, *identity]
    wanted = claims.withColumns({quarantine.STREAM: F.lit(stream), quarantine.REPLAY: F.lit(token)})
    wanted.createOrReplaceTempView(_CLAIMS)
    same = " AND ".join(f"q.{quote(each)} <=> s.{quote(each)}" for each in columns)
    into, mark, became = (quote(each) for each in (quarantine.REPLAYED_AT, quarantine.REPLAY, quarantine.BECAME))
    statement = (
        f"MERGE INTO {quote_table(table, CATALOG)} q USING {_CLAIMS} s ON {same} "
        f"AND q.{into} IS NULL AND q.{mark} <=> s.{quote(OLD)} "
        f"WHEN MATCHED THEN UPDATE SET q.{mark} = s.{mark}, q.{became} = s.{became}"
    )
    change(session, table, statement)
    there = session.table(quote_table(table, CATALOG)).where(
        (F.col(quarantine.STREAM) == stream) & (F.col(quarantine.REPLAY) == token)
    )
    if there.select(*columns).distinct().count() != claims.count():
        raise RetryCommit("claiming: another replay has taken some of the rows")
    failpoints.hit("replay-claimed")


def settle(session: SparkSession, table: str, at: At) -> None:
    """Step 4: note beside the rows of a published act that they are done. Does nothing where there are none."""
    from pyspark.sql import functions as F

    token = at.newest.done
    if token is None:
        return
    mine = (
        f"{quote(quarantine.STREAM)} = {quote_text(at.state.stream)} "
        f"AND {quote(quarantine.REPLAY)} = {quote_text(token)}"
    )
    _settle_moved(session, table, at, mine)
    named = session.table(quote_table(table, CATALOG)).where(F.col(quarantine.STREAM) == at.state.stream)
    if named.where((F.col(quarantine.REPLAY) == token) & F.col(quarantine.REPLAYED_AT).isNull()).first() is None:
        return
    into = quote(quarantine.REPLAYED_AT)
    statement = (
        f"UPDATE {quote_table(table, CATALOG)} SET {into} = current_timestamp() "  # noqa: S608  # quoted, all of it
        f"WHERE {mine} AND {into} IS NULL"
    )
    change(session, table, statement)
    failpoints.hit("replay-settled")


def _settle_moved(session: SparkSession, table: str, at: At, mine: str) -> None:
    """Rows that a published removal has moved here wait like all others from now on."""
    from pyspark.sql import functions as F

    rows = session.table(quote_table(table, CATALOG)).where(F.col(quarantine.STREAM) == at.state.stream)
    if rows.where(moved(at.newest.done)).first() is None:
        return
    blank = ", ".join(
        f"{quote(each)} = NULL" for each in (quarantine.REPLAY, quarantine.BECAME, quarantine.REPLAYED_AT)
    )
    statement = (
        f"UPDATE {quote_table(table, CATALOG)} SET {blank} "  # noqa: S608  # quoted, all of it
        f"WHERE {mine} AND {quote(quarantine.BECAME)} = {quote_text(quarantine.MOVING)}"
    )
    change(session, table, statement)
    failpoints.hit("removal-settled")


def moved(done: str | None) -> Column:
    """Rows that a published removal has put into quarantine, though they still bear its mark."""
    from pyspark.sql import functions as F

    mark = F.col(quarantine.REPLAY).eqNullSafe(F.lit(done or "")) & F.lit(done is not None)
    return mark & F.col(quarantine.BECAME).eqNullSafe(F.lit(quarantine.MOVING))


def pending(session: SparkSession, table: str, at: At) -> DataFrame:
    """The stream's rows in quarantine that nothing was made of yet."""
    from pyspark.sql import functions as F

    rows = session.table(quote_table(table, CATALOG)).where(F.col(quarantine.STREAM) == at.state.stream)
    done = at.newest.done
    waiting = F.col(quarantine.REPLAYED_AT).isNull() & ~F.col(quarantine.REPLAY).eqNullSafe(F.lit(done or ""))
    return rows.where(waiting | moved(done))


def _still_passed(before: Position | None, after: Position | None) -> bool:
    """Whether the stream has moved by its own batches alone, if at all: what it has passed it does not read again."""
    if before is None or after is None or after.query_id != before.query_id:
        return False
    return bool(before.query_id) or after.attempt == before.attempt


def _at(metadata: Any, table: str, stream: str) -> At:
    raw = metadata.properties().get(replay.key(stream))
    properties = {} if raw is None else {replay.key(stream): raw}
    return At(jvm.state_of(metadata, stream, table), raw, replay.of(properties, stream, table))


def _same(metadata: Any, at: At) -> None:
    """The property is what it was when it was read."""
    if metadata.properties().get(replay.key(at.state.stream)) != at.raw:
        raise Refused(
            f"The quarantine of stream {at.state.stream} is replayed by somebody else",
            why=f"another replay began on {at.state.table} after this one, and goes on; this one changed nothing",
            next="wait for it; then: lakeward quality replay " + at.state.table + " --dry-run",
            code="LW-3089",
        )


def _commit(
    session: SparkSession,
    table: str,
    stream: str,
    write: Callable[[Any], None],
    ours: Callable[[str], bool],
    *,
    published: str | None = None,
) -> None:
    """One commit on the sink, built again while other commits come first; a lost answer is looked up."""
    why = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            pause(attempt)
        try:
            write(jvm.load(session, table).newTransaction())
        except Exception as error:
            trouble = jvm.trouble(error)
            if trouble is jvm.Trouble.UNREACHABLE:
                raise jvm.catalog_down(table, error) from None
            if trouble in (jvm.Trouble.REFUSED, jvm.Trouble.CONFLICT):
                raise RetryCommit(f"publishing: {jvm.message(error)}") from error
            if trouble not in (jvm.Trouble.COMMIT_FAILED, jvm.Trouble.UNKNOWN):
                raise
            why = jvm.message(error)
            found = look(session, table, stream).newest
            if ours(found.token) or (published is not None and found.done == published):
                return  # it was done, and only the answer was lost
            continue
        return
    raise Transient(
        f"The quarantine of stream {stream} could not be replayed into {table}: contention",
        why=f"{ATTEMPTS} attempts met a table that had changed; last: {why}",
        next=f"look for other writers in lake.{table}.snapshots (lakeward sql)",
        code="LW-3088",
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
