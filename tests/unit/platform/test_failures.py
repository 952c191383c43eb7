from __future__ import annotations

import pytest

from lakeward.platform.errors import Awaited, Blocked, DependencyDown, Fenced, SpecError, Transient
from lakeward.platform.failures import Cause, FailureClass, classify, exit_words, judge, signature


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Fenced("a newer launch"), FailureClass.FENCED),
        (DependencyDown("the registry"), FailureClass.DEPENDENCY),
        (Blocked("a gap", reason="gap"), FailureClass.CONFIG),
        (SpecError("no such column"), FailureClass.CONFIG),
        (Awaited("no topic yet"), FailureClass.DEPENDENCY),
        (Transient("try again"), FailureClass.DEPENDENCY),
        (ValueError("who knows"), FailureClass.INFRA),
    ],
)
def test_our_own_types_decide_first(error: Exception, expected: FailureClass) -> None:
    assert classify(error=error) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("org.apache.kafka.common.errors.TimeoutException: Timeout expired", FailureClass.DEPENDENCY),
        ("SdkClientException: Unable to execute HTTP request: Connect to store:9000 failed", FailureClass.DEPENDENCY),
        (
            "OSError: When reading information for key 'w/a' in bucket 'lake': AWS Error NETWORK_CONNECTION during "
            "HeadObject operation: curlCode: 28, Timeout was reached; Details: Operation too slow",
            FailureClass.DEPENDENCY,
        ),
        ("botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL", FailureClass.DEPENDENCY),
        ("(ProvisionedThroughputExceededException) when calling the GetRecords operation", FailureClass.DEPENDENCY),
        ("java.nio.file.AccessDeniedException: s3a://lake/c: getFileStatus: status 403", FailureClass.CONFIG),
        ("(AccessDeniedException) when calling the GetRecords operation: User is not allowed", FailureClass.CONFIG),
        ("org.apache.iceberg.exceptions.NotAuthorizedException: Not authorized: who", FailureClass.DEPENDENCY),
        ("org.apache.iceberg.exceptions.ForbiddenException: Forbidden: no commit", FailureClass.DEPENDENCY),
        ("RESTException: Unable to process (code: 419, type: AuthorizationExpired)", FailureClass.DEPENDENCY),
        ("S3Exception: The token has expired. (ExpiredToken) AccessDeniedException: s3a", FailureClass.DEPENDENCY),
        ("(ExpiredTokenException) when calling the GetRecords operation", FailureClass.DEPENDENCY),
        ("StsException: User is not authorized: x.awssdk.services.sts.model.StsException", FailureClass.DEPENDENCY),
        ("software.amazon.awssdk.services.glue.model.AccessDeniedException: User: arn:aws:..", FailureClass.DEPENDENCY),
        (
            "software.amazon.awssdk.services.glue.model.GlueException: UnrecognizedClientException (Service: Glue, ..)",
            FailureClass.DEPENDENCY,
        ),
        ("Unable to load credentials from any of the providers in the chain", FailureClass.DEPENDENCY),
        ("NoSuchBucketException: The specified bucket does not exist", FailureClass.CONFIG),
        ("java.net.ConnectException: Connection refused", FailureClass.DEPENDENCY),
        ("PSQLException: FATAL: the database system is shutting down", FailureClass.DEPENDENCY),
        ("(org.apache.iceberg.jdbc.UncheckedSQLException) Failed to connect: jdbc:x", FailureClass.DEPENDENCY),
        ("org.apache.spark.sql.AnalysisException: [UNRESOLVED_COLUMN]", FailureClass.CONFIG),
        ("[TABLE_OR_VIEW_NOT_FOUND] nyc.planes", FailureClass.CONFIG),
        ("[DIVIDE_BY_ZERO] Division by zero", FailureClass.POISON),
        ("[CAST_INVALID_INPUT] The value 'x' of the type STRING", FailureClass.POISON),
        ("java.lang.OutOfMemoryError: Java heap space", FailureClass.INFRA),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Multiple streaming jobs", FailureClass.FENCED),
        ("something nobody has seen", FailureClass.INFRA),
    ],
)
def test_spark_and_its_clients_are_read_by_their_words(text: str, expected: FailureClass) -> None:
    assert classify(text=text) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (75, FailureClass.FENCED),
        (2, FailureClass.CONFIG),
        (1, FailureClass.INFRA),
        (-9, FailureClass.INFRA),
        (None, FailureClass.INFRA),
    ],
)
def test_the_exit_code_is_the_last_evidence(code: int | None, expected: FailureClass) -> None:
    assert classify(exit_code=code) is expected


