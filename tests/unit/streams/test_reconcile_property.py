"""Whatever dies, hangs or cannot be asked, in whatever order: never two processes of one driver by our doing.

The machine below is the world: a registry that may be away, a backend that may not answer or may have lost sight of a
process, drivers that renew their lease, starters that die half way. It keeps the truth aside and checks every launch
against it. Each guard of `plan` is then taken away in turn, and the machine must find the double launch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from hypothesis.strategies import integers, sampled_from

from lakeward.backends.base import Job, Life
from lakeward.registry.drivers import Driver
from lakeward.registry.leases import Lease
from lakeward.registry.restarts import Restart
from lakeward.registry.streams import Stream
from lakeward.streams.reconcile import Adopt, Bury, Kill, Launch, World, plan

START = datetime(2026, 1, 1, tzinfo=UTC)
TTL = 15
HANDLE = {"pid": 1}


@dataclass
class Process:
    token: str
    alive: bool = True
    visible: bool = True  # the backend has its folder


class Fleet(RuleBasedStateMachine):
    """One driver, its stream, and everything that can happen to them."""

    blind: Callable[[World], World] = staticmethod(lambda world: world)

    @initialize()
    def begin(self) -> None:
        self.at = 0
        self.number = 0
        self.wanted = True
        self.row: Driver | None = None
        self.lease: Lease | None = None
        self.failure: Restart | None = None
        self.processes: list[Process] = []
        self.registry = self.backend = True
        self.back_at = -1000

    # -- what happens ---------------------------------------------------------------------------------------------
    @rule(seconds=integers(1, 40))
    def time_passes(self, seconds: int) -> None:
        for _ in range(seconds):
            self.at += 1
            if self.registry and self.at - self.back_at >= 2:
                self._drivers_renew()

    @rule()
    def a_process_is_killed(self) -> None:
        for process in self.processes:
            process.alive = False

    @rule()
    def the_backend_goes_or_comes(self) -> None:
        self.backend = not self.backend

    @rule()
    def the_registry_goes_or_comes(self) -> None:
        self.registry = not self.registry
        if self.registry:
            self.back_at = self.at

    @rule()
    def a_person_changes_her_mind(self) -> None:
        self.wanted = not self.wanted

    @precondition(lambda self: self.registry)
    @rule(dies=sampled_from(["never", "before it starts", "before it records", "and its folder is lost"]))
    def a_pass(self, dies: str) -> None:
        world = self._world()
        for decision in plan(type(self).blind(world)).acts:
            match decision:
                case Launch():
                    self._launch(decision, dies)
                case Adopt():
                    assert self.row is not None
                    self.row = replace(self.row, handle=HANDLE)
                case Bury():
                    self._bury(decision)
                case Kill():
                    for process in self.processes:
                        if process.token == decision.job.token:
                            process.alive = False

    # -- how the world answers ------------------------------------------------------------------------------------
    def _drivers_renew(self) -> None:
        for process in self.processes:
            if process.alive and self.row is not None and self.row.token != process.token:
                process.alive = False  # it saw the newer token: exit 75
            elif process.alive and self.row is not None:
                self.lease = Lease("driver", "nyc", process.token, "h", self._moment(TTL), True)
                if not self.wanted:
                    process.alive = False
                    self.lease = None
                    self.row = replace(self.row, state="exited", exit_code=0)

    def _world(self) -> World:
        stream = Stream(
            "flights", "running" if self.wanted else "stopped", 1, None, "nyc", "healthy", "", START, None, None,
            None, None, START,
        )  # fmt: skip
        lease = self.lease and replace(self.lease, live=self.lease.until >= self._moment())
        row = self.row and replace(self.row, launched_s=(self._moment() - self.row.launched_at).total_seconds())
        found = [
            Job("nyc", process.token, Life.ALIVE if process.alive else Life.GONE, HANDLE, "h", "")
            for process in self.processes
            if process.visible
        ]
        away = self.at - self.back_at < TTL
        return World(
            streams=[stream],
            drivers={"nyc": row} if row else {},
            leases={"nyc": lease} if lease else {},
            found=found if self.backend else None,
            failures={"nyc": self.failure} if self.failure else {},
            asked={},
            now=self._moment(),
            calm="the registry was away" if away else None,
        )

    def _launch(self, decision: Launch, dies: str) -> None:
        # The truth: a launch beside a living process, or on no evidence, is what must never happen.
        assert not [process for process in self.processes if process.alive], "launched beside a living process"
        assert self.backend, "launched although the backend could not be asked"
        if decision.previous != (self.row.token if self.row else None):
            return  # the compare-and-set of the intent
        self.number += 1
        token = f"t{self.number}"
        self.row = Driver(
            "nyc", token, "local", None, None, None, "launching", self._moment(), None, None, None, None, None, 0.0
        )
        if dies == "before it starts":
            return
        self.processes.append(Process(token, visible=dies != "and its folder is lost"))
        if dies == "never":
            self.row = replace(self.row, handle=HANDLE)

    def _bury(self, decision: Bury) -> None:
        assert self.row is not None
        if self.row.token != decision.token:
            return
        self.row = replace(self.row, state="exited")
        if self.lease is not None and self.lease.token == decision.token:
            self.lease = None
        if decision.wanted:
            self.failure = Restart(
                1, "nyc", None, self._moment(), "infra", "gone", None, 1, self._moment(5), 0.0, False
            )

    def _moment(self, later: int = 0) -> datetime:
        return START + timedelta(seconds=self.at + later)


def check(machine: type[Fleet], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
            derandomize=True,
        ),
    )


def test_no_order_of_events_gives_two_processes() -> None:
    check(Fleet, 150)


GUARDS = {
    "the lease is not looked at": lambda world: replace(world, leases={}),
    "a silent backend counts as an empty one": lambda world: replace(world, found=world.found or []),
    "there is no calm after an outage": lambda world: replace(world, calm=None),
    "a process that cannot be seen counts as gone": lambda world: replace(
        world,
        found=[],
        leases={},
    ),
}


@pytest.mark.parametrize("taken_away", sorted(GUARDS))
def test_each_guard_is_needed(taken_away: str) -> None:
    broken = type("Broken", (Fleet,), {"blind": staticmethod(GUARDS[taken_away])})
    with pytest.raises(AssertionError, match="launched"):
        check(broken, 600)
