"""A session on the warm Spark Connect server, always released; and how to stop what a dead client left running.

The token is read from its file at the moment of use and never logged. A statement outlives a killed client by minutes:
whoever starts one records its session id first, whoever takes over calls `interrupt` with it.
"""

from __future__ import annotations

import logging
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
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
_FORGOTTEN = ("SESSION_CLOSED", "SESSION_NOT_FOUND", "SESSION_CHANGED")
# Twelve seconds of tries, pyspark's own are ten minutes: a server that is started anew has forgotten the session.
_RETRIES, _LONGEST_PAUSE_MS = 6, 4_000


def new_session_id() -> str:
    """An id for a session, to be recorded before the session is used."""
    return str(uuid4())


def endpoint(runtime: Runtime) -> tuple[str, int]:
    """Host and port of the server.

    Raises:
        LakewardError: this deployment has none.
    """
    if not runtime.connect:
        raise LakewardError(
            "There is no Spark Connect server here",
            why="the runtime names none, and maintenance, checks and sql run on it",
            next="lakeward stack up",
            code="LW-3170",
        )
    host, _, port = runtime.connect.rpartition(":")
    # gRPC sends a token without TLS to `localhost` only; to 127.0.0.1 it waits for ever.
    return ("localhost" if host in _LOOPBACK else host), int(port)


@contextmanager
def session(runtime: Runtime, *, session_id: str | None = None) -> Iterator[SparkSession]:
    """A session of one's own, released at the end whatever happens.

    Args:
        runtime: names the server and the file with its token.
        session_id: the id recorded beforehand; a new one otherwise.

    Raises:
        DependencyDown: nothing listens at the server's address.
    """
    spark = _open(runtime, session_id or new_session_id())
    try:
        yield spark
    finally:
        _release(spark)


def interrupt(runtime: Runtime, session_id: str) -> list[str]:
    """Stop every statement of a session somebody left behind, and release it; the ids of what was stopped.

    Nothing is stopped, and nothing is wrong, when the server has forgotten the session.

    Raises:
        DependencyDown: nothing listens at the server's address.
    """
    from pyspark.errors import PySparkException

    spark = _open(runtime, session_id)
    try:
        return list(spark.interruptAll())
    except PySparkException as error:
        if any(sign in str(error) for sign in _FORGOTTEN):
            return []
        raise
    finally:
        _release(spark)


def lost(runtime: Runtime, error: str) -> str:
    """Why the server itself is to blame for a statement's error, in a sentence; empty where it is not.

    Args:
        runtime: names the server.
        error: what the client said.
    """
    try:
        _reachable(runtime)
    except DependencyDown as away:
        return f"the Spark Connect server went away in the middle ({away.why})"
    if any(sign in error for sign in _FORGOTTEN):
        return "the Spark Connect server was started anew in the middle, and knows nothing of the session"
    return ""


def answers(runtime: Runtime, spark: SparkSession) -> bool:
    """Whether a session that stood idle can be used: the server forgets one after an hour, and all when it restarts."""
    try:
        _reachable(runtime)
        return bool(spark.conf.get("spark.app.name"))
    except Exception:  # noqa: BLE001  whatever is wrong with it, a new one is opened, or says what is wrong
        return False


def _open(runtime: Runtime, session_id: str) -> SparkSession:
    host, port = _reachable(runtime)
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    # Errors reach the caller; pyspark's own copy of them on stderr, a page each, helps nobody.
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
        # Without this look the client retries for ten minutes before it says the same.
        raise DependencyDown(
            "The Spark Connect server does not answer",
            why=f"{host}:{port}: {error.strerror or error}",
            next="lakeward stack status",
            code="LW-3171",
        ) from None
    return host, port


def _release(spark: SparkSession) -> None:
    spark.client.set_retry_policies([])  # one try: a server that is gone has released it already
    try:
        spark.stop()
    except Exception as error:  # noqa: BLE001  the session's work is done or lost already; the server forgets it by time
        log.warning("A Spark Connect session could not be released", error=type(error).__name__)
    # pyspark's finalizer closes the client once more, which joins a thread pool all sessions of the process share; when
    # the garbage collector runs it in a thread of that very pool, the process hangs for ever. Closed is closed.
    spark.client.close = _closed_already  # type: ignore[method-assign]  # there is no switch for it


def _closed_already() -> None:
    return None
