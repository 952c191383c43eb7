"""Reconcile decision: what to do with each driver, from desired and observed state. Pure; `supervision.act` acts.

Three rules precede the table in `_decide`:

1. No launch while the lease is live or a process is alive, unless the lease belongs to a process proven gone.
2. No restart because Airflow, the backend or the registry could not be asked.
3. No launch for one lease lifetime after a registry outage: drivers renew first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.text import span
from lakeward.registry.drivers import EXITED, Driver
from lakeward.registry.leases import Lease
from lakeward.registry.restarts import Restart
from lakeward.registry.streams import Stream
from lakeward.supervision.backends.base import Job, Life

INTENT_S = 30.0
"""A launch intent without a process counts as a launch in progress for this long."""
FROZEN_S = 60.0
"""A driver of wanted streams that was silent for this long, and whose lease expired, counts as frozen and is replaced:
whether records wait is not known, because only the driver counts them."""
HUNG_S = 300.0
"""The same for a process that never sent a heartbeat (a cold start takes long), for one whose streams are not to run,
and for one that may only be starved: if the machine is, killing and starting it again costs more of what is missing."""
SILENCE_S = 20.0
"""From this silence on, a pass decides again when the driver would count as frozen."""
RECHECK_S = 10.0
"""A decision that waits for an incident is made again after this."""
ROOM_S = 180.0
"""A driver that its cluster has not started for this long has no room: its submission is withdrawn and made again
later, with growing pauses, so that the reason is a failure with a name and not a queue that nobody sees."""
STRAY_S = 30.0
"""A process of an older launch has this long to see the newer token and exit by itself."""


@dataclass(frozen=True)
class ObservedState:
    """What is known at one moment. `jobs` None: the backend could not be asked."""

    streams: Sequence[Stream]
    drivers: Mapping[str, Driver]
    leases: Mapping[str, Lease]  # scope "driver"
    jobs: Sequence[Job] | None
    failures: Mapping[str, Restart]  # newest failure of a whole driver
    start_requests: Mapping[str, datetime]  # newest start or restart requested by a person, by stream
    now: datetime
    startup_grace: str | None = None  # why nothing may start now
    down: Mapping[str, str] = field(default_factory=dict)  # stream -> its dependency that does not answer
    thrash: str | None = None  # why automatic restarts are suspended
    stuck: Mapping[str, str] = field(default_factory=dict)  # driver -> why it has to be ended although it is alive
    starved: bool = False  # this machine has much more work than CPU: silence is no sign of death


@dataclass(frozen=True)
class Decision:
    """What to do with a driver, and why. `reason` is a sentence without its full stop."""

    driver: str
    reason: str


@dataclass(frozen=True)
class Nothing(Decision):
    """Do nothing. `after_s`: in how many seconds this may change by itself."""

    after_s: float | None = None


@dataclass(frozen=True)
class Launch(Decision):
    """Start it. `previous` is the token that the registry must have (compare-and-set)."""

    previous: str | None
    streams: tuple[str, ...] = ()


@dataclass(frozen=True)
class Adopt(Decision):
    """A process runs that was started but not recorded: record its handle."""

    job: Job


@dataclass(frozen=True)
class FinalizeLaunch(Decision):
    """A launch is proven gone: record its end, release its leases, and schedule the next attempt if it is to run."""

    token: str
    job: Job | None
    desired: bool


@dataclass(frozen=True)
class Kill(Decision):
    """End a process: of an older launch, a hung one, or a child process of a dead driver."""

    job: Job


@dataclass(frozen=True)
class Unstick(Kill):
    """End a driver that is alive and makes no progress; a thread dump is written first."""


@dataclass(frozen=True)
class Plan:
    """The decisions of one pass, one or more for each driver, in the order of execution."""

    decisions: tuple[Decision, ...] = field(default_factory=tuple)

    @property
    def after_s(self) -> float | None:
        """In how many seconds the next decision falls due; None if none does."""
        due = [item.after_s for item in self.decisions if isinstance(item, Nothing) and item.after_s is not None]
        return min(due, default=None)

    @property
    def acts(self) -> tuple[Decision, ...]:
        """The decisions that change something."""
        return tuple(item for item in self.decisions if not isinstance(item, Nothing))


def plan(observed: ObservedState) -> Plan:
    """Decide for every driver that is desired, recorded or running."""
    hosts: dict[str, list[Stream]] = {}
    for stream in observed.streams:
        hosts.setdefault(stream.driver, []).append(stream)
    jobs: dict[str, list[Job]] = {}
    for item in observed.jobs or ():
        jobs.setdefault(item.driver, []).append(item)
    decisions: list[Decision] = []
    for name in sorted(hosts.keys() | observed.drivers.keys() | jobs.keys()):
        decided = attempt(f"driver {name}", partial(_decide, name, hosts.get(name, []), jobs.get(name, []), observed))
        decisions += [Nothing(name, decided.text)] if isinstance(decided, Failure) else decided
    return Plan(tuple(decisions))


def _decide(name: str, hosted: Sequence[Stream], jobs: Sequence[Job], observed: ObservedState) -> list[Decision]:
    if observed.jobs is None:
        return [Nothing(name, "the backend could not be asked: nothing is restarted for that")]
    row = observed.drivers.get(name)
    current = next((item for item in jobs if row is not None and item.token == row.token), None)
    others = [item for item in jobs if item is not current]
    decisions: list[Decision] = [
        Kill(name, "a child process of a dead driver", item) for item in jobs if item.life is Life.REMNANT
    ]
    strays = [item for item in others if item.life is Life.ALIVE]
    if strays:
        return decisions + _strays(name, strays, row, observed)
    if row is not None and current is not None and current.life is Life.ALIVE:
        return decisions + _alive(name, hosted, current, row, observed)
    if decisions:
        return decisions  # a process of the group may still write: the next round decides
    if row is not None and current is not None and remains(row, current) is Life.UNKNOWN:
        if current.lost:
            return _lost(name, hosted, current, row, observed)
        return [Nothing(name, "its process could not be asked: nothing is restarted for that")]
    return _without_process(name, hosted, row, current, observed)


def remains(row: Driver, job: Job) -> Life:
    """What is left of the newest launch. A launch that cannot be asked is gone if its row or its `exit.json` says that
    it ended.
    """
    return Life.GONE if job.life is Life.UNKNOWN and (row.ended or job.exit is not None) else job.life


def _strays(name: str, strays: Sequence[Job], row: Driver | None, observed: ObservedState) -> list[Decision]:
    """Processes of launches other than the registry's newest: they see the newer token and exit by themselves."""
    waited = None if row is None else row.launched_s
    if waited is not None and waited > STRAY_S and observed.startup_grace is None:
        return [Kill(name, f"an older launch still runs {span(waited)} after the newer one", item) for item in strays]
    if row is None:
        return [Nothing(name, "a process runs that the registry does not know: it exits when it reads the registry")]
    return [
        Nothing(name, "an older launch still runs: nothing is started beside it", max(0.0, STRAY_S - row.launched_s))
    ]


