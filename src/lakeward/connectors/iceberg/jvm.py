"""Iceberg's Java objects through py4j: the few calls the protocol needs, and what their exceptions mean.

All of it works on a classic Spark session (`foreachBatch` runs in the driver); objects are typed `Any` because py4j
knows their methods only at run time.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import ancestry, position
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg.check import TableState
from lakeward.platform.errors import Blocked, DependencyDown
from lakeward.platform.runtime import CATALOG
from lakeward.spec.sql.statements import quote_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPT = "lakeward.attempt"
"""Snapshot property with the attempt's id: tells a batch that went straight to main from one that was staged."""
WAP_ENABLED = "write.wap.enabled"


class Trouble(StrEnum):
    """What a failed call means for the protocol."""

    COMMIT_FAILED = "commit-failed"  # the table changed meanwhile: nothing was written
    UNKNOWN = "unknown"  # the answer was lost: it may or may not have happened
    CONFLICT = "conflict"  # another writer changed the files this write depends on
    REFUSED = "refused"  # Iceberg says no: already there, not fast-forward, snapshot gone
    UNREACHABLE = "unreachable"  # the catalog's database did not answer
    OTHER = "other"  # nothing of ours: a query that fails, a full disk


def load(session: SparkSession, table: str) -> Any:
    """The table `ns.name` of the lake as an `org.apache.iceberg.Table`, read afresh from the catalog.

    Raises:
        DependencyDown: the catalog does not answer.
        Blocked: there is no such table (`table-missing`).
    """
    util = session._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]  # classic sessions have a JVM
    try:
        return util.loadIcebergTable(session._jsparkSession, quote_table(table, CATALOG))
    except Exception as error:
        if trouble(error) in (Trouble.UNREACHABLE, Trouble.UNKNOWN):
            raise catalog_down(table, error) from None
        if says_gone(error):
            raise Blocked(
                f"There is no table {table}",
                why="it was dropped or renamed under the stream",
                next="bring it back from a backup of the catalog, or give the stream a new id and a new table",
                reason="table-missing",
                code="LW-3072",
            ) from None
        raise


def says_gone(error: BaseException) -> bool:
    """Whether a failed call found no table, or no namespace, of that name."""
    names = (each.getClass().getName().rpartition(".")[2] for each in _chain(error))
    return "TABLE_OR_VIEW_NOT_FOUND" in str(error) or not {
        "NoSuchTableException",
        "NoSuchNamespaceException",
    }.isdisjoint(names)


def metadata_of(table: Any) -> Any:
    """The metadata a table object was loaded with."""
    return table.operations().current()


def state_of(metadata: Any, stream: str, table: str) -> TableState:
    """All facts of step 1 out of one version of the metadata."""
    properties = metadata.properties()
    raw = properties.get(position.key(stream))
    parsed = position.parse(raw, stream, table) if raw is not None else None
    current = metadata.currentSnapshot()
    head = current.snapshotId() if current is not None else None

    def look_up(snapshot: int) -> ancestry.Link | None:
        return link_of(metadata.snapshot(snapshot))

    walked = ancestry.walk(head, look_up, parsed.snapshot if parsed else None, parsed.snapshot_seq if parsed else 0)
    return TableState(
        stream=stream,
        table=table,
        staging=str(properties.get(WAP_ENABLED)).lower() == "true",
        raw=raw,
        position=parsed,
        ancestry=walked,
        newest_seq=None if walked.right else ancestry.newest_of(stream, head, look_up),
    )


def others_of(metadata: Any, stream: str, table: str) -> dict[str, Position]:
    """The positions of the other streams that land in a table."""
    properties = metadata.properties()
    names = [name for name in position.streams_of(properties) if name != stream]
    return {name: position.parse(properties.get(position.key(name)), name, table) for name in names}


def link_of(snapshot: Any) -> ancestry.Link | None:
    """A Java snapshot as a link of a chain; None for null."""
    if snapshot is None:
        return None
    summary = snapshot.summary()
    return ancestry.Link(
        snapshot=snapshot.snapshotId(),
        seq=snapshot.sequenceNumber(),
        parent=snapshot.parentId(),
        operation=snapshot.operation() or "append",
        attempt=summary.get(ATTEMPT),
        wap_id=summary.get("wap.id") or summary.get("published-wap-id"),
        added=int(summary.get("added-records") or 0),
    )


def trouble(error: BaseException) -> Trouble:
    """What an exception from Spark or py4j means; the whole chain of causes is read."""
    names = [name for throwable in _chain(error) for name in (throwable.getClass().getName(),)]
    text = " ".join(str(throwable.getMessage()) for throwable in _chain(error))
    short = {name.rsplit(".", 1)[-1] for name in names}
    if "CommitStateUnknownException" in short:
        return Trouble.UNKNOWN
    if "CommitFailedException" in short:
        return Trouble.COMMIT_FAILED
    if short & {"CherrypickAncestorCommitException", "DuplicateWAPCommitException"}:
        return Trouble.REFUSED
    if "onflicting" in text and "ValidationException" in short:
        return Trouble.CONFLICT
    if short & {"UncheckedSQLException", "SQLException", "PSQLException", "SQLTransientConnectionException"}:
        return Trouble.UNREACHABLE
    if short & {"ConnectException", "ServiceUnavailableException", "RESTException", "ServiceFailureException"}:
        return Trouble.UNREACHABLE
    if "ValidationException" in short:
        return Trouble.REFUSED
    return Trouble.OTHER


def message(error: BaseException) -> str:
    """The first line of what the JVM said, or of the exception itself."""
    for throwable in _chain(error):
        said = throwable.getMessage()
        if said:
            return str(said).splitlines()[0]
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def catalog_down(table: str, error: BaseException) -> DependencyDown:
    """The error for a catalog that does not answer.

    Raise it `from None`: Spark matches the text of a failed `foreachBatch` against a pattern that overflows the stack
    of the query's thread on a long py4j trace, and the query then ends without any exception.
    """
    return DependencyDown(
        f"The catalog does not answer for table {table}",
        why=message(error),
        next="lakeward stack status   (the stream goes on by itself when the catalog is back)",
        code="LW-3071",
    )


def _chain(error: BaseException) -> Iterator[Any]:
    """The Java throwables of an exception, outermost first; nothing for a Python exception."""
    # py4j's own exceptions hold `java_exception`; those pyspark converted hold `_origin`.
    throwable = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(30):  # causes can point at themselves
        if throwable is None:
            return
        yield throwable
        throwable = throwable.getCause()
