"""Replay: lands quarantined rows in an Iceberg table, each exactly once; a token ties the two tables together.

One commit cannot change two tables. So a replay writes its token in three steps:
1. *begin* writes it into the sink's property, by compare-and-set. An earlier replay cannot publish from then on.
2. *claim* writes it into the rows in quarantine that will land, unless another replay has claimed them since the read.
3. *publish* commits the rows and `published` in one commit on the sink, if the property still has the token of step 1.
From then on every reader counts the claimed rows as landed. 4. *settle* writes the time into them; if this replay died
before, the next one settles first. Claims of a replay that dies before step 3 have no effect: its token is never
published.
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
from lakeward.connectors.iceberg import fence, jvm, publish, quarantine
from lakeward.connectors.iceberg.check import TableState, check_table
from lakeward.connectors.iceberg.publish import Take
from lakeward.connectors.iceberg.qualified import in_lake, prefix, spoken
from lakeward.connectors.iceberg.replay_markers import change
from lakeward.connectors.iceberg.stage import Staged
from lakeward.platform.errors import Refused, Transient
from lakeward.platform.text import word
from lakeward.spec.sql.statements import quote, quote_text
from lakeward.telemetry import failpoints

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_CLAIMS = "_lw_claims"
OLD = "old"
"""Column of a claim: the value of `replay` when the row was read."""


@dataclass(frozen=True)
class ReplayState:
    """The sink in one version of its metadata: the stream's state and its replay state."""

    state: TableState
    raw: str | None
    newest: Replay


def read_state(session: SparkSession, table: str, stream: str) -> ReplayState:
    """Read the sink's state, without a cache."""
    return _at(jvm.metadata_of(jvm.load(session, table)), table, stream)


def begin(session: SparkSession, at: ReplayState, generation: int) -> ReplayState:
    """Step 1: replace the token that was read by a new one. Returns the sink after it.

    Raises:
        Refused: another replay or removal began in between.
        Transient: other commits came first at every attempt.
    """
    table, stream = at.state.table, at.state.stream
    seq = at.newest.seq + 1
    begun = Replay(
        seq=seq,
        token=f"{stream}/replay-{seq}/{secrets.token_hex(8)}",
        published=False,
        totals=at.newest.totals,
        generation=generation,
        at=_now(),
    )

    def write(transaction: Any) -> None:
        _same(transaction.startMetadata(), at)
        fence.move_tag(transaction, stream)
        publish.commit(transaction, replay.key(stream), begun.to_json())

    _commit(session, table, stream, write, lambda token: token == begun.token)
    failpoints.hit("replay-begun")
    return ReplayState(at.state, begun.to_json(), begun)


def publish_rows(
    session: SparkSession, at: ReplayState, staged: Staged | None, more: Replayed, *, take: Take
) -> Replay:
    """Step 3: make the rows visible and set `published`, in one commit.

    Args:
        at: the result of `begin`, with the state for which the rows were routed.
        staged: the rows; None if the transform now drops all of them, or they are in the table already.
        more: the counts to add to the totals.
        take: makes the staged snapshot main's head within a transaction.

    Raises:
        Refused: another replay or removal began in between, or the stream was reset.
        RetryCommit: the rows must be staged again.
        Blocked: the table was rolled back or replaced.
    """
    table, stream = at.state.table, at.state.stream
    done = at.newest.model_copy(update={"published": True, "totals": at.newest.totals.plus(more), "at": _now()})

    def write(transaction: Any) -> None:
        start = transaction.startMetadata()
        _same(start, at)
        now = jvm.state_of(start, stream, table)
        halt = check_table(now, prefix(session, table))
        if halt is not None:
            raise halt.error()
        if not _only_advanced(at.state.position, now.position):
            raise Refused(
                f"The quarantine of stream {stream} cannot be replayed now",
                why="an operation moved the stream's position, so the stream may read these records again",
                next=f"lakeward streams status {stream}   then replay again",
                code="LW-3090",
            )
        if staged is not None:
            try:
                take(transaction, staged)
            except (publish.StagedGone, publish.HeadMoved) as moved:
                raise RetryCommit(f"publishing: {type(moved).__name__}") from moved
        fence.move_tag(transaction, stream)
        publish.commit(transaction, replay.key(stream), done.to_json())

    _commit(session, table, stream, write, lambda _: False, published=done.token)
    return done


def claim(session: SparkSession, claims: DataFrame, table: str, at: ReplayState, identity: Sequence[str]) -> None:
    """Step 2: mark rows in quarantine with the replay's token and their outcome.

    Args:
        claims: `source`, the identity columns, `old` and `became`, each record once. Materialized rows, not a plan over
            tables: a MERGE looks the rows of its source up again, and Spark cannot plan that.
        table: the quarantine table.
        identity: the columns that identify a record of the source.

    Raises:
        RetryCommit: another replay has claimed one of them since they were read.
    """
    from pyspark.sql import functions as F

    token, stream = at.newest.token, at.state.stream
    columns = [quarantine.STREAM, quarantine.SOURCE, *identity]
    marked = claims.withColumns({quarantine.STREAM: F.lit(stream), quarantine.REPLAY: F.lit(token)})
    marked.createOrReplaceTempView(_CLAIMS)
    same = " AND ".join(f"q.{quote(column)} <=> s.{quote(column)}" for column in columns)
    replayed_at, mark, became = (
        quote(column) for column in (quarantine.REPLAYED_AT, quarantine.REPLAY, quarantine.BECAME)
    )
    statement = (
        f"MERGE INTO {in_lake(session, table)} q USING {_CLAIMS} s ON {same} "
        f"AND q.{replayed_at} IS NULL AND q.{mark} <=> s.{quote(OLD)} "
        f"WHEN MATCHED THEN UPDATE SET q.{mark} = s.{mark}, q.{became} = s.{became}"
    )
    change(session, table, statement)
    claimed = session.table(in_lake(session, table)).where(
        (F.col(quarantine.STREAM) == stream) & (F.col(quarantine.REPLAY) == token)
    )
    if claimed.select(*columns).distinct().count() != claims.count():
        raise RetryCommit("claiming: another replay has claimed some of the rows")
    failpoints.hit("replay-claimed")


