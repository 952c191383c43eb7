"""What a failure of a function of the user's own means for its stream."""

from __future__ import annotations

import pytest

from lakeward.engine.sinks.python import failure
from lakeward.platform.errors import DependencyDown, Poison
from lakeward.platform.failures import Cause, FailureClass, judge


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("https://h/alerts: it answers 503"),
        TimeoutError("nothing came"),
        RuntimeError("ConnectError: [Errno 111] Connection refused"),
    ],
)
def test_what_does_not_answer_is_waited_for(error: Exception) -> None:
    found = failure("alerts", "mine:send", error)
    assert isinstance(found, DependencyDown)
    assert str(error) in found.why


def test_a_mistake_is_poison_with_its_words() -> None:
    found = failure("alerts", "mine:send", KeyError("carrier"))
    assert isinstance(found, Poison)
    assert "mine:send" in found.what
    assert found.why == "KeyError: 'carrier'"


def test_what_is_not_the_functions_keeps_its_own_class() -> None:
    for error, expected in (
        (ModuleNotFoundError("No module named 'redis'"), FailureClass.CONFIG),
        (RuntimeError("Python worker exited unexpectedly (crashed)"), FailureClass.INFRA),
    ):
        found = failure("alerts", "mine:send", error)
        assert found is error
        assert judge(error=found, text=f"{type(found).__name__}: {found}").failure_class is expected
    assert judge(text="Python worker exited unexpectedly").cause is Cause.PYTHON_WORKER
