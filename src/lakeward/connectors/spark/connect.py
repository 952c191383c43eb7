"""Sessions on the Spark Connect server: always released, and interruptible after the death of their client.

The token is read from its file when it is used and never logged. A statement outlives a killed client by minutes:
a client records its session id before the first statement, and its successor calls `interrupt` with that id.
"""

from __future__ import annotations

import logging
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import structlog

from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.platform.runtime import Runtime

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

log = structlog.get_logger(__name__)

USER = "lakeward"  # sessions belong to (user, session id): the same user may interrupt them from another account
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_TCP_TIMEOUT_S = 5.0
_UNKNOWN_SESSION = ("SESSION_CLOSED", "SESSION_NOT_FOUND", "SESSION_CHANGED")
# Retries for twelve seconds instead of pyspark's ten minutes: a restarted server does not know the session.
_RETRIES, _LONGEST_PAUSE_MS = 6, 4_000


def new_session_id() -> str:
    """A new session id, to be recorded before the session is used."""
    return str(uuid4())


def endpoint(runtime: Runtime) -> tuple[str, int]:
    """Host and port of the server.

    Raises:
        LakewardError: this deployment has no Connect server.
    """
    if not runtime.connect:
        raise LakewardError(
            "This deployment has no Spark Connect server",
            why="maintenance, checks and sql run on it, and the runtime has no address of one",
            next="lakeward stack up",
            code="LW-3170",
        )
    host, _, port = runtime.connect.rpartition(":")
    # gRPC sends a token without TLS to `localhost` only; with 127.0.0.1 it would wait forever.
    return ("localhost" if host in _LOOPBACK else host), int(port)


@contextmanager
def session(runtime: Runtime, *, session_id: str | None = None) -> Iterator[SparkSession]:
    """A session for the duration of the block; it is always released.

    Args:
        runtime: has the address of the server and the file with its token.
        session_id: the recorded id; by default a new one.

    Raises:
        DependencyDown: nothing listens at the server's address.
    """
    spark = _open(runtime, session_id or new_session_id())
    try:
        yield spark
    finally:
        _release(spark)


def interrupt(runtime: Runtime, session_id: str) -> list[str]:
    """Interrupt every statement of an abandoned session and release it; returns the ids of the operations.

    A session that the server does not know any more is not an error.

    Raises:
        DependencyDown: nothing listens at the server's address.
    """
    from pyspark.errors import PySparkException

    spark = _open(runtime, session_id)
    try:
        return list(spark.interruptAll())
    except PySparkException as error:
        if any(sign in str(error) for sign in _UNKNOWN_SESSION):
            return []
        raise
    finally:
        _release(spark)


def lost(runtime: Runtime, error: str) -> str:
    """The reason why a statement failed with the server, as a clause; empty if the server is not the cause.

    Args:
        runtime: has the address of the server.
        error: the text of the client's error.
    """
    try:
        _reachable(runtime)
    except DependencyDown as down:
        return f"the Spark Connect server stopped during the statement ({down.why})"
    if any(sign in error for sign in _UNKNOWN_SESSION):
        return "the Spark Connect server was restarted during the statement and does not know the session"
    return ""


def answers(runtime: Runtime, spark: SparkSession) -> bool:
    """Whether an idle session is still usable: the server drops a session after an hour, and all at a restart."""
    try:
        _reachable(runtime)
        return bool(spark.conf.get("spark.app.name"))
    except Exception:  # noqa: BLE001  after any error a new session is opened, which reports the cause
        return False


def listens(runtime: Runtime) -> bool:
    """Whether something listens at the server's address."""
    try:
        _reachable(runtime)
    except LakewardError:
        return False
    return True


def activate(spark: SparkSession) -> None:
    """Make this session the one that a library gets from pyspark.

    pyspark keeps its first session as the default and the active one even after that has stopped: a library in a
    process that outlived a server would then look for a server by the environment.
    """
    session_type: Any = type(spark)
    session_type._default_session = spark
    session_type._active_session.session = spark


def close(spark: SparkSession) -> None:
    """Close a session's channel from any thread: statements that wait for it fail. The server is not notified."""
    spark.client.set_retry_policies([])
    spark.client.close = _closed_already  # type: ignore[method-assign]  # see _release
    try:
        spark.client._channel.close()  # pyspark's own close waits for calls that never end
    except Exception as error:  # noqa: BLE001 - it is closed or broken, which is the goal
        log.warning("A channel could not be closed", error=type(error).__name__)


def _open(runtime: Runtime, session_id: str) -> SparkSession:
    host, port = _reachable(runtime)
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    # Errors reach the caller. pyspark's copy on stderr, a page for each, is suppressed.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
    token = runtime.connect_token_file.read_text().strip() if runtime.connect_token_file else ""
    parts = [f"session_id={session_id}", f"user_id={USER}", *([f"token={token}"] if token else [])]
    spark = SparkSession.builder.remote(f"sc://{host}:{port}/;{';'.join(parts)}").create()
    spark.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES, max_backoff=_LONGEST_PAUSE_MS)])
    return spark


def _reachable(runtime: Runtime) -> tuple[str, int]:
    host, port = endpoint(runtime)
    try:
        socket.create_connection((host, port), timeout=_TCP_TIMEOUT_S).close()
    except OSError as error:
        # Without this check the client would retry for ten minutes before it reports the same.
        raise DependencyDown(
            "The Spark Connect server does not answer",
            why=f"{host}:{port}: {error.strerror or error}",
            next="lakeward stack status",
            code="LW-3171",
        ) from None
    return host, port


def _release(spark: SparkSession) -> None:
    spark.client.set_retry_policies([])  # one try: a stopped server has released it already
    try:
        spark.stop()
    except Exception as error:  # noqa: BLE001  the session's work has ended; the server drops the session after a timeout
        log.warning("A Spark Connect session could not be released", error=type(error).__name__)
    # pyspark's finalizer closes the client a second time, which joins a thread pool shared by all sessions of the
    # process. If the garbage collector runs it in a thread of that pool, the process hangs forever. Therefore a second
    # close does nothing.
    spark.client.close = _closed_already  # type: ignore[method-assign]  # pyspark has no option for it


def _closed_already() -> None:
    return None
