"""Decisions of the control loop: desired state and observed queries in, actions out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeward.engine.assignment import Assignment, DesiredState
from lakeward.platform.failures import EXIT_FENCED, EXIT_STOPPED


@dataclass(frozen=True)
class ObservedQuery:
    """Observed state of a started stream.

    Attributes:
        generation: the generation it runs.
        active: whether its query runs.
        draining: whether it is being stopped.
        drained: whether no batch runs, so that the query can be stopped now.
        overdue: whether its last batch took longer than a stop waits.
        exact: whether its sink keeps a position.
        leased: whether this driver's lease of the stream is live.
        unbatched: whether it is a real-time query, where no batch checks the lease before it writes.
        stale: whether a reference table in its plan changed.
    """

    generation: int
    active: bool = True
    draining: bool = False
    drained: bool = False
    overdue: bool = False
    exact: bool = True
    leased: bool = True
    unbatched: bool = False
    stale: bool = False


@dataclass(frozen=True)
class Start:
    """Start a stream's query."""

    assignment: Assignment


@dataclass(frozen=True)
class Drain:
    """Let the running batch of a stream finish and no further one begin."""

    stream: str
    why: str


@dataclass(frozen=True)
class Finish:
    """Stop a drained (or overdue) query."""

    stream: str


@dataclass(frozen=True)
class FinalizeQuery:
    """Handle a query that ended by itself: failure or completion, restart or block."""

    stream: str


@dataclass(frozen=True)
class Exit:
    """End the driver; with EXIT_FENCED at once, without draining."""

    code: int
    why: str


Action = Start | Drain | Finish | FinalizeQuery | Exit


def decide(
    desired: DesiredState | None,
    seen: Mapping[str, ObservedQuery],
    *,
    ending: bool,
    waiting: frozenset[str] = frozenset(),
    packages: str | None = None,
) -> list[Action]:
    """The next actions.

    Args:
        desired: desired state from the registry; None until the registry has answered once. The last one stays valid
            while the registry is down.
        seen: the started streams.
        ending: the process was asked to end.
        waiting: streams that must not start yet: back-off, missing lease, or a block that is not recorded yet.
        packages: digest of the packages loaded in this process; None if none are loaded.
    """
    if desired is not None and desired.fenced:
        return [Exit(EXIT_FENCED, "a newer launch of this driver exists")]
    renewed = _renewed(desired, packages)
    why = "the driver was asked to end" if ending else "its driver restarts with other packages" if renewed else ""
    actions: list[Action] = []
    for stream, query in sorted(seen.items()):
        action = _of_started(stream, query, desired, why)
        if action is not None:
            actions.append(action)
    if why:
        return actions if seen else [Exit(EXIT_STOPPED, "asked to end" if ending else "other packages are needed")]
    if desired is None:
        return actions
    actions += [Start(w) for name, w in sorted(desired.run.items()) if name not in seen and name not in waiting]
    if not actions and not seen and not desired.later and not waiting & desired.hosted:
        return [Exit(EXIT_STOPPED, "no stream is to run")]
    return actions


def _renewed(desired: DesiredState | None, packages: str | None) -> bool:
    """Whether only a new process can run the desired streams: all with packages need other ones than loaded.

    If some streams need the loaded packages and others do not, a start of the others is refused: waiting cannot help.
    """
    required = {assignment.packages for assignment in desired.run.values()} - {None} if desired is not None else set()
    return bool(required) and packages is not None and packages not in required


def _of_started(stream: str, query: ObservedQuery, desired: DesiredState | None, ending: str) -> Action | None:
    if not query.active:
        return FinalizeQuery(stream)
    if query.unbatched and not query.leased:
        return Finish(
            stream
        )  # at once: a real-time query writes continuously, and its next boundary may be minutes away
    if query.draining:
        return Finish(stream) if query.drained or query.overdue else None
    if ending:
        return Drain(stream, ending)
    if not query.exact and not query.leased:
        # Only the lease prevents a second driver from writing the same rows to such a sink.
        return Drain(stream, "its lease lapsed and its sink keeps no position")
    if desired is None:
        return None
    assignment = desired.run.get(stream)
    if assignment is None:
        return Drain(stream, "it is not to run")
    if assignment.generation != query.generation:
        return Drain(stream, f"generation {assignment.generation} is to run instead of {query.generation}")
    if query.stale:
        return Drain(stream, "a reference changed")
    return None
