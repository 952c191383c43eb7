"""Telling: the word of every stream, the changed ones as lines of the timeline, trouble as incidents."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from lakeward.platform.text import span
from lakeward.registry import events, streams
from lakeward.registry import incidents as kept
from lakeward.supervision import dead_mans_switch, incidents
from lakeward.supervision.backends.base import Life
from lakeward.supervision.decide.health import Verdict
from lakeward.supervision.observe import Facts, Found


@dataclass(frozen=True)
class StateChange:
    """A stream's word changed."""

    stream: str
    before: str
    after: str
    why: str


def tell(connection: Connection, facts: Facts, states: dict[str, Verdict]) -> tuple[StateChange, ...]:
    """Store the words, and what follows from them; returns those that changed."""
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
        held = span((facts.now - before.since).total_seconds())
        text = f"{before.state} for {held} → {now.state.value}: {now.why}"
        lines.append((name, text, {"before": before.state, "after": now.state.value}))
    events.record_all(connection, "stream", "state", lines)
    incidents.of_streams(connection, facts, states)
    incidents.of_state(connection, facts)
    kept.closed(connection, incidents.RECONCILE, incidents.STREAMS, "A reconcile pass succeeded again")
    return tuple(edges)


def found_again(connection: Connection, facts: Facts, found: Found) -> None:
    """Drivers that ran on while nobody looked: found and kept, and their timeline says so."""
    away = dead_mans_switch.look(connection)
    if away is None:
        return
    for job in found or ():
        row = facts.drivers.get(job.driver)
        if row is None or row.handle is None or job.token != row.token or job.life is not Life.ALIVE:
            continue
        text = f"Found and kept, process {row.handle.get('pid')}: it ran on while {away.split(' (')[0]}"
        events.record(connection, "driver", row.name, "adopted", text, handle=dict(row.handle))
