"""State log: store the state of every stream, changes as timeline events, trouble as incidents."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from lakeward.platform.text import span
from lakeward.registry import events, streams
from lakeward.registry import incidents as incident_rows
from lakeward.registry.drivers import named
from lakeward.supervision import dead_mans_switch, incidents
from lakeward.supervision.backends.base import Life
from lakeward.supervision.decide.health import Verdict
from lakeward.supervision.observe import Facts, ObservedJobs


@dataclass(frozen=True)
class StateChange:
    """The state of a stream changed."""

    stream: str
    before: str
    after: str
    why: str


def record(
    connection: Connection, facts: Facts, states: dict[str, Verdict], *, supervises: bool = True
) -> tuple[StateChange, ...]:
    """Store the states, and update timeline and incidents; returns the changes.

    Args:
        supervises: whether the pass is one of the supervision, which ends the incident of missing passes.
    """
    changed = {
        item.id: now
        for item in facts.streams
        if (item.state, item.why) != ((now := states[item.id]).state.value, now.why)
    }
    streams.set_states(connection, {name: (now.state.value, now.why) for name, now in changed.items()})
    edges = []
    lines = []
    for name, now in changed.items():
        before = facts.by_id[name]
        if before.state == now.state.value:
            continue
        edges.append(StateChange(name, before.state, now.state.value, now.why))
        lasted = span((facts.now - before.since).total_seconds())
        text = f"{before.state} for {lasted} → {now.state.value}: {now.why}"
        lines.append((name, text, {"before": before.state, "after": now.state.value}))
    events.record_all(connection, "stream", "state", lines)
    incidents.of_streams(connection, facts, states)
    incidents.of_state(connection, facts)
    incidents.of_late(connection, facts)
    if supervises:
        incident_rows.closed(connection, incidents.RECONCILE, incidents.STREAMS, "A reconcile pass succeeded again")
        incidents.of_watcher(connection)
    return tuple(edges)


def record_adopted(connection: Connection, facts: Facts, jobs: ObservedJobs) -> None:
    """Record in the timeline which drivers ran on while no reconcile pass succeeded."""
    missing = dead_mans_switch.missed_passes(connection)
    if missing is None:
        return
    for job in jobs or ():
        row = facts.drivers.get(job.driver)
        if row is None or row.handle is None or job.token != row.token or job.life is not Life.ALIVE:
            continue
        text = f"Adopted {named(row.handle)}: it ran on while {missing.split(' (')[0]}"
        events.record(connection, "driver", row.name, "adopted", text, handle=dict(row.handle))
