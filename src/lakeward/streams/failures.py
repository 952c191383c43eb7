"""Failures: which class an error belongs to. The class decides how, and whether, a stream is tried again.

| class | examples | tried again |
|---|---|---|
| infra | killed, out of memory, host lost, anything unknown | soon |
| dependency | broker, catalog, registry or store not reachable | with growing pauses |
| poison | the same batch fails the same way | a few times, then a person |
| config | wrong spec, missing class, changed schema | no: a person changes something first |
| fenced | a newer launch holds the token | never for that token |
"""

from __future__ import annotations

import re
from enum import StrEnum

from lakeward.errors import Blocked, DependencyDown, Fenced, Terminal, Transient

EXIT_STOPPED = 0
EXIT_CONFIG = 2
EXIT_FENCED = 75


class FailureClass(StrEnum):
    """Why something failed, as far as the restart policy cares."""

    INFRA = "infra"
    DEPENDENCY = "dependency"
    POISON = "poison"
    CONFIG = "config"
    FENCED = "fenced"


# Spark's error conditions and the words of its clients. The first match wins, so the narrow ones stand first.
_TEXTS: tuple[tuple[FailureClass, re.Pattern[str]], ...] = tuple(
    (failure, re.compile(pattern, re.IGNORECASE))
    for failure, pattern in (
        (FailureClass.FENCED, r"CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY|newer launch holds"),
        (
            FailureClass.DEPENDENCY,
            r"Connection refused|UnknownHostException|No route to host|Connection reset|Broken pipe"
            r"|TimeoutException|TimeoutError|timed out|DisconnectException|BrokerNotAvailable|NetworkException"
            r"|Failed to get connection|Connection to \S+ (?:could not|refused)|server closed the connection"
            r"|terminating connection|the database system is (?:starting|shutting)|SQLTransientConnectionException"
            r"|UncheckedSQLException: Failed to connect|ServiceUnavailable|SlowDown|SlowDownException",
        ),
        (
            FailureClass.CONFIG,
            r"AnalysisException|ParseException|PARSE_SYNTAX_ERROR|UNRESOLVED_|TABLE_OR_VIEW_NOT_FOUND"
            r"|ClassNotFoundException|NoClassDefFoundError|ModuleNotFoundError|DATA_SOURCE_NOT_FOUND"
            r"|UnknownTopicOrPartition|UNSUPPORTED_FEATURE|STREAMING_OUTPUT_MODE|STATE_STORE_\w*SCHEMA"
            r"|INCOMPATIBLE_DATA|Permission denied|AuthorizationException|SaslAuthenticationException",
        ),
        (
            FailureClass.POISON,
            r"NumberFormatException|ArithmeticException|DIVIDE_BY_ZERO|CAST_INVALID_INPUT|CAST_OVERFLOW"
            r"|MALFORMED_RECORD|RecordTooLarge|SparkRuntimeException|PythonException|KAFKA_DATA_LOSS",
        ),
        (FailureClass.INFRA, r"OutOfMemoryError|No space left on device|ExecutorLostFailure|SIGKILL|SIGTERM"),
    )
)


def classify(*, error: BaseException | None = None, text: str = "", exit_code: int | None = None) -> FailureClass:
    """The class of a failure, from the best evidence there is: our own error type, its text, then the exit code.

    Args:
        error: the exception, when the failure was seen as one.
        text: the error's text, e.g. of a JVM stack trace or of `exit.json`.
        exit_code: of the process; a negative one is a signal, None is not known (nobody could wait for it).
    """
    if isinstance(error, Fenced) or exit_code == EXIT_FENCED:
        return FailureClass.FENCED
    if isinstance(error, DependencyDown):
        return FailureClass.DEPENDENCY
    if isinstance(error, Blocked | Terminal):
        return FailureClass.CONFIG
    words = "\n".join(part for part in (text, str(error) if error else "") if part)
    for failure, pattern in _TEXTS:
        if pattern.search(words):
            return failure
    if isinstance(error, Transient):
        return FailureClass.DEPENDENCY
    if exit_code == EXIT_CONFIG:
        return FailureClass.CONFIG
    return FailureClass.INFRA


def exit_words(exit_code: int | None) -> str:
    """How a process ended, in words: `killed by SIGKILL`, `ended with exit code 1`, `gone without a word`."""
    if exit_code is None:
        return "is gone without a word"
    signal = -exit_code if exit_code < 0 else exit_code - 128 if 128 < exit_code < 160 else 0
    names = {2: "SIGINT", 6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
    if signal:
        return f"was killed by {names.get(signal, f'signal {signal}')}"
    return f"ended with exit code {exit_code}"
