"""A run of `streams_reconcile` that waits for what falls due keeps its eyes open."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from lakeward.airflow.reconcile_dag import OBSERVE_S, build, reconcile_streams
from lakeward.registry import leases, restarts
from lakeward.supervision.decide.health import State
from lakeward.supervision.reconcile import reconcile_once


class Seen(Exception):
    """Enough was seen."""


def test_a_second_driver_that_dies_while_the_first_is_waited_for_is_seen_at_the_next_look(
    deployed, connected, runtime, backend, eventually, sigkill
):
    deployed("flights", driver="first")
    deployed("alerts", driver="second")

    def once(chance: float = 0.0):
        return reconcile_once(connected, runtime, backend, holder="test", chance=lambda: chance, startup_grace_s=0.0)

    def kill(name: str) -> None:
        [job] = [job for job in backend.find() if job.driver == name and job.life.value == "alive"]
        sigkill(job.handle["pid"])
        eventually(lambda: not [j for j in backend.find() if j.driver == name and j.life.value == "alive"])

    once()
    eventually(lambda: {each.state for each in once().states.values()} == {State.HEALTHY})
    kill("first")
    waits = []

    def deaths(name: str) -> int:
        with connected() as connection:
            return len(restarts.recent(connection, name, 5))

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            assert (deaths("first"), deaths("second")) == (1, 0)
            kill("second")
        elif deaths("second"):
            raise Seen

    with suppress(Seen):
        reconcile_streams(
            runtime, sleep=sleep, start=lambda *_: "started", backend=backend, chance=lambda: 0.9, startup_grace_s=0.0
        )
    assert deaths("second") == 1
    assert len(waits) == 2
    assert max(waits) <= OBSERVE_S


def test_a_run_beside_another_pass_looks_once_that_is_over(deployed, connected, runtime, backend):
    deployed("flights")
    with connected() as connection:
        leases.take(connection, "reconcile", "streams", "another", "somebody", timedelta(minutes=5))
    waits = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        with connected() as connection:
            leases.release(connection, "reconcile", ["streams"], "another")

    reconcile_streams(runtime, sleep=sleep, start=lambda *_: "started", backend=backend, startup_grace_s=0.0)
    assert len(waits) == 1
    assert [job.driver for job in backend.find()] == ["nyc"]


def test_a_run_may_begin_before_the_last_one_has_ended():
    """Airflow's parser counts the runs before it writes whether there may be more: one alone can bar the next."""
    assert build().max_active_runs > 1
