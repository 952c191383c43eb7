from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lakeward.airflow import polling, reconcile_dag, watcher
from lakeward.airflow.watcher import StreamsTrigger
from lakeward.platform.errors import DependencyDown
from lakeward.supervision import dead_mans_switch


class Polled:
    """Something the watcher polls."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.polls = list(answers), 0

    def poll(self) -> Any:
        self.polls += 1
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


def first_event(monkeypatch: pytest.MonkeyPatch, *parts: Polled) -> list[str]:
    async def observers() -> tuple[Polled, ...]:
        return parts

    async def run() -> list[str]:
        async for reasons in StreamsTrigger.open_shared_stream({"poll_s": 0.01}):
            return reasons
        return []

    monkeypatch.setattr(watcher, "_observers", observers)
    monkeypatch.setattr(polling, "AFTER_ERROR_S", 0.01)
    return asyncio.run(asyncio.wait_for(run(), 20))


def test_each_poll_also_relaunches_what_is_dead_where_passes_do_not_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    alarm, monitor, relaunch, quiet = Polled([], ["nyc: its process is gone"]), Polled(), Polled(), Polled()
    assert first_event(monkeypatch, alarm, monitor, relaunch, quiet) == ["nyc: its process is gone"]
    assert (alarm.polls, monitor.polls, relaunch.polls, quiet.polls) == (2, 2, 2, 1)


def test_what_is_not_urgent_requests_a_pass_too(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (Polled([], []), Polled(), Polled(), Polled([], ["flights: commits to announce"]))
    assert first_event(monkeypatch, *parts) == ["flights: commits to announce"]


def test_the_schedule_is_the_one_by_which_missing_passes_are_judged() -> None:
    assert reconcile_dag.EVERY.total_seconds() == dead_mans_switch.SCHEDULE_S


@pytest.mark.parametrize(
    "failure", [DependencyDown("x", why="y", next="z", code="LW-6001"), RuntimeError("odd"), OSError("away")]
)
def test_whatever_a_poll_meets_the_watcher_goes_on(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    alarm, relaunch = Polled([], ["nyc: its process is gone"]), Polled(failure)
    assert first_event(monkeypatch, alarm, Polled(), relaunch, Polled()) == ["nyc: its process is gone"]
