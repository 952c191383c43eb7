"""What the driver does next. Pure: the registry's picture and the queries' condition in, actions out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeward.engine.assignment import Assignment, DesiredState
from lakeward.platform.failures import EXIT_FENCED, EXIT_STOPPED


@dataclass(frozen=True)
class ObservedQuery:
    """A started stream, as the driver sees it.

    Attributes:
        generation: what it runs.
        active: its query runs.
        draining: it is being stopped.
        drained: no batch of it runs, so that it may be stopped now.
        overdue: its last batch took longer than a stop waits.
        exact: its sink keeps a position.
        leased: this driver's lease of it is live.
        unbatched: its rows leave as they come, so that no batch asks for the lease before it writes.
        stale: a reference in its plan changed.
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

    wanted: Assignment


@dataclass(frozen=True)
class Drain:
    """Let no further batch of a stream begin."""

    stream: str
    why: str


@dataclass(frozen=True)
class Finish:
    """Stop a drained (or overdue) query."""

    stream: str


@dataclass(frozen=True)
class FinalizeQuery:
    """A query ended by itself: find out why, and when it is tried again."""

    stream: str


@dataclass(frozen=True)
class Exit:
    """End the driver. With EXIT_FENCED at once, whatever runs."""

    code: int
    why: str


Action = Start | Drain | Finish | FinalizeQuery | Exit


def decide(
    picture: DesiredState | None,
    seen: Mapping[str, ObservedQuery],
    *,
    ending: bool,
    waiting: frozenset[str] = frozenset(),
    packages: str | None = None,
) -> list[Action]:
    """The next actions.

    Args:
        picture: of the registry; None while it never answered. An old one stands while the registry is away.
        seen: the started streams.
        ending: the process was asked to end.
        waiting: streams that wait in this driver: for back-off, for their lease, for the registry to take a block.
        packages: digest of the packages that this process has; None while it has none of a stream's.
    """
    if picture is not None and picture.fenced:
        return [Exit(EXIT_FENCED, "a newer launch of this driver exists")]
    renewed = _renewed(picture, packages)
    why = "the driver was asked to end" if ending else "its driver starts anew, with other packages" if renewed else ""
    actions: list[Action] = []
    for stream, each in sorted(seen.items()):
        action = _of_started(stream, each, picture, why)
        if action is not None:
            actions.append(action)
    if why:
        return actions if seen else [Exit(EXIT_STOPPED, "asked to end" if ending else "other packages are needed")]
    if picture is None:
        return actions
    actions += [Start(w) for name, w in sorted(picture.run.items()) if name not in seen and name not in waiting]
    if not actions and not seen and not picture.later and not waiting & picture.hosted:
        return [Exit(EXIT_STOPPED, "nothing is to run")]
    return actions


def _renewed(picture: DesiredState | None, packages: str | None) -> bool:
    """Whether only a new process can run what is wanted: it needs packages, and none of it the ones that are here.

    Where some streams need these and some others, a start of the others is refused: waiting would not help them.
    """
    wanted = {each.packages for each in picture.run.values()} - {None} if picture is not None else set()
    return bool(wanted) and packages is not None and packages not in wanted


def _of_started(stream: str, each: ObservedQuery, picture: DesiredState | None, ending: str) -> Action | None:
    if not each.active:
        return FinalizeQuery(stream)
    if each.unbatched and not each.leased:
        return Finish(stream)  # at once: a boundary may be minutes away, and it writes all the time
    if each.draining:
        return Finish(stream) if each.drained or each.overdue else None
    if ending:
        return Drain(stream, ending)
    if not each.exact and not each.leased:
        # Nothing but the lease keeps a second driver from writing the same rows to such a sink.
        return Drain(stream, "its lease lapsed and its sink keeps no position")
    if picture is None:
        return None
    wanted = picture.run.get(stream)
    if wanted is None:
        return Drain(stream, "it is not to run any more")
    if wanted.generation != each.generation:
        return Drain(stream, f"generation {wanted.generation} is to run instead of {each.generation}")
    if each.stale:
        return Drain(stream, "a reference changed")
    return None
