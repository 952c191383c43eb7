"""Failure classification: the class of an error, and the name of its cause.

The class decides whether and when a stream is restarted.

| class | examples | restarted |
|---|---|---|
| infra | killed, out of memory, hung, host lost, anything unknown | soon |
| dependency | broker, catalog or store not reachable, expired login, disk full, no such topic yet | with back-off |
| poison | the same batch fails the same way | a few times, then blocked |
| config | wrong spec, missing class, changed schema | no: a person must change something first |
| fenced | a newer launch holds the token | never for that token |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from lakeward.platform.errors import (
    Awaited,
    Blocked,
    DependencyDown,
    Fenced,
    NotTheRecords,
    Poison,
    Terminal,
    Transient,
)
from lakeward.platform.storable import storable

EXIT_STOPPED = 0
EXIT_CONFIG = 2
EXIT_OUT_OF_MEMORY = 52  # Spark's own
EXIT_FENCED = 75


class FailureClass(StrEnum):
    """The class of a failure, on which the restart policy depends."""

    INFRA = "infra"
    DEPENDENCY = "dependency"
    POISON = "poison"
    CONFIG = "config"
    FENCED = "fenced"


class Cause(StrEnum):
    """The cause of a failure, as shown to people. Only the class decides about restarts."""

    KILLED = "killed"
    OUT_OF_MEMORY = "out of memory"
    DISK_FULL = "disk full"
    HUNG = "hung batch"
    PYTHON_WORKER = "dead Python worker"
    JVM = "dead JVM"
    EXECUTOR = "lost executor"
    REBOOT = "machine restart"
    PLAN_SIZE = "plan too large"
    NOT_RECORDS = "not its records"
    NO_FILE_SYSTEM = "no file system for a path"
    NO_ROOM = "no room in the cluster"
    NOT_STARTED = "not started by the cluster"
    NODE = "ended by the cluster"


_ENDED = {
    Cause.OUT_OF_MEMORY: "ran out of memory",
    Cause.DISK_FULL: "found its disk full",
    Cause.HUNG: "hung in a batch",
    Cause.PYTHON_WORKER: "lost its Python worker",
    Cause.JVM: "lost its JVM",
    Cause.EXECUTOR: "lost an executor",
    Cause.REBOOT: "went down with its machine",
    Cause.NO_ROOM: "found no room in its cluster",
    Cause.NOT_STARTED: "was not started by its cluster",
    Cause.NODE: "was ended by its cluster",
    Cause.PLAN_SIZE: "met a query plan that is too large for the JVM",
}


@dataclass(frozen=True)
class Judgement:
    """The class of a failure and its cause, if known."""

    failure_class: FailureClass
    cause: Cause | None = None


# Spark's error conditions and texts of client libraries. The first match counts, so narrow patterns come first.
_TEXTS: tuple[tuple[FailureClass, Cause | None, re.Pattern[str]], ...] = tuple(
    (failure, cause, re.compile(pattern, re.IGNORECASE))
    for failure, cause, pattern in (
        (FailureClass.FENCED, None, r"CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY|newer launch holds"),
        (FailureClass.DEPENDENCY, Cause.NO_ROOM, r"Spark cluster has no room|(?:Kubernetes|YARN) has no room"),
        (
            FailureClass.DEPENDENCY,
            Cause.NOT_STARTED,
            r"Kubernetes (?:cannot get the image|cannot configure the container|has not started the pod)"
            r"|YARN has not started",
        ),
        (
            FailureClass.DEPENDENCY,
            None,
            r"Kubernetes API \S+ (?:does not|refuses)|certificate of the Kubernetes API"
            r"|namespace of a driver is missing|program that logs in to Kubernetes|No access to the API of Kubernetes"
            r"|ResourceManager .{0,300}does not (?:answer|take a submission)|ResourceManager .{0,300}refuses the login"
            r"|YARN (?:refuses the login|does not (?:take|allow))",
        ),
        (
            FailureClass.INFRA,
            Cause.NODE,
            r"driver was (?:evicted|preempted|lost with|removed because|ended at the deadline)"
            r"|driver was ended (?:by|because) (?:the shutdown of )?its node|driver was ended by YARN",
        ),
        (FailureClass.INFRA, Cause.HUNG, r"hung batch|hung in a batch"),
        (FailureClass.INFRA, Cause.REBOOT, r"machine was (?:rebooted|started anew|started again)"),
        (
            FailureClass.INFRA,
            Cause.OUT_OF_MEMORY,
            r"OutOfMemoryError|GC overhead limit exceeded|UNABLE_TO_ACQUIRE_MEMORY|OOMKilled|\bMemoryError\b"
            r"|ran out of memory|Cannot allocate memory",
        ),
        (
            # A full disk is solved by freeing space, not by immediate retries.
            FailureClass.DEPENDENCY,
            Cause.DISK_FULL,
            r"No space left on device|Disk quota exceeded|not enough space on the disk|found its disk full",
        ),
        (
            # Spark recurses over the plan, and the JVM limits the size of a generated class: only the plan decides.
            FailureClass.INFRA,
            Cause.PLAN_SIZE,
            r"StackOverflowError|grows? beyond 64 KB|grown past JVM limit of 0xFFFF|TREE_NODE_MAX_ITER"
            r"|Too many arguments in method signature|too large for the JVM",
        ),
        (
            FailureClass.INFRA,
            Cause.PYTHON_WORKER,
            r"Python worker (?:exited unexpectedly|failed to connect back|.{0,40}crashed)|PYTHON_WORKER_\w+"
            r"|lost its Python worker",
        ),
        (
            FailureClass.INFRA,
            Cause.JVM,
            r"Py4JNetworkError|Answer from Java side is empty|trying to connect to the Java server|lost its JVM"
            r"|Java gateway process exited",
        ),
        (
            # A login that is refused or has expired is renewed or corrected where the catalog's or the store's is.
            FailureClass.DEPENDENCY,
            None,
            r"iceberg\.exceptions\.(?:NotAuthorized|Forbidden)Exception|\(code: 419,|\bExpiredToken"
            r"|awssdk\.services\.glue\.model\.(?:AccessDenied|Glue|InternalService|OperationTimeout|Throttling)Exception"
            r"|awssdk\.services\.sts\.model\.\w+"  # a role that may not be assumed now
            r"|Unable to load credentials from any of the providers",
        ),
        (FailureClass.CONFIG, Cause.NO_FILE_SYSTEM, r"No FileSystem for scheme|UnsupportedFileSystemException"),
        (
            FailureClass.CONFIG,  # of an object store; its clients also wrap these errors in connection errors
            None,
            r"NoSuchBucket|InvalidAccessKeyId|SignatureDoesNotMatch|AccessDeniedException: s3a"
            r"|UnrecognizedClientException|AccessDeniedException\) when calling",
        ),
        (
            FailureClass.DEPENDENCY,
            None,
            r"Connection refused|UnknownHostException|No route to host|Connection reset|Broken pipe"
            r"|TimeoutException|TimeoutError|timed out|DisconnectException|BrokerNotAvailable|NetworkException"
            r"|Failed to get connection|Connection to \S+ (?:could not|refused)|server closed the connection"
            r"|terminating connection|the database system is (?:starting|shutting)|SQLTransientConnectionException"
            r"|RuntimeMetaException|TTransportException"  # a Hive Metastore's client
            r"|UncheckedSQLException[:)] Failed to connect|ServiceUnavailable|SlowDown|SlowDownException"
            r"|Unable to execute HTTP request|AWSClientIOException|EndpointConnectionError|ConnectTimeoutError"
            r"|ReadTimeoutError|ProvisionedThroughputExceeded|LimitExceededException|KMSThrottling"
            r"|AWS Error (?:NETWORK_CONNECTION|REQUEST_TIMEOUT|SERVICE_UNAVAILABLE|SLOW_DOWN|THROTTLING)"  # PyArrow's
            r"|Spark cluster gave no executor",
        ),
        (
            FailureClass.CONFIG,
            None,
            r"AnalysisException|ParseException|PARSE_SYNTAX_ERROR|UNRESOLVED_|TABLE_OR_VIEW_NOT_FOUND"
            r"|ClassNotFoundException|NoClassDefFoundError|ModuleNotFoundError|DATA_SOURCE_NOT_FOUND"
            r"|UnknownTopicOrPartition|UNSUPPORTED_FEATURE|STREAMING_OUTPUT_MODE|STATE_STORE_\w*SCHEMA"
            r"|INCOMPATIBLE_DATA|Permission denied|AuthorizationException|SaslAuthenticationException",
        ),
        (
            FailureClass.POISON,
            None,
            r"NumberFormatException|ArithmeticException|DIVIDE_BY_ZERO|CAST_INVALID_INPUT|CAST_OVERFLOW"
            r"|MALFORMED_RECORD|RecordTooLarge|SparkRuntimeException|PythonException|KAFKA_DATA_LOSS",
        ),
        (FailureClass.INFRA, Cause.EXECUTOR, r"ExecutorLostFailure"),
        (FailureClass.INFRA, Cause.KILLED, r"SIGKILL|SIGTERM"),
    )
)


def judge(*, error: BaseException | None = None, text: str = "", exit_code: int | None = None) -> Judgement:
    """The class and cause of a failure, from the error's type, its text and the exit code, in this order.

    Args:
        error: the exception, if there is one.
        text: the error's text, e.g. of a JVM stack trace or of `exit.json`.
        exit_code: of the process; a negative one is a signal, None is unknown.
    """
    if isinstance(error, Fenced) or exit_code == EXIT_FENCED:
        return Judgement(FailureClass.FENCED)
    words = "\n".join(part for part in (text, str(error) if error else "") if part)
    if isinstance(error, Awaited):
        return Judgement(FailureClass.DEPENDENCY)
    if isinstance(error, DependencyDown):
        return Judgement(FailureClass.DEPENDENCY, Cause.DISK_FULL if _cause(words) is Cause.DISK_FULL else None)
    if isinstance(error, Poison):
        return Judgement(FailureClass.POISON)
    if isinstance(error, NotTheRecords):
        return Judgement(FailureClass.INFRA, Cause.NOT_RECORDS)
    if isinstance(error, Blocked | Terminal):
        return Judgement(FailureClass.CONFIG)
    for failure, cause, pattern in _TEXTS:
        if pattern.search(words):
            return Judgement(failure, cause)
    if isinstance(error, Transient):
        return Judgement(FailureClass.DEPENDENCY)
    if exit_code == EXIT_CONFIG:
        return Judgement(FailureClass.CONFIG)
    if exit_code == EXIT_OUT_OF_MEMORY:
        return Judgement(FailureClass.INFRA, Cause.OUT_OF_MEMORY)
    if _signal(exit_code) or (exit_code is None and not words.strip()):
        return Judgement(FailureClass.INFRA, Cause.KILLED)  # a process without an error text was killed from outside
    return Judgement(FailureClass.INFRA)


def classify(*, error: BaseException | None = None, text: str = "", exit_code: int | None = None) -> FailureClass:
    """The class alone; the arguments are those of `judge`."""
    return judge(error=error, text=text, exit_code=exit_code).failure_class


_VARIES = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|@[0-9a-f]+|\d+", re.IGNORECASE)


def signature(text: str) -> str:
    """The signature of an error, equal for repetitions: its first line without numbers, ids and addresses."""
    lines = storable(text).strip().splitlines()  # signatures are compared with texts of the registry
    return _VARIES.sub("#", lines[0])[:200] if lines else ""


def exit_words(exit_code: int | None, cause: Cause | None = None) -> str:
    """How a process ended, as a verb phrase: `ran out of memory`, `was killed by SIGKILL`, `ended with exit code 1`."""
    if cause in _ENDED:
        return _ENDED[cause]
    if exit_code is None:
        return "ended without an error report"
    signal = _signal(exit_code)
    names = {2: "SIGINT", 6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
    if signal:
        return f"was killed by {names.get(signal, f'signal {signal}')}"
    return f"ended with exit code {exit_code}"


def _cause(words: str) -> Cause | None:
    return next((cause for _, cause, pattern in _TEXTS if pattern.search(words)), None)


def _signal(exit_code: int | None) -> int:
    """The signal that ended a process; 0 if none did."""
    if exit_code is None:
        return 0
    return -exit_code if exit_code < 0 else exit_code - 128 if 128 < exit_code < 160 else 0
