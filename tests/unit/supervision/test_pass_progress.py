from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import text

from lakeward.registry import drivers, leases
from lakeward.supervision import pass_progress
from lakeward.supervision.act import Actor
from lakeward.supervision.backends.base import Job, Life
from lakeward.supervision.decide.reconcile import FinalizeLaunch, Launch, Unstick
from lakeward.supervision.pass_progress import Progress, ordered
from lakeward.supervision.reconcile import reconcile_once


class Killed(BaseException):
    """The process of a pass is killed here."""


def test_the_drivers_that_a_pass_did_not_come_to_are_first_and_slow_ends_last() -> None:
    hung = Unstick("a", "hung", Job("a", "t", Life.ALIVE, None, "h", ""))
    acts = [
        hung,
        FinalizeLaunch("b", "gone", "t", None, True),
        Launch("c", "desired", None),
        Launch("d", "desired", None),
    ]
    assert [item.driver for item in ordered(acts, ())] == ["b", "c", "d", "a"]
    assert [item.driver for item in ordered(acts, ("b", "c"))] == ["d", "a", "b", "c"]


def test_the_steps_are_counted_until_a_pass_finishes(connected) -> None:
    with connected() as connection:
        assert pass_progress.read(connection) == Progress()
        first = pass_progress.begin(connection)
        pass_progress.step(connection, first, "a")
    with connected() as connection:
        second = pass_progress.begin(connection)
        assert (second.unfinished, second.attended) == (2, ("a",))
        pass_progress.finish(connection)
    with connected() as connection:
        after = pass_progress.read(connection)
    assert (after.unfinished, after.attended) == (0, ())
    assert after.age_s is not None


def test_a_pass_that_was_killed_is_continued_where_it_was(connected, runtime, backend, deployed, monkeypatch) -> None:
    deployed("flights")
    deployed("alerts")
    with connected() as connection:
        connection.execute(text("UPDATE streams SET driver = id"))
    act, begun = Actor.do, []

    def run(killed_at: int) -> None:
        def do(self, decision, facts):
            if len(begun) == killed_at:
                raise Killed
            begun.append(decision.driver)
            return act(self, decision, facts)

        monkeypatch.setattr(Actor, "do", do)
        reconcile_once(connected, runtime, backend, holder="test", startup_grace_s=0.0)

    with pytest.raises(Killed):
        run(killed_at=1)
    with connected() as connection:
        assert pass_progress.read(connection).attended == ("alerts",)
        # Its driver died meanwhile, so that it is due again and would be first by its name.
        row = drivers.find(connection, "alerts")
        drivers.exited(connection, "alerts", row.token, exit_code=0, error=None)
    for job in backend.find():
        backend.kill(job)
    run(killed_at=99)
    assert begun[:2] == ["alerts", "flights"]


def test_a_pass_that_lost_its_lease_stops_and_says_who_has_it(
    connected, runtime, backend, deployed, monkeypatch
) -> None:
    deployed("flights")
    deployed("alerts")
    with connected() as connection:
        connection.execute(text("UPDATE streams SET driver = id"))
    act = Actor.do

    def slow(self, decision, facts):
        with connected() as connection:
            leases.forget(connection, "reconcile", "streams")
            leases.take(connection, "reconcile", "streams", "t", "another", timedelta(minutes=1))
        return act(self, decision, facts)

    monkeypatch.setattr(Actor, "do", slow)
    summary = reconcile_once(connected, runtime, backend, holder="test", startup_grace_s=0.0)
    assert summary.held_by == "another"
    assert summary.launched == ["alerts"]