def _alive(name: str, hosted: Sequence[Stream], current: Job, row: Driver, observed: ObservedState) -> list[Decision]:
    if row.handle is None:
        return [Adopt(name, "it runs, and its starter died before recording it", current)]
    if current.waits:
        if row.launched_s > ROOM_S:
            return [Unstick(name, f"{current.waits} (waited {span(row.launched_s)})", current)]
        return [Nothing(name, current.waits, ROOM_S - row.launched_s)]
    lease = observed.leases.get(name)
    # A driver that never took its lease has been without it since its launch.
    lapsed = row.launched_s if lease is None else (observed.now - lease.until).total_seconds()
    silent = row.age_s if row.age_s is not None else row.launched_s
    frozen = _may_be_frozen(hosted, current, row, observed)
    # Silence proves something only if the registry was reachable all the time; `startup_grace` covers the time after an
    # outage.
    if observed.startup_grace is None and (
        (lapsed > HUNG_S and silent > HUNG_S) or (frozen and lapsed > 0 and silent > FROZEN_S)
    ):
        how = "is stopped (SIGSTOP, or a suspended host) and" if current.stopped else "exists but"
        return [Unstick(name, f"its process {how} sent no heartbeat for {span(silent)}", current)]
    why = observed.stuck.get(name)
    if observed.startup_grace is None and why is not None:
        return [Unstick(name, why, current)]
    if frozen and silent > SILENCE_S:
        wait = max(0.5, FROZEN_S - silent, -lapsed)
        return [Nothing(name, f"it runs and sent no heartbeat for {span(silent)}", wait)]
    return [Nothing(name, "it runs")]


def _lost(name: str, hosted: Sequence[Stream], current: Job, row: Driver, observed: ObservedState) -> list[Decision]:
    """Decide for a driver of whom its cluster, which answers, knows nothing. It may run on: the cluster lost its own
    memory, or a worker. It is given up when its lease has expired and it sent no heartbeat for as long as a frozen one;
    if it still runs after that, the next launch fences it."""
    lease = observed.leases.get(name)
    lapsed = row.launched_s if lease is None else (observed.now - lease.until).total_seconds()
    silent = row.age_s if row.age_s is not None else row.launched_s
    if observed.startup_grace is not None:
        return [Nothing(name, observed.startup_grace, 5.0)]
    if lapsed > 0 and silent > FROZEN_S:
        reason = f"{current.lost}, and it sent no heartbeat for {span(silent)}"
        return [FinalizeLaunch(name, reason, row.token, current, any(_is_to_run(item) for item in hosted))]
    wait = max(0.5, FROZEN_S - silent, -lapsed)
    return [Nothing(name, f"{current.lost}; its lease or its heartbeat is recent", wait)]


