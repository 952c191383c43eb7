"""Iceberg's Java API through py4j: the calls the commit protocol needs, and the meaning of their exceptions.

Every function needs a classic Spark session (`foreachBatch` runs in the driver). Objects are typed `Any`, because py4j
resolves their methods at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import ancestry, position
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.iceberg.check import TableState
from lakeward.connectors.iceberg.qualified import catalog_of, in_lake
from lakeward.platform.errors import Blocked, DependencyDown
from lakeward.spec.model import iceberg_properties as parsed_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPT = "lakeward.attempt"
"""Snapshot property with the attempt's id: it identifies a batch also if it was written to main without staging."""
WAP_ENABLED = "write.wap.enabled"

_DENIED = frozenset({"NotAuthorizedException", "ForbiddenException"})
_GLUE = "software.amazon.awssdk.services.glue."
_GLUE_REFUSES = frozenset({f"{_GLUE}model.AccessDeniedException", f"{_GLUE}model.GlueException"})
"""Of a privilege, and of everything without a class of its own: keys, signatures, tokens."""
_GLUE_FAILS = frozenset(
    f"{_GLUE}model.{name}Exception" for name in ("InternalService", "OperationTimeout", "Throttling")
)


class Trouble(StrEnum):
    """What a failed call means for the protocol."""

    COMMIT_FAILED = "commit-failed"  # another commit came first: nothing was written
    UNKNOWN = "unknown"  # the answer was lost: it may or may not have happened
    CONFLICT = "conflict"  # another writer changed the files this write depends on
    REFUSED = "refused"  # Iceberg refused: already published, not a fast-forward, snapshot missing
    UNREACHABLE = "unreachable"  # the catalog did not answer, or refused the login or a privilege
    OTHER = "other"  # not an error of the protocol: a failed query, a full disk


def load(session: SparkSession, table: str) -> Any:
    """Load the table `ns.name` of the lake from the catalog as an `org.apache.iceberg.Table`, without a cache.

    Raises:
        DependencyDown: the catalog does not answer.
        Blocked: there is no such table (`table-missing`).
    """
    util = session._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]  # classic sessions have a JVM
    try:
        # Iceberg takes the name of a catalog that cannot be loaded for a namespace, in which there is no such table.
        session._jsparkSession.sessionState().catalogManager().catalog(catalog_of(session, table))
        return util.loadIcebergTable(session._jsparkSession, in_lake(session, table))
    except Exception as error:
        if _denied(error):
            _forget_token(session)
        if trouble(error) in (Trouble.UNREACHABLE, Trouble.UNKNOWN):
            raise catalog_down(table, error) from None
        if is_missing(error):
            raise Blocked(
                f"Table {table} does not exist",
                why="it was dropped or renamed while the stream ran",
                next="restore it from a backup of the catalog, or give the stream a new id and a new table",
                reason="table-missing",
                code="LW-3072",
            ) from None
        raise


def is_missing(error: BaseException) -> bool:
    """Whether a call failed because there is no table, or no namespace, of that name."""
    names = (throwable.getClass().getName().rpartition(".")[2] for throwable in _chain(error))
    return "TABLE_OR_VIEW_NOT_FOUND" in str(error) or not {
        "NoSuchTableException",
        "NoSuchNamespaceException",
    }.isdisjoint(names)


def exists(error: BaseException) -> bool:
    """Whether a table could not be created because there is one of that name."""
    return any(throwable.getClass().getSimpleName() == "AlreadyExistsException" for throwable in _chain(error))


def metadata_of(table: Any) -> Any:
    """The metadata with which a table object was loaded."""
    return table.operations().current()


def state_of(metadata: Any, stream: str, table: str) -> TableState:
    """One stream's state from one version of the metadata, for step 1."""
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
        unreadable=_unreadable(properties),
    )


def no_place(table: Any, metadata: Any) -> tuple[list[str], str] | None:
    """The properties by which Iceberg cannot say where files of a table go, and its words; None if it can."""
    there = _those_of(metadata.properties(), parsed_properties.PLACED_BY)
    if not there:
        return None
    try:
        table.locationProvider()
    except Exception as error:  # noqa: BLE001  # a class of anybody: whatever it raises
        return sorted(there), message(error)
    return None


def stops_merges(session: SparkSession, table: str) -> str:
    """What is wrong with properties of the table, as it is now, by which a MERGE fails; empty if nothing is."""
    there = metadata_of(load(session, table)).properties()
    return parsed_properties.stop_merges(_those_of(there, parsed_properties.OF_MERGES))


def _unreadable(properties: Any) -> str:
    """What is wrong with properties by which every commit fails."""
    return parsed_properties.stop_commits(_those_of(properties, parsed_properties.PARSED))