def settle(session: SparkSession, table: str, at: ReplayState) -> None:
    """Step 4: set `replayed_at` of the rows of a published replay. Does nothing if there are none."""
    from pyspark.sql import functions as F

    token = at.newest.done
    if token is None:
        return
    own_rows = (
        f"{quote(quarantine.STREAM)} = {quote_text(at.state.stream)} "
        f"AND {quote(quarantine.REPLAY)} = {quote_text(token)}"
    )
    _settle_moved(session, table, at, own_rows)
    rows = session.table(in_lake(session, table)).where(F.col(quarantine.STREAM) == at.state.stream)
    if rows.where((F.col(quarantine.REPLAY) == token) & F.col(quarantine.REPLAYED_AT).isNull()).first() is None:
        return
    replayed_at = quote(quarantine.REPLAYED_AT)
    statement = (
        f"UPDATE {in_lake(session, table)} SET {replayed_at} = current_timestamp() "  # noqa: S608  # quoted, all of it
        f"WHERE {own_rows} AND {replayed_at} IS NULL"
    )
    change(session, table, statement)
    failpoints.hit("replay-settled")


def _settle_moved(session: SparkSession, table: str, at: ReplayState, own_rows: str) -> None:
    """Reset the marks of rows that a published removal has moved into quarantine: they are pending like all others."""
    from pyspark.sql import functions as F

    rows = session.table(in_lake(session, table)).where(F.col(quarantine.STREAM) == at.state.stream)
    if rows.where(moved(at.newest.done)).first() is None:
        return
    blank = ", ".join(
        f"{quote(column)} = NULL" for column in (quarantine.REPLAY, quarantine.BECAME, quarantine.REPLAYED_AT)
    )
    statement = (
        f"UPDATE {in_lake(session, table)} SET {blank} "  # noqa: S608  # quoted, all of it
        f"WHERE {own_rows} AND {quote(quarantine.BECAME)} = {quote_text(quarantine.MOVING)}"
    )
    change(session, table, statement)
    failpoints.hit("removal-settled")


def moved(done: str | None) -> Column:
    """Condition of rows that a published removal has moved into quarantine and that still have its mark."""
    from pyspark.sql import functions as F

    mark = F.col(quarantine.REPLAY).eqNullSafe(F.lit(done or "")) & F.lit(done is not None)
    return mark & F.col(quarantine.BECAME).eqNullSafe(F.lit(quarantine.MOVING))


def pending(session: SparkSession, table: str, at: ReplayState) -> DataFrame:
    """The stream's rows in quarantine that were not replayed yet."""
    from pyspark.sql import functions as F

    rows = session.table(in_lake(session, table)).where(F.col(quarantine.STREAM) == at.state.stream)
    done = at.newest.done
    waiting = F.col(quarantine.REPLAYED_AT).isNull() & ~F.col(quarantine.REPLAY).eqNullSafe(F.lit(done or ""))
    return rows.where(waiting | moved(done))


def _only_advanced(before: Position | None, after: Position | None) -> bool:
    """Whether only the stream's own batches moved the position, if at all: then it does not read its records again."""
    if before is None or after is None or after.query_id != before.query_id:
        return False
    return bool(before.query_id) or after.attempt == before.attempt


def _at(metadata: Any, table: str, stream: str) -> ReplayState:
    raw = metadata.properties().get(replay.key(stream))
    properties = {} if raw is None else {replay.key(stream): raw}
    return ReplayState(jvm.state_of(metadata, stream, table), raw, replay.of(properties, stream, table))


def _same(metadata: Any, at: ReplayState) -> None:
    """Raise `Refused` unless the property is unchanged since it was read."""
    if metadata.properties().get(replay.key(at.state.stream)) != at.raw:
        raise Refused(
            f"The quarantine of stream {at.state.stream} was not replayed: another replay is running",
            why=f"it began on {at.state.table} after this one and continues; this one changed nothing",
            next="wait until it ends; then: lakeward quality replay " + at.state.table + " --dry-run",
            code="LW-3089",
        )


def _commit(
    session: SparkSession,
    table: str,
    stream: str,
    write: Callable[[Any], None],
    is_own: Callable[[str], bool],
    *,
    published: str | None = None,
) -> None:
    """Commit once on the sink, rebuilt while other commits come first; after a lost answer the table is read."""
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
            newest = read_state(session, table, stream).newest
            if is_own(newest.token) or (published is not None and newest.done == published):
                return  # the commit was done, and only the answer was lost
            continue
        return
    raise Transient(
        f"The quarantine of stream {stream} was not replayed into {table}: contention",
        why=f"the table changed during each of {ATTEMPTS} attempts; last: {why}",
        next=f"look for other writers by: lakeward sql {word(f'FROM {spoken(session, table)}.snapshots')}",
        code="LW-3088",
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
