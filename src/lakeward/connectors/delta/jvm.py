"""Delta's Java objects through py4j: the few calls the protocol needs, and what their exceptions mean.

All of it works on a classic Spark session (`foreachBatch` runs in the driver); objects are typed `Any` because py4j
knows their methods only at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.delta import location, log
from lakeward.connectors.delta.check import DOMAINS, TableState
from lakeward.connectors.delta.position_store import state_at
from lakeward.platform.errors import Blocked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ATTEMPTS = "spark.databricks.delta.maxCommitAttempts"
_CHANGED = ("ConcurrentModificationException", "MetadataChangedException", "ProtocolChangedException")


def begin(session: SparkSession, folder: Path, table: str) -> Any:
    """A transaction on the newest version of a table.

    Raises:
        Blocked: there is no such table (`table-missing`).
    """
    if not location.exists(folder):
        raise Blocked(
            f"There is no Delta table {table}",
            why=f"{folder} holds none: it was removed or moved under the stream",
            next="bring the folder back, or give the stream a new id and a new table",
            reason="table-missing",
            code="LW-3035",
        )
    jvm: Any = session._jvm
    _activate(session)
    return jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, str(folder)).startTransaction()


def state_of(snapshot: Any, folder: Path, stream: str, table: str) -> TableState:
    """All facts of step 1: the snapshot's own, and its history from the log's files.

    The version is the snapshot's. What it holds of the stream is read from the disk: another process may have written
    over what Delta remembers, and asking Delta costs a job.
    """
    keeps = bool(snapshot.protocol().writerFeatureNames().contains(DOMAINS))
    raw = _domains(snapshot, folder).get(position.key(stream))
    return state_at(folder, int(snapshot.version()), raw, keeps, stream, table)


def others_of(snapshot: Any, folder: Path, stream: str, table: str) -> dict[str, Position]:
    """The positions of the other streams that land in a table."""
    domains = _domains(snapshot, folder)
    return {
        name: position.parse(domains[position.key(name)], name, table)
        for name in position.streams_of(domains)
        if name != stream
    }


def commit(
    session: SparkSession, txn: Any, files: Sequence[Any], moved: Position, batch: RunningBatch, name: str
) -> int:
    """Commit files and position as the version right after the transaction's own; which version it became.

    Delta would try again behind whoever was faster, by its own rules of what conflicts. It may not: everything is read
    and checked again first, and the position names the version it is in.

    Args:
        name: the position's domain.

    Raises:
        Exception: the JVM's, to be judged by `is_concurrent_change`.
    """
    jvm: Any = session._jvm
    delta = jvm.org.apache.spark.sql.delta
    position_ = delta.actions.DomainMetadata(name, moved.to_json(), False)
    output = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, "Append" if moved.mode == "append" else "Update")()
    update = getattr(delta, "DeltaOperations$StreamingUpdate")
    operation = update(output, batch.query_id, batch.batch, jvm.scala.Option.apply(moved.attempt))
    with _once(session):
        return int(txn.commit(_sequence(session, [*files, position_]), operation))


def invalidate_cache(session: SparkSession, folder: Path) -> None:
    """Drop what this process believes of a table: the next reading is the disk's."""
    jvm: Any = session._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.invalidateCache(
        session._jsparkSession, jvm.org.apache.hadoop.fs.Path(str(folder))
    )


def is_concurrent_change(error: BaseException) -> bool:
    """Whether a commit failed because somebody else's came first: nothing was written."""
    for throwable in _chain(error):
        names = [each.getSimpleName() for each in _classes(throwable)]
        if any(name.endswith(_CHANGED) for name in names):
            return True
        if "DELTA_MAX_COMMIT_RETRIES_EXCEEDED" in str(throwable.getMessage()):
            return True
    return False


def paths_of(txn: Any, files: Sequence[Any]) -> list[Path]:
    """Where added files stand."""
    return [Path(str(each.absolutePath(txn.deltaLog()).toUri().getPath())) for each in files]


def rows_of(session: SparkSession, txn: Any, files: Sequence[Any]) -> DataFrame:
    """The rows of some files of the version a transaction reads."""
    from pyspark.sql import DataFrame

    log_, none = txn.deltaLog(), session._jvm.scala.Option.empty()  # type: ignore[union-attr]  # classic sessions have a JVM
    return DataFrame(log_.createDataFrame(txn.snapshot(), _sequence(session, files), False, none), session)


def _sequence(session: SparkSession, items: Sequence[Any]) -> Any:
    jvm: Any = session._jvm
    found = jvm.java.util.ArrayList()
    for item in items:
        found.add(item)
    return jvm.org.apache.spark.api.python.PythonUtils.toSeq(found)


def in_list(scala: Any) -> list[Any]:
    """A Scala sequence as a list."""
    return [scala.apply(index) for index in range(scala.size())]


def _domains(snapshot: Any, folder: Path) -> dict[str, str]:
    found = log.domains(folder, int(snapshot.version()))
    if found is not None:
        return found
    return {str(each.domain()): str(each.configuration()) for each in in_list(snapshot.domainMetadata())}


def _activate(session: SparkSession) -> None:
    """Delta takes the thread's session for its settings, and this thread may be a new one, or had another since."""
    session._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)


@contextmanager
def _once(session: SparkSession) -> Iterator[None]:
    """Within: a commit is tried once."""
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