def _those_of(properties: Any, names: Sequence[str]) -> dict[str, str]:
    text = str(properties.toString())  # one call: each value alone would be a call for each name
    # The text of another name or of a value may have the name of one, too.
    found = {name: properties.get(name) for name in names if f"{name}=" in text}
    return {name: str(value) for name, value in found.items() if value is not None}


def others_of(metadata: Any, stream: str, table: str) -> dict[str, Position]:
    """The positions of the other streams of a table."""
    properties = metadata.properties()
    names = [name for name in position.streams_of(properties) if name != stream]
    return {name: position.parse(properties.get(position.key(name)), name, table) for name in names}


def link_of(snapshot: Any) -> ancestry.Link | None:
    """A Java snapshot as a `Link`; None for null."""
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
    """Classify an exception from Spark or py4j by its whole chain of causes."""
    names = [throwable.getClass().getName() for throwable in _chain(error)]
    text = " ".join(str(throwable.getMessage()) for throwable in _chain(error))
    short = {name.rsplit(".", 1)[-1] for name in names}
    if "CommitStateUnknownException" in short:
        return Trouble.UNKNOWN
    # A staged snapshot moves no ref, so a REST server finds out by the sequence number that another commit came first.
    outrun = "BadRequestException" in short and "sequence number" in text
    if "CommitFailedException" in short or outrun:
        return Trouble.COMMIT_FAILED
    if short & {"CherrypickAncestorCommitException", "DuplicateWAPCommitException"}:
        return Trouble.REFUSED
    if "onflicting" in text and "ValidationException" in short:
        return Trouble.CONFLICT
    if short & {"UncheckedSQLException", "SQLException", "PSQLException", "SQLTransientConnectionException"}:
        return Trouble.UNREACHABLE
    if short & {"RuntimeMetaException", "TTransportException"}:  # of a Hive Metastore
        return Trouble.UNREACHABLE
    if short & {"ConnectException", "ServiceUnavailableException", "RESTException", "ServiceFailureException"}:
        return Trouble.UNREACHABLE
    if short & _DENIED or _GLUE_REFUSES.union(_GLUE_FAILS).intersection(names):
        return Trouble.UNREACHABLE
    if "SdkClientException" in short and any(_asks_glue(throwable) for throwable in _chain(error)):
        return Trouble.UNREACHABLE
    if "ValidationException" in short:
        return Trouble.REFUSED
    return Trouble.OTHER


def files_deleted(error: BaseException) -> bool:
    """Whether Iceberg has deleted the files of a failed write, because it took the failure for certain."""
    kinds = (kind.getSimpleName() for throwable in _chain(error) for kind in throwable.getClass().getInterfaces())
    return "CleanableFailure" in kinds


def message(error: BaseException) -> str:
    """The first line of the JVM's error message, or of the exception itself."""
    for throwable in _chain(error):
        text = throwable.getMessage()
        if text:
            return str(text).splitlines()[0]
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def catalog_down(table: str, error: BaseException) -> DependencyDown:
    """The error for a catalog that does not answer, or refuses the login or a privilege.

    Raise it `from None`: Spark matches the text of a failed `foreachBatch` against a pattern that overflows the stack
    of the query's thread on a long py4j trace, and the query then ends without any exception.
    """
    if _denied(error):
        return DependencyDown(
            f"The catalog refuses the login, or a privilege for table {table}",
            why=message(error),
            next="correct the credential of the catalog, or grant the privilege; the stream continues by itself",
            code="LW-3431",
        )
    return DependencyDown(
        f"The catalog does not answer for table {table}",
        why=message(error),
        next="lakeward stack status   (the stream continues by itself when the catalog is back)",
        code="LW-3071",
    )


def _denied(error: BaseException) -> bool:
    # Iceberg has no type for 419, the status of an expired token: its text shows it.
    return any(
        throwable.getClass().getSimpleName() in _DENIED
        or throwable.getClass().getName() in _GLUE_REFUSES
        or "code: 419" in str(throwable.getMessage())
        for throwable in _chain(error)
    )


def _asks_glue(throwable: Any) -> bool:
    """Whether an exception is of a request to Glue: the clients of AWS's object store have the same types."""
    return any(frame.getClassName().startswith(_GLUE) for frame in throwable.getStackTrace())


def _forget_token(session: SparkSession) -> None:
    """Let the next request log in again: the server may have forgotten its tokens, or expired one early."""
    from py4j.java_gateway import JavaClass

    login = session._jvm.io.lakeward.LoginFile  # type: ignore[union-attr]  # classic sessions have a JVM
    if isinstance(login, JavaClass):  # it is on the class path where the catalog has a login
        login.forget()


def _chain(error: BaseException) -> Iterator[Any]:
    """The Java throwables of an exception, outermost first; nothing for a Python exception."""
    # py4j's own exceptions hold `java_exception`; those pyspark converted hold `_origin`.
    throwable = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(30):  # causes can point at themselves
        if throwable is None:
            return
        yield throwable
        throwable = throwable.getCause()
