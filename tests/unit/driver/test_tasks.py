"""Starts and stops beside each other."""

from __future__ import annotations

import threading

from lakeward.driver.tasks import Task, Tasks


def _finished(tasks: Tasks, task_over: threading.Event) -> list[Task]:
    assert task_over.wait(30)
    return list(tasks.finished())


def test_one_that_hangs_keeps_no_other_waiting() -> None:
    tasks, never = Tasks(), threading.Event()
    tasks.begin("start", "hangs", never.wait)
    tasks.begin("start", "starts", lambda: 7, "what was wanted")
    [other] = _finished(tasks, tasks._tasks["starts"].over)
    assert (other.stream, other.result, other.subject, other.error) == ("starts", 7, "what was wanted", None)
    assert tasks.streams == {"hangs"}
    assert [each.stream for each in tasks.slow("start", -1.0)] == ["hangs"]
    assert list(tasks.slow("start", -1.0)) == [], "told once"
    never.set()
    assert [each.stream for each in _finished(tasks, tasks._tasks["hangs"].over)] == ["hangs"]
    assert tasks.streams == frozenset()


def test_what_goes_wrong_is_reported_and_not_raised() -> None:
    tasks = Tasks()

    def wrong() -> None:
        raise ValueError("broken")

    tasks.begin("stop", "s", wrong)
    [task] = _finished(tasks, tasks._tasks["s"].over)
    assert str(task.error) == "broken"