def _may_be_frozen(hosted: Sequence[Stream], current: Job, row: Driver, observed: ObservedState) -> bool:
    """Whether silence of `FROZEN_S` is enough: it worked before, has work, and is not silent for lack of CPU."""
    works = row.age_s is not None and any(_is_to_run(item) for item in hosted)
    return works and (current.stopped or not observed.starved)


def _without_process(
    name: str, hosted: Sequence[Stream], row: Driver | None, current: Job | None, observed: ObservedState
) -> list[Decision]:
    """Decide for a driver without a live process. `current` is the newest launch if the backend knows it."""
    stream_ids = tuple(item.id for item in hosted if _is_to_run(item))
    lease = observed.leases.get(name)
    live = lease is not None and lease.live
    if row is not None and not row.ended:
        unstarted = row.handle is None and (current is None or current.handle is None)
        if unstarted and row.launched_s < INTENT_S:
            return [Nothing(name, "another process is launching it", INTENT_S - row.launched_s)]
        if current is None and live and lease is not None:
            return [
                Nothing(
                    name, "the backend does not know its process, but its lease is live", _remaining_s(lease, observed)
                )
            ]
        return [
            FinalizeLaunch(
                name,
                "it was never started" if unstarted else "its process is gone",
                row.token,
                current,
                bool(stream_ids),
            )
        ]
    if row is not None and row.state == EXITED and row.exit_code != 0 and not _recorded(name, row, observed):
        # Also if none of its streams is to run: a later start must not count as a restart after this end.
        return [FinalizeLaunch(name, "it ended by itself", row.token, current, bool(stream_ids))]
    if not stream_ids:
        return [Nothing(name, "none of its streams is to run")]
    if lease is not None and live and not (current is not None and lease.token == current.token):
        return [
            Nothing(
                name, f"its lease is live for {span(_remaining_s(lease, observed))} more", _remaining_s(lease, observed)
            )
        ]
    held = _held(hosted, stream_ids, row, observed)
    if held is not None:
        return [held]
    if observed.startup_grace is not None:
        return [Nothing(name, observed.startup_grace, 5.0)]
    return [_next(name, stream_ids, row, observed)]


def _recorded(name: str, row: Driver, observed: ObservedState) -> bool:
    """Whether the end of this launch is recorded among the failures already, so that its pause is known."""
    failure = observed.failures.get(name)
    return failure is not None and failure.at >= row.launched_at


def _newest_request(stream_ids: tuple[str, ...], observed: ObservedState) -> datetime | None:
    requests = observed.start_requests
    return max((requests[stream] for stream in stream_ids if stream in requests), default=None)


def _next(name: str, stream_ids: tuple[str, ...], row: Driver | None, observed: ObservedState) -> Decision:
    """A launch, or the remaining pause before it."""
    failure = observed.failures.get(name)
    previous = None if row is None else row.token
    if failure is not None:
        newest = _newest_request(stream_ids, observed)
        forgiven = newest is not None and newest >= failure.at
        launched_since = row is not None and row.launched_at > failure.at
        if not forgiven and not launched_since:
            if failure.next_attempt_at is None:
                return Nothing(name, f"no automatic attempt after a {failure.failure_class} failure")
            wait = (failure.next_attempt_at - observed.now).total_seconds()
            # A start does not bring a dependency back: the attempt waits for it and is not used up.
            down = {observed.down.get(stream) for stream in stream_ids}
            if None not in down:
                return Nothing(name, f"attempt {failure.attempt} waits: {min(str(item) for item in down)}", RECHECK_S)
            if observed.thrash is not None:
                return Nothing(name, observed.thrash, RECHECK_S)
            if wait > 0:
                return Nothing(name, f"attempt {failure.attempt} follows in {span(wait)}", wait)
            return Launch(
                name, f"attempt {failure.attempt} after {failure.failure_class} failure", previous, stream_ids
            )
    return Launch(name, "it is desired and does not run", previous, stream_ids)


def _held(
    hosted: Sequence[Stream], stream_ids: tuple[str, ...], row: Driver | None, observed: ObservedState
) -> Nothing | None:
    """Why restarts are held, if every stream of the driver is held. A start by a person is not held."""
    until = [item.hold_until for item in hosted if item.id in stream_ids and item.hold_until is not None]
    if len([moment for moment in until if moment > observed.now]) < len(stream_ids):
        return None
    newest = _newest_request(stream_ids, observed)
    if newest is not None and (row is None or newest >= row.launched_at):
        return None
    remaining = (min(until) - observed.now).total_seconds()
    name = row.name if row else hosted[0].driver
    return Nothing(name, f"automatic restarts are held for {span(remaining)} more", remaining)


def _is_to_run(stream: Stream) -> bool:
    return stream.desired == "running" and stream.blocked is None and stream.removed_at is None


def _remaining_s(lease: Lease, observed: ObservedState) -> float:
    return max(0.5, (lease.until - observed.now).total_seconds())
