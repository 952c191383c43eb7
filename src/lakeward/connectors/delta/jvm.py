"""Delta's Java objects through py4j: the calls that the commit protocol needs, and the meaning of their exceptions.

They need a classic Spark session (`foreachBatch` runs in the driver). Objects are typed `Any` because py4j resolves
their methods at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.connectors.aws import conditional, store
from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.delta import location, log, properties
from lakeward.connectors.delta.check import DOMAINS, TableState, unreadable
from lakeward.connectors.delta.folder import Folder
from lakeward.connectors.delta.position_store import state_at
from lakeward.platform.errors import Blocked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ATTEMPTS = "spark.databricks.delta.maxCommitAttempts"
_CONCURRENT = ("ConcurrentModificationException", "MetadataChangedException", "ProtocolChangedException")


def begin(session: SparkSession, folder: Folder, table: str) -> Any:
    """A transaction on the newest version of a table.

    Raises:
        Blocked: the table does not exist (`table-missing`), or Delta cannot read a property (`property-unreadable`).
    """
    if not location.exists(folder):
        raise Blocked(
            f"Delta table {table} does not exist",
            why=f"{folder} has no Delta log: the table was removed or moved",
            next="restore the folder, or give the stream a new id and a new table",
            reason="table-missing",
            code="LW-3035",
        )
    jvm: Any = session._jvm
    _activate(session)
    try:
        return jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, str(folder)).startTransaction()
    except Exception as error:
        head = log.head(folder)
        odd = {} if head is None else properties.stopping(head.properties, "land")
        if head is not None:
            odd |= _unparsable(session, head.properties)
        if not odd:
            raise
        raise unreadable(table, odd).error() from error


def _unparsable(session: SparkSession, given: Mapping[str, str]) -> dict[str, str]:
    """The constraints of a table that Spark cannot parse."""
    parser, found = session._jsparkSession.sessionState().sqlParser(), {}
    for name, text in given.items():
        if name.startswith(properties.CONSTRAINT):
            try:
                parser.parseExpression(text)
            except Exception:  # noqa: BLE001  # whatever the parser says, it cannot be parsed
                found[name] = text
    return found


def try_store(session: SparkSession, folder: Folder) -> None:
    """Check, once a process and bucket, that a table's store grants a version once. A disk does: its links are tried
    with each commit.

    Raises:
        SpecError: the store ignores the condition.
    """
    if isinstance(folder, Path):
        return
    jvm: Any = session._jvm
    conf = session._jsparkSession.sessionState().newHadoopConf()
    try:
        jvm.io.lakeward.S3LogStore.trial(jvm.org.apache.hadoop.fs.Path(str(folder.parent)), False, conf)
    except Exception as error:
        said = next((str(each.getMessage()) for each in _chain(error)), "")
        if conditional.IGNORES in said:
            raise conditional.ignores(folder.lake, str(folder.parent), said) from None
        raise


def state_of(snapshot: Any, folder: Folder, stream: str, table: str) -> TableState:
    """The state of step 1: the snapshot's version and features, and the ancestry from the log's files.

    The position is read from the log's files. Delta's cache may have a version that another process has overwritten
    since, and Delta would run a Spark job.
    """
    supported = bool(snapshot.protocol().writerFeatureNames().contains(DOMAINS))
    raw = _domains(snapshot, folder).get(position.key(stream))
    return state_at(folder, int(snapshot.version()), raw, supported, stream, table, _parsed(snapshot))


def _parsed(snapshot: Any) -> dict[str, str]:
    """The properties of a table that Delta parses."""
    given = snapshot.metadata().configuration()
    text = str(given.toString())  # one call: each property alone would be one
    # The text of another name or of a value may have the name of one, too.
    found = {name: given.get(name) for name in properties.PARSED if f"{name} -> " in text}
    return {name: str(value.get()) for name, value in found.items() if value.isDefined()}


def others_of(snapshot: Any, folder: Folder, stream: str, table: str) -> dict[str, Position]:
    """The positions of the other streams that land in a table."""
    domains = _domains(snapshot, folder)
    return {
        name: position.parse(domains[position.key(name)], name, table, position.KeptIn.DELTA_LOG)
        for name in position.streams_of(domains)
        if name != stream
    }


def commit(
    session: SparkSession, txn: Any, files: Sequence[Any], moved: Position, batch: RunningBatch, name: str
) -> int:
    """Commit files and position as the version after the transaction's; returns the committed version.

    Delta's own retry after a concurrent commit is disabled: it goes by Delta's conflict rules, but this protocol has to
    read and check the table again, and the position names its own version.

    Args:
        name: the position's domain.

    Raises:
        Exception: of the JVM; see `is_concurrent_change`.
    """
    jvm: Any = session._jvm
    delta = jvm.org.apache.spark.sql.delta
    position_ = delta.actions.DomainMetadata(name, moved.to_json(), False)
    output = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, "Append" if moved.mode == "append" else "Update")()
    update = getattr(delta, "DeltaOperations$StreamingUpdate")
    operation = update(output, batch.query_id, batch.batch, jvm.scala.Option.apply(moved.attempt))
    with _one_commit_attempt(session):
        return int(txn.commit(_sequence(session, [*files, position_]), operation))


def invalidate_cache(session: SparkSession, folder: Folder) -> None:
    """Drop Delta's cache of a table: the next read is from the log's files."""
    jvm: Any = session._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.invalidateCache(
        session._jsparkSession, jvm.org.apache.hadoop.fs.Path(str(folder))
    )


def is_concurrent_change(error: BaseException) -> bool:
    """Whether a commit failed because another commit came first; nothing was committed."""
    for throwable in _chain(error):
        names = [java_class.getSimpleName() for java_class in _classes(throwable)]
        if any(name.endswith(_CONCURRENT) for name in names):
            return True
        if "DELTA_MAX_COMMIT_RETRIES_EXCEEDED" in str(throwable.getMessage()):
            return True
    return False


def paths_of(txn: Any, files: Sequence[Any]) -> list[str]:
    """The absolute paths of added files, as `folder.plain` returns them."""
    paths = [file.absolutePath(txn.deltaLog()) for file in files]
    return [text if store.on_s3(text := str(path.toString())) else str(path.toUri().getPath()) for path in paths]


def rows_of(session: SparkSession, txn: Any, files: Sequence[Any]) -> DataFrame:
    """The rows of `files` at the version that a transaction reads."""
    from pyspark.sql import DataFrame

    log_, none = txn.deltaLog(), session._jvm.scala.Option.empty()  # type: ignore[union-attr]  # classic sessions have a JVM
    return DataFrame(log_.createDataFrame(txn.snapshot(), _sequence(session, files), False, none), session)


def _sequence(session: SparkSession, items: Sequence[Any]) -> Any:
    jvm: Any = session._jvm
    java_list = jvm.java.util.ArrayList()
    for item in items:
        java_list.add(item)
    return jvm.org.apache.spark.api.python.PythonUtils.toSeq(java_list)


def in_list(scala: Any) -> list[Any]:
    """A Scala sequence as a list."""
    return [scala.apply(index) for index in range(scala.size())]


def _domains(snapshot: Any, folder: Folder) -> dict[str, str]:
    domains = log.domains(folder, int(snapshot.version()))
    if domains is not None:
        return domains
    return {str(domain.domain()): str(domain.configuration()) for domain in in_list(snapshot.domainMetadata())}


def _activate(session: SparkSession) -> None:
    """Make `session` the thread's active session, whose settings Delta reads: a new thread has none, or another one."""
    session._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)


@contextmanager
def _one_commit_attempt(session: SparkSession) -> Iterator[None]:
    """Disable Delta's commit retry inside the block."""
    _activate(session)
    session.conf.set(_ATTEMPTS, "0")
    try:
        yield
    finally:
        session.conf.unset(_ATTEMPTS)


def _chain(error: BaseException) -> Iterator[Any]:
    """The Java throwables of an exception, outermost first; nothing for a Python exception."""
    throwable = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(30):  # causes can point at themselves
        if throwable is None:
            return
        yield throwable
        throwable = throwable.getCause()


def _classes(throwable: Any) -> Iterator[Any]:
    kind = throwable.getClass()
    while kind is not None:
        yield kind
        kind = kind.getSuperclass()
