from __future__ import annotations

import pytest

from lakeward.errors import Blocked, DependencyDown, Fenced, SpecError, Transient
from lakeward.streams.failures import FailureClass, classify, exit_words


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Fenced("a newer launch"), FailureClass.FENCED),
        (DependencyDown("the registry"), FailureClass.DEPENDENCY),
        (Blocked("a gap", reason="gap"), FailureClass.CONFIG),
        (SpecError("no such column"), FailureClass.CONFIG),
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
        ("java.net.ConnectException: Connection refused", FailureClass.DEPENDENCY),
        ("PSQLException: FATAL: the database system is shutting down", FailureClass.DEPENDENCY),
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
    assert exit_words(None) == "is gone without a word"
    assert exit_words(-9) == exit_words(137) == "was killed by SIGKILL"
    assert exit_words(1) == "ended with exit code 1"