def test_a_dependency_seen_in_the_text_beats_the_exit_code() -> None:
    assert classify(text="Connection refused", exit_code=2) is FailureClass.DEPENDENCY


def test_exit_codes_in_words() -> None:
    assert exit_words(None) == "ended without an error report"
    assert exit_words(-9) == exit_words(137) == "was killed by SIGKILL"
    assert exit_words(1) == "ended with exit code 1"


@pytest.mark.parametrize(
    ("text", "code", "kind", "cause", "ended"),
    [
        ("OutOfMemoryError: Java heap space", 1, FailureClass.INFRA, Cause.OUT_OF_MEMORY, "ran out of memory"),
        ("[UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 64 bytes", 1, FailureClass.INFRA, Cause.OUT_OF_MEMORY,
         "ran out of memory"),
        ("", 52, FailureClass.INFRA, Cause.OUT_OF_MEMORY, "ran out of memory"),
        ("java.io.IOException: No space left on device", 1, FailureClass.DEPENDENCY, Cause.DISK_FULL,
         "found its disk full"),
        ("[Errno 122] Disk quota exceeded", 1, FailureClass.DEPENDENCY, Cause.DISK_FULL, "found its disk full"),
        ("SparkException: Python worker exited unexpectedly (crashed): java.io.EOFException", 1, FailureClass.INFRA,
         Cause.PYTHON_WORKER, "lost its Python worker"),
        ("Py4JNetworkError: Answer from Java side is empty; ConnectionRefusedError: Connection refused", 1,
         FailureClass.INFRA, Cause.JVM, "lost its JVM"),
        ("hung in a batch: no batch for 6 min", None, FailureClass.INFRA, Cause.HUNG, "hung in a batch"),
        ("ExecutorLostFailure (executor 3 exited)", 1, FailureClass.INFRA, Cause.EXECUTOR, "lost an executor"),
        ("java.lang.StackOverflowError", 1, FailureClass.INFRA, Cause.PLAN_SIZE,
         "met a query plan that is too large for the JVM"),
        ("InternalCompilerException: Code of method \"apply\" of class \"Generated\" grows beyond 64 KB", 1,
         FailureClass.INFRA, Cause.PLAN_SIZE, "met a query plan that is too large for the JVM"),
        ("Driver nyc met a query plan that is too large for the JVM", 1, FailureClass.INFRA, Cause.PLAN_SIZE,
         "met a query plan that is too large for the JVM"),
        ("the Spark cluster has no room for its driver; it has no worker (waited 3 min)", None,
         FailureClass.DEPENDENCY, Cause.NO_ROOM, "found no room in its cluster"),
        ("", -9, FailureClass.INFRA, Cause.KILLED, "was killed by SIGKILL"),
        ("", None, FailureClass.INFRA, Cause.KILLED, "ended without an error report"),
        ('UnsupportedFileSystemException: No FileSystem for scheme "s3"', 1, FailureClass.CONFIG,
         Cause.NO_FILE_SYSTEM, "ended with exit code 1"),
        ("something nobody has seen", 1, FailureClass.INFRA, None, "ended with exit code 1"),
    ],
)  # fmt: skip
def test_a_cause_has_a_name_inside_its_class(text, code, kind, cause, ended) -> None:
    found = judge(text=text, exit_code=code)
    assert (found.failure_class, found.cause) == (kind, cause)
    assert exit_words(code, found.cause) == ended


def test_a_full_disk_is_named_although_our_own_type_decides_the_class() -> None:
    assert judge(error=DependencyDown("the table", why="No space left on device")).cause is Cause.DISK_FULL


def test_the_same_error_has_the_same_signature_whatever_its_numbers() -> None:
    one = signature("Lost task 0.3 in stage 17.0 (TID 61): o123.foo at 0x7f3a\n  at somewhere")
    two = signature("Lost task 1.0 in stage 4.0 (TID 9): o77.foo at 0x1b\n  at somewhere else")
    assert one == two
    assert signature("java.lang.OutOfMemoryError: Java heap space") != one
    assert signature("") == ""


def test_the_signature_is_that_of_the_text_the_registry_gives_back() -> None:
    assert signature("cannot cast 'a\x00b\ud800'") == signature("cannot cast 'a\\u0000b\\ud800'")
