"""Incidents: one for each problem. The reconcile pass opens, updates and closes them; notifiers read them."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import SpecError
from lakeward.platform.failures import FailureClass, judge
from lakeward.platform.runtime import Runtime
from lakeward.platform.text import listed, span
from lakeward.registry import events, heartbeats, incidents, restarts, streams
from lakeward.registry.incidents import Incident
from lakeward.registry.streams import Stream
from lakeward.spec.model import driver_conf
from lakeward.spec.model.settings import Settings
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision import dead_mans_switch
from lakeward.supervision.decide import dependencies, remedy, thrash, trouble
from lakeward.supervision.decide.dependencies import Dependency
from lakeward.supervision.decide.health import TROUBLE, State, Verdict, outgrown
from lakeward.supervision.decide.thrash import Fall
from lakeward.supervision.observe import LATE, Facts

if TYPE_CHECKING:
    from lakeward.supervision.probes import Answers

BACK_S = 10.0
"""When a dependency is available again, its streams restart spread over this time."""
STREAMS = "streams"
THRASH, DEPENDENCY, STREAM, RECONCILE, STATE = "thrash", "dependency", "stream", "reconcile", "state"
WATCHER = "watcher"
WATCHER_NEXT = "lakeward stack status; is Airflow's triggerer up, and what does its log say?"
CLOSE_SHARE = 0.9
"""The incident closes below this share of `max_rows`, so that a state that oscillates is one incident, not many."""


def silent(facts: Facts, verdicts: Mapping[str, Verdict]) -> bool:
    """Whether dependencies are probed: a stream is in trouble, or an incident is open.

    Open incidents of dependencies and of thrash are probed until they close, even if every stream is healthy by then.
    """
    if any(kind in (DEPENDENCY, THRASH) for kind, _ in facts.incidents):
        return True
    return any(verdict.state in TROUBLE - {State.BLOCKED} for verdict in verdicts.values())


def ask(
    facts: Facts, runtime: Runtime, verdicts: Mapping[str, Verdict], settings: Callable[[], Settings] = Settings
) -> tuple[Answers, Mapping[Dependency, list[str]]]:
    """Probe the dependencies of the streams in trouble; returns the answers, and each dependency's running streams.

    Args:
        settings: returns the project's settings; called if a driver has executors on a cluster.
    """
    declared = cache(settings)
    needed: dict[Dependency, list[str]] = {item: [] for item in dependencies.of_the_platform(runtime)}
    in_trouble: set[Dependency] = set(needed)
    known = {subject for kind, subject in facts.incidents if kind == DEPENDENCY}
    for stream in facts.streams:
        generation = facts.generations.get(stream.id)
        if generation is None or stream.desired != "running" or stream.blocked is not None:
            continue
        found = attempt(
            f"dependencies of stream {stream.id}",
            partial(_needs, generation.spec, stream.driver, facts, runtime, declared),
        )
        for item in () if isinstance(found, Failure) else found:
            needed.setdefault(item, []).append(stream.id)
            if verdicts[stream.id].state in TROUBLE or item.subject in known:
                in_trouble.add(item)
    # Imported here: the clients of all dependencies, which a pass without trouble does not need.
    from lakeward.supervision import probes

    return probes.ask(runtime, in_trouble), needed


def _needs(
    spec: Mapping[str, Any], driver: str, facts: Facts, runtime: Runtime, settings: Callable[[], Settings]
) -> frozenset[Dependency]:
    return dependencies.needs(spec, runtime) | _through(driver, facts, runtime, settings)


def _through(driver: str, facts: Facts, runtime: Runtime, settings: Callable[[], Settings]) -> frozenset[Dependency]:
    row = facts.drivers.get(driver)
    if row is None or row.backend == "local":
        return frozenset()
    # Imported here: a pass without a driver on a cluster needs no connection.
    from lakeward.connectors.cluster.resolve import resolved
    from lakeward.connectors.yarn.site import settled

    try:
        entry = resolved(driver, settings(), runtime.connections)
        place = driver_conf.yarn(entry)
        return dependencies.of_its_driver(entry, ",".join(settled(place).resource_managers) if place else None)
    except SpecError:  # the failure of its launch tells it
        return frozenset()


def of_dependencies(
    connection: Connection,
    facts: Facts,
    answers: Answers,
    needed: Mapping[Dependency, Collection[str]],
    chance: Callable[[], float] = random.random,
) -> None:
    """Open an incident for each dependency that is down; close it when it is up again, and restart its streams."""
    probed = {item.subject for item in answers}
    for item, why in answers.items():
        if why is not None:
            name = f"incident of {item.subject}"
            _alone(connection, name, partial(_down, connection, item, why, sorted(needed.get(item, ()))))
    available = {item.subject for item, why in answers.items() if why is None}
    for (kind, subject), incident in facts.incidents.items():
        if kind != DEPENDENCY or (subject in probed and subject not in available):
            continue
        answering = partial(_up, connection, facts, incident, subject in probed, chance)
        _alone(connection, f"incident of {subject}", answering)


def _alone(connection: Connection, item: str, write: Callable[[], object]) -> None:
    """Write about one item; an odd one leaves the transaction of all as it was."""
    attempt(item, write, through=(OperationalError,), within=connection.begin_nested)


def _down(connection: Connection, item: Dependency, why: str, waiting: list[str]) -> None:
    what = f"{item.label} does not answer: {why}"
    tail = f"; {_wait(waiting)}" if waiting else ""
    incidents.opened(
        connection, DEPENDENCY, item.subject, f"{what[:1].upper()}{what[1:]}{tail}",
        streams=waiting, what=what, next=item.next,
    )  # fmt: skip


def _up(connection: Connection, facts: Facts, incident: Incident, probed: bool, chance: Callable[[], float]) -> None:
    label = str(incident.fields.get("what", incident.subject)).split(" does not answer")[0]
    label = f"{label[:1].upper()}{label[1:]}"
    if not probed:  # no running stream needs it any more
        text = f"{label} is not probed any more: no running stream needs it"
        incidents.closed(connection, DEPENDENCY, incident.subject, text)
        return
    text = f"{label} answers again after {span((facts.now - incident.opened_at).total_seconds())}"
    incidents.closed(connection, DEPENDENCY, incident.subject, text)
    _restart_waiting(connection, facts, incident.streams, text, chance)


def of_thrash(connection: Connection, facts: Facts) -> str | None:
    """Suspend automatic restarts while too many streams fail at once; returns why, None if they are not suspended."""
    incident = facts.incidents.get((THRASH, STREAMS))
    if facts.thrash is not None:
        return facts.thrash
    hosted = {driver: [item.id for item in items if _runs(item.id, facts)] for driver, items in facts.hosted.items()}
    falls = [
        Fall(driver, stream, kind, judge(text=error).cause)
        for driver, stream, kind, error in restarts.within(connection, thrash.WINDOW)
    ]
    why = thrash.judge(falls, hosted, facts.down.keys())
    if why is None:
        if incident is not None:
            incidents.closed(
                connection, THRASH, STREAMS, "Automatic restarts resumed: the streams no longer fail all at once"
            )
        return None
    until = facts.now + thrash.PAUSE
    text = f"Automatic restarts are suspended until {until:%H:%M:%S} UTC: {why}"
    failed = sorted(
        {name for fall in falls for name in ([fall.stream] if fall.stream else hosted.get(fall.driver, []))}
    )
    incidents.opened(
        connection, THRASH, STREAMS, text, streams=failed, what=why, until=until.isoformat(),
        next="lakeward streams list --state restarting; a manual start is not suspended",
    )  # fmt: skip
    for name in failed:  # its driver restarts a failed query by itself: it has to wait as well
        seen, requested = facts.observations.get(name), facts.start_requests.get(name)
        if requested is not None and seen is not None and seen.at < requested:
            continue  # a person has started it since it failed: that start is not suspended
        if seen is not None and seen.query_state == "failed":
            streams.set_run_after(connection, name, until)
    events.record(connection, "stack", STREAMS, "thrash", text)
    return f"automatic restarts are suspended: {why}"


def of_streams(connection: Connection, facts: Facts, verdicts: Mapping[str, Verdict]) -> None:
    """Keep one open incident for each stream in trouble of its own, and close it when the trouble is over."""
    explained = dict(facts.down)
    if facts.thrash is not None:
        explained |= {item.id: facts.thrash for item in facts.streams}
    attempts = {item.id: failure.attempt for item in facts.streams if (failure := facts.failure(item)) is not None}
    reported = {name for kind, name in facts.incidents if kind == STREAM}
    current = trouble.of_their_own(
        facts.streams, verdicts, facts.now, explained=explained, attempts=attempts, reported=reported
    )
    for name, text in current.items():
        state = verdicts[name].state.value
        _alone(connection, f"incident of stream {name}", partial(_of_stream, connection, facts, name, state, text))
    for (kind, name), incident in facts.incidents.items():
        if kind == STREAM and name not in current:
            over = partial(_close, connection, facts, incident, verdicts, explained)
            _alone(connection, f"incident of stream {name}", over)


def _of_stream(connection: Connection, facts: Facts, name: str, state: str, text: str) -> None:
    known = facts.incidents.get((STREAM, name))
    fields: dict[str, Any] = {"state": state, "class": _class(facts, name), "next": _next(facts, name)}
    # Only another state, failure class or remedy is a new message; other seconds in the text are not.
    if known is None or any(known.fields.get(key) != each for key, each in fields.items()):
        incidents.opened(connection, STREAM, name, text, streams=[name], **fields)


def _close(
    connection: Connection,
    facts: Facts,
    incident: Incident,
    verdicts: Mapping[str, Verdict],
    explained: Mapping[str, str],
) -> None:
    incidents.closed(connection, STREAM, incident.subject, _over(facts, incident, verdicts, explained))


def of_state(connection: Connection, facts: Facts) -> None:
    """Keep one open incident for each stream whose state exceeds `max_rows`; close it below `CLOSE_SHARE` of that."""
    for stream in facts.streams:
        grown = attempt(f"state of stream {stream.id}", partial(_grown, facts, stream))
        if isinstance(grown, Failure) or (grown is None and (STATE, stream.id) not in facts.incidents):
            continue
        _alone(connection, f"state of stream {stream.id}", partial(_of_state, connection, facts, stream, grown))
    for kind, name in facts.incidents:
        if kind == STATE and name not in facts.by_id:
            incidents.closed(connection, STATE, name, f"Stream {name} was retired")


def of_late(connection: Connection, facts: Facts) -> None:
    """Keep one open incident for each stream most of whose rows are late, or whose watermark is ahead."""
    for stream in facts.streams:
        item = f"late records of stream {stream.id}"
        late = attempt(item, partial(facts.late, stream.id))
        if not isinstance(late, Failure):
            _alone(connection, item, partial(_of_late, connection, facts, stream, late))
    for kind, name in facts.incidents:
        if kind == LATE and name not in facts.by_id:
            incidents.closed(connection, LATE, name, f"Stream {name} was retired")


def of_watcher(connection: Connection) -> None:
    """Keep one incident open while passes come by their schedule alone, because the watcher has said nothing for long.

    Where no watcher ever ran, none is missing.
    """
    seen = heartbeats.newest(connection, dead_mans_switch.WATCHER)
    whole = heartbeats.newest(connection, dead_mans_switch.RECONCILE)
    known = (RECONCILE, WATCHER) in incidents.open_ones(connection)
    # The machine or Airflow may have been down: only what passes saw before counts.
    running = whole is not None and whole.age_s <= dead_mans_switch.SCHEDULE_S + dead_mans_switch.EVERY_S
    if seen is not None and seen.age_s > dead_mans_switch.WITHOUT_PASS_S and running:
        text = (
            f"Airflow's triggerer has not watched the streams for {span(seen.age_s)}: a stream that fails is restarted"
            f" by the next scheduled run of streams_reconcile, up to {span(dead_mans_switch.SCHEDULE_S)} later"
        )
        if not known:
            incidents.opened(connection, RECONCILE, WATCHER, text, next=WATCHER_NEXT)
    elif known and seen is not None and seen.age_s <= dead_mans_switch.MISSED * dead_mans_switch.EVERY_S:
        incidents.closed(connection, RECONCILE, WATCHER, "Airflow's triggerer watches the streams again")


def _of_late(connection: Connection, facts: Facts, stream: Stream, late: str | None) -> None:
    known = facts.incidents.get((LATE, stream.id))
    if late is not None and known is None:
        text = f"Stream {stream.id}: {late}"
        incidents.opened(
            connection, LATE, stream.id, text, streams=[stream.id],
            next=f"lakeward streams status {stream.id}   says what became of the late records, and what to do",
        )  # fmt: skip
        events.record(connection, "stream", stream.id, "late", text)
    elif late is None and known is not None:
        over = f"No more than a few rows of stream {stream.id} are late again"
        incidents.closed(connection, LATE, stream.id, over)


def _grown(facts: Facts, stream: Stream) -> str | None:
    return outgrown(facts.observations.get(stream.id), facts.max_state_rows(stream.id))


def _of_state(connection: Connection, facts: Facts, stream: Stream, grown: str | None) -> None:
    seen, most = facts.observations.get(stream.id), facts.max_state_rows(stream.id)
    known = facts.incidents.get((STATE, stream.id))
    if grown is not None and known is None and stream.desired == "running":
        text = f"Stream {stream.id}: {grown}"
        incidents.opened(
            connection, STATE, stream.id, text, streams=[stream.id],
            next=f"lakeward streams state {stream.id} --rows 20   shows its state",
        )  # fmt: skip
        events.record(connection, "stream", stream.id, "state_rows", text, rows=seen.state_rows if seen else None)
    elif known is not None:
        low = seen is None or most is None or seen.state_rows is None or seen.state_rows <= most * CLOSE_SHARE
        if low or stream.desired != "running":
            incidents.closed(connection, STATE, stream.id, f"The state of stream {stream.id} is within bounds again")


def _over(facts: Facts, incident: Incident, verdicts: Mapping[str, Verdict], explained: Mapping[str, str]) -> str:
    name = incident.subject
    seen = verdicts.get(name)
    if seen is None:
        return f"Stream {name} was retired"
    after = span((facts.now - incident.opened_at).total_seconds())
    if seen.state in TROUBLE and name in explained:
        return f"Stream {name} is affected by another incident: {explained[name]}"
    return f"Stream {name} is {seen.state} after {after}: {seen.why}"


def _restart_waiting(
    connection: Connection, facts: Facts, names: list[str], text: str, chance: Callable[[], float]
) -> None:
    """Make the attempts that waited for a dependency due now, spread over `BACK_S` seconds."""
    waited = set(names)
    drivers = {item.driver for item in facts.streams if item.id in waited}
    for driver in sorted(drivers):
        failure = facts.failures.get((driver, None))
        if failure is not None and failure.next_attempt_at is not None:
            restarts.sooner(connection, [failure.id], timedelta(seconds=BACK_S * chance()))
    for stream in facts.streams:
        seen = facts.observations.get(stream.id)
        failed = seen is not None and (seen.error or {}).get("class") == FailureClass.DEPENDENCY.value
        if stream.id in waited and failed and stream.run_after is not None and stream.run_after > facts.now:
            streams.set_run_after(connection, stream.id, facts.now + timedelta(seconds=BACK_S * chance()))
    events.record(connection, "stack", STREAMS, "dependency", text, streams=names)


def _runs(name: str, facts: Facts) -> bool:
    stream = facts.by_id[name]
    return stream.desired == "running" and stream.blocked is None


def _wait(names: list[str]) -> str:
    return f"{'1 stream needs' if len(names) == 1 else f'{len(names)} streams need'} it: {listed(names)}"


def _class(facts: Facts, name: str) -> str | None:
    failure = facts.failure(facts.by_id[name])
    return failure.failure_class if failure is not None else None


def _next(facts: Facts, name: str) -> str:
    stream = facts.by_id[name]
    if stream.blocked is None:
        return f"lakeward streams status {name}"
    return remedy.of_block(name, stream.blocked, spec=_spec(facts, name), pending=stream.pending_generation)


def _spec(facts: Facts, name: str) -> StreamSpec | None:
    generation = facts.generations.get(name)
    try:
        return None if generation is None else StreamSpec.model_validate(generation.spec)
    except ValueError:  # another version of Lakeward deployed it
        return None
