"""Whatever dies, hangs or cannot be asked, in whatever order: supervision never does harm, and always gets there.

The machine below is the world: a registry that may be away, a backend that may not answer or may have lost sight of a
process, a broker that comes and goes, drivers that land, hang or freeze, starters that die half way, a person who
changes her mind or holds restarts. It keeps the truth aside and checks every decision against it:

- never a launch beside a living process, on no evidence, or while a person holds restarts;
- never an end for a driver that works, whoever could not be reached;
- never an attempt burnt on a broker that is away;
- once nothing is wrong any more, what is wanted runs and lands, and what is not does not.

Each guard of the decision is then taken away in turn, and the machine must find the harm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from hypothesis.strategies import integers, sampled_from

from lakeward.registry.drivers import Driver
from lakeward.registry.leases import Lease
from lakeward.registry.observations import Observation
from lakeward.registry.restarts import Restart
from lakeward.registry.streams import Stream
from lakeward.spec.model.stream import Limits
from lakeward.supervision.backends.base import Job, Life
from lakeward.supervision.decide.health import HealthInput
from lakeward.supervision.decide.reconcile import (
    Adopt,
    Decision,
    FinalizeLaunch,
    Kill,
    Launch,
    ObservedState,
    Plan,
    plan,
)
from lakeward.supervision.decide.stuck import stuck

START = datetime(2026, 1, 1, tzinfo=UTC)
TTL = 15
HANDLE = {"pid": 1}
AWAY = "Kafka does not answer"


@dataclass
class Process:
    token: str
    alive: bool = True
    visible: bool = True  # the backend has its folder
    hung: bool = False  # its control loop stands still: it answers, says so, and lands nothing
    frozen: bool = False  # it does nothing at all


class Fleet(RuleBasedStateMachine):
    """One driver, its stream, and everything that can happen to them."""

    blind: Callable[[ObservedState], ObservedState] = staticmethod(lambda world: world)
    decide: Callable[[ObservedState], Plan] = staticmethod(plan)
    unaware: Callable[[HealthInput], HealthInput] = staticmethod(lambda sight: sight)
    settles = True

    @initialize()
    def begin(self) -> None:
        self.at = 0
        self.number = 0
        self.wanted = True
        self.asked: datetime | None = None
        self.held_until = -1
        self.row: Driver | None = None
        self.lease: Lease | None = None
        self.failure: Restart | None = None
        self.processes: list[Process] = []
        self.registry = self.backend = self.kafka = True
        self.back_at = -1000
        self.landed_at: int | None = None
        self.seen: Observation | None = None

    # -- what happens ---------------------------------------------------------------------------------------------
    @rule(seconds=sampled_from([1, 2, 5, 14, 16, 31, 40, 120, 400]))
    def time_passes(self, seconds: int) -> None:
        self.at += seconds
        self._drivers_land()
        if self.registry and self.at - self.back_at >= 2:
            self._drivers_renew()

    @rule(what=sampled_from(["is killed", "hangs", "freezes"]))
    def a_process(self, what: str) -> None:
        for process in self.processes:
            if what == "is killed":
                process.alive = False
            elif what == "hangs":
                process.hung = process.alive
            else:
                process.frozen = process.alive and process.visible

    @rule(seconds=sampled_from([0, 5, 40]))
    def the_backend_is_away(self, seconds: int) -> None:
        self.backend = False
        self.time_passes(seconds)
        if self.registry:
            self.a_pass("never")
        self.backend = True

    @rule(seconds=sampled_from([1, 10, 20, 400]))
    def the_registry_is_away(self, seconds: int) -> None:
        self.registry = False
        self.time_passes(seconds)
        self.registry, self.back_at = True, self.at

    @rule(seconds=sampled_from([1, 20, 400]))
    def the_broker_is_away(self, seconds: int) -> None:
        self.kafka = False
        self.time_passes(seconds)
        self.a_pass("never")
        self.kafka = True

    @rule()
    def a_quiet_while(self) -> None:
        for _ in range(3):
            self.time_passes(16)
            self.a_pass("never")

    @rule()
    def a_person_changes_her_mind(self) -> None:
        self.wanted = not self.wanted
        if self.wanted:
            self.asked = self._moment()

    @rule(seconds=integers(10, 100))
    def a_person_holds_restarts(self, seconds: int) -> None:
        self.held_until = self.at + seconds

    @precondition(lambda self: self.registry)
    @rule(dies=sampled_from(["never", "before it starts", "before it records", "and its folder is lost"]))
    def a_pass(self, dies: str) -> None:
        for _ in range(3):  # as a pass does: kill, bury, launch
            acts = self._plan().acts
            if not acts:
                break
            for decision in acts:
                self._act(decision, dies)

    def teardown(self) -> None:
        """Nothing is wrong any more: what is wanted is what is."""
        if not self.settles or not hasattr(self, "processes"):
            return
        self.registry = self.backend = self.kafka = True
        self.held_until = -1
        for process in self.processes:
            process.visible = True
        for _ in range(30):
            self.time_passes(30)
            self.a_pass("never")
        living = [process for process in self.processes if process.alive]
        assert len(living) == (1 if self.wanted else 0), f"it should {'run' if self.wanted else 'not run'}: {living}"
        assert not self.wanted or self.landed_at == self.at, "it runs and does not land"

    # -- how the world answers ------------------------------------------------------------------------------------
    def _plan(self) -> Plan:
        return type(self).decide(type(self).blind(self._world()))

    def _current(self, process: Process) -> bool:
        return self.row is not None and self.row.token == process.token

    def _drivers_land(self) -> None:
        for process in self.processes:
            if process.alive and not process.hung and not process.frozen and self._current(process) and self.kafka:
                self.landed_at = self.at

    def _drivers_renew(self) -> None:
        for process in self.processes:
            if not process.alive or process.frozen:
                continue
            if not self._current(process):
                process.alive = False  # it saw the newer token: exit 75
                continue
            assert self.row is not None
            self.lease = Lease("driver", "nyc", process.token, "h", self._moment(TTL), True)
            self.row = replace(self.row, heartbeat=self._moment(), state="stuck" if process.hung else "running")
            self.seen = self._observed(process)
            if not self.wanted:  # a stop interrupts what does not drain in time, a hung batch too
                process.alive = False
                self.lease = None
                self.row = replace(self.row, state="exited", exit_code=0)

    def _observed(self, process: Process) -> Observation:
        landed = None if self.landed_at is None else self._moment() - timedelta(seconds=self.at - self.landed_at)
        lag = 0 if self.landed_at == self.at else 5
        return Observation(
            "flights", self._moment(), None, None, 1, 1, 1, landed, None, lag, None, None, "running", None, 0.0, None
        )

    def _world(self) -> ObservedState:
        hold = self._later(self.held_until) if self.held_until >= 0 else None
        stream = Stream(
            "flights", "running" if self.wanted else "stopped", 1, None, "nyc", "healthy", "", START, None, hold,
            None, None, START,
        )  # fmt: skip
        lease = self.lease and replace(self.lease, live=self.lease.until >= self._moment())
        row = self.row and replace(
            self.row,
            launched_s=(self._moment() - self.row.launched_at).total_seconds(),
            age_s=None if self.row.heartbeat is None else (self._moment() - self.row.heartbeat).total_seconds(),
        )
        found = [
            Job("nyc", process.token, Life.ALIVE if process.alive else Life.GONE, HANDLE, "h", "")
            for process in self.processes
            if process.visible
        ]
        why = stuck([type(self).unaware(self._sight(stream, row, lease, found))])
        return ObservedState(
            streams=[stream],
            drivers={"nyc": row} if row else {},
            leases={"nyc": lease} if lease else {},
            jobs=found if self.backend else None,
            failures={"nyc": self.failure} if self.failure else {},
            start_requests={"flights": self.asked} if self.asked else {},
            now=self._moment(),
            startup_grace="the registry was away" if self.at - self.back_at < TTL else None,
            down={} if self.kafka else {"flights": AWAY},
            stuck={} if why is None else {"nyc": why},
        )

    def _sight(self, stream: Stream, row: Driver | None, lease: Lease | None, found: list[Job]) -> HealthInput:
        life = next((job.life for job in found if row is not None and job.token == row.token), Life.GONE)
        seen = self.seen and replace(
            self.seen,
            commit_age_s=self.seen.committed_at and (self._moment() - self.seen.committed_at).total_seconds(),
        )
        failure = self.failure and replace(self.failure, age_s=(self._moment() - self.failure.at).total_seconds())
        return HealthInput(
            stream, Limits(), row, life if self.backend else Life.UNKNOWN, lease, seen, failure, self._moment(),
            down=None if self.kafka else AWAY,
        )  # fmt: skip

    # -- what is decided ------------------------------------------------------------------------------------------
    def _act(self, decision: Decision, dies: str) -> None:
        match decision:
            case Launch():
                self._launch(decision, dies)
            case Adopt():
                assert self.row is not None
                self.row = replace(self.row, handle=HANDLE)
            case FinalizeLaunch():
                self._bury(decision)
            case Kill():
                self._end(decision)

    def _launch(self, decision: Launch, dies: str) -> None:
        assert not [process for process in self.processes if process.alive], "launched beside a living process"
        assert self.backend, "launched although the backend could not be asked"
        assert self.kafka or not self._failed(), "launched and burnt an attempt on a broker that is away"
        assert self.held_until <= self.at or self._asked_since(), "launched while a person holds restarts"
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

    def _end(self, decision: Kill) -> None:
        assert self.backend, "ended although the backend could not be asked"
        for process in self.processes:
            if process.token != decision.job.token:
                continue
            works = process.alive and not process.hung and not process.frozen and self._current(process)
            assert not works, "ended a driver that works"
            process.alive = False

    def _bury(self, decision: FinalizeLaunch) -> None:
        assert self.row is not None
        if self.row.token != decision.token:
            return
        self.row = replace(self.row, state="buried")
        if self.lease is not None and self.lease.token == decision.token:
            self.lease = None
        if decision.desired:
            self.failure = Restart(1, "nyc", None, self._moment(), "infra", "gone", None, 1, self._moment(), 0.0, True)

    def _failed(self) -> bool:
        """Whether the coming launch would be another attempt after a failure."""
        if self.failure is None or (self.asked is not None and self.asked >= self.failure.at):
            return False
        return self.row is None or self.row.launched_at <= self.failure.at

    def _asked_since(self) -> bool:
        return self.asked is not None and (self.row is None or self.asked >= self.row.launched_at)

    def _moment(self, later: int = 0) -> datetime:
        return self._later(self.at + later)

    @staticmethod
    def _later(second: int) -> datetime:
        return START + timedelta(seconds=second)


def check(machine: type[Fleet], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
            derandomize=True,
        ),
    )


def test_no_order_of_events_does_harm_and_every_one_ends_well() -> None:
    check(Fleet, 60)


def lazy(world: ObservedState) -> Plan:
    """A plan that never launches what is down: the harm is that nothing happens."""
    return Plan(tuple(item for item in plan(world).decisions if not isinstance(item, Launch)))


def patient(world: ObservedState) -> Plan:
    """A plan that ends nothing that lives."""
    return Plan(tuple(item for item in plan(world).decisions if not isinstance(item, Kill)))


def without(**values: object) -> Callable[[ObservedState], ObservedState]:
    return lambda world: replace(world, **values)


def unheld(world: ObservedState) -> ObservedState:
    return replace(world, streams=[replace(item, hold_until=None) for item in world.streams])


def hopeless(sight: HealthInput) -> HealthInput:
    """Every driver seems to stand still, also one that only waits for a broker or has just got it back."""
    return replace(sight, down=None, driver=sight.driver and replace(sight.driver, state="stuck"))


GUARDS: dict[str, tuple[str, Callable[..., object], str]] = {
    "the lease is not looked at": ("blind", without(leases={}), "launched"),
    "a silent backend counts as an empty one": ("blind", lambda w: replace(w, jobs=w.jobs or []), "launched"),
    "there is no startup grace period": ("blind", without(startup_grace=None), "launched|ended"),
    "a process that cannot be seen counts as gone": ("blind", without(jobs=[], leases={}), "launched"),
    "a broker that is away is not asked": ("blind", without(down={}), "burnt an attempt"),
    "a hold is not looked at": ("blind", unheld, "holds restarts"),
    "a driver that helps itself is not trusted": ("unaware", hopeless, "that works"),
    "nothing is launched again": ("decide", lazy, "should run"),
    "nothing that hangs is ended": ("decide", patient, "should|does not land"),
}


@pytest.mark.campaign(held_by="test_no_order_of_events_does_harm_and_every_one_ends_well")
@pytest.mark.parametrize("taken_away", sorted(GUARDS))
def test_each_guard_is_needed(taken_away: str) -> None:
    name, broken_one, harm = GUARDS[taken_away]
    # Harm is looked for on the way; only what never happens is seen at the end.
    broken = type("Broken", (Fleet,), {name: staticmethod(broken_one), "settles": name == "decide"})
    with pytest.raises(AssertionError, match=harm):
        check(broken, 400)
