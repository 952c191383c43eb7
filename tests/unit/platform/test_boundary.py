"""The boundary of one item: any failure is a value with words, logged once; what concerns all items is raised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs

from lakeward.platform.boundary import Failure, attempt, worded
from lakeward.platform.errors import DependencyDown, LakewardError, SpecError, Unhealthy


def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    "error", [RuntimeError("odd"), OverflowError("date value out of range"), RecursionError(), KeyError("x")]
)
def test_any_failure_is_a_value_with_its_type_and_place(error: Exception) -> None:
    failure = attempt("table nyc.odd", lambda: fail(error))
    assert isinstance(failure, Failure)
    assert (failure.what, failure.kind) == ("Cannot read table nyc.odd", type(error).__name__)
    assert failure.why.startswith(type(error).__name__)
    assert failure.where.startswith("test_boundary.py:")
    assert failure.text == f"Cannot read table nyc.odd: {failure.why}"


def test_a_store_that_does_not_answer_is_no_fault_of_the_item() -> None:
    """Nobody is told to restore or drop a table because its store was silent."""
    error = OSError("When reading 'lake/a': AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 28")
    failure = attempt("table nyc.odd", lambda: fail(error))
    assert isinstance(failure, Failure) and failure.transient
    with pytest.raises(DependencyDown, match="Cannot read table") as told:
        worded("table nyc.odd", lambda: fail(error), next="restore its metadata or drop it")
    assert "NETWORK_CONNECTION" in told.value.why and "drop" not in told.value.next


def test_a_foreseen_error_keeps_its_words_and_its_code() -> None:
    error = SpecError("Table a.b does not exist", why="Tables: none.", next="lakeward tables health", code="LW-4002")
    failure = attempt("table a.b", lambda: fail(error))
    assert isinstance(failure, Failure)
    assert failure.text == "Table a.b does not exist [LW-4002]: Tables: none."
    assert (failure.next, failure.code, failure.kind) == ("lakeward tables health", "LW-4002", "SpecError")


def test_what_concerns_all_items_is_raised() -> None:
    with pytest.raises(DependencyDown):
        attempt("stream a", lambda: fail(DependencyDown("The registry cannot be reached")), through=(DependencyDown,))


def test_an_interruption_is_no_failure_of_an_item() -> None:
    with pytest.raises(KeyboardInterrupt):
        attempt("stream a", lambda: fail(KeyboardInterrupt()))  # type: ignore[arg-type]  # on purpose


def test_a_result_is_handed_on_and_the_scope_sees_the_failure() -> None:
    seen: list[str] = []

    @contextmanager
    def savepoint() -> Iterator[None]:
        try:
            yield
        except RuntimeError:
            seen.append("rolled back")
            raise

    assert attempt("stream a", lambda: 3, within=savepoint) == 3
    attempt("stream a", lambda: fail(RuntimeError()), within=savepoint)
    assert seen == ["rolled back"]


def test_a_failure_is_logged_once_until_it_changes_or_is_over() -> None:
    with capture_logs() as logged:
        for _ in range(3):
            attempt("stream once", lambda: fail(RuntimeError("a")))
        attempt("stream once", lambda: fail(RuntimeError("b")))
        attempt("stream once", lambda: None)
        attempt("stream once", lambda: fail(RuntimeError("b")))
    assert [entry["why"] for entry in logged] == ["RuntimeError: a", "RuntimeError: b", "RuntimeError: b"]


def test_a_command_about_one_item_gets_an_error_with_words() -> None:
    with pytest.raises(Unhealthy) as said:
        worded("table nyc.odd", lambda: fail(OverflowError("out of range")), next="lakeward tables health")
    assert (said.value.what, said.value.next) == ("Cannot read table nyc.odd", "lakeward tables health")
    assert said.value.code
    assert "OverflowError: out of range (at test_boundary.py:" in said.value.why
    with pytest.raises(SpecError):
        worded("table nyc.odd", lambda: fail(SpecError("no such table")))
    with pytest.raises(KeyError):
        worded("table nyc.odd", lambda: fail(KeyError("own")), through=(KeyError,))
    assert issubclass(Unhealthy, LakewardError)
