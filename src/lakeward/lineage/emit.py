"""One pass of lineage: read what is new in the registry, send its events, store how far they came.

Only one process sends at a time (a lease). The cursor moves after the backend has taken the events: a pass that is
killed in between sends the same events again, with the same run ids. A backend that is away delays events; it slows no
stream, no check and no maintenance, because nothing waits for this pass.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Protocol

from openlineage.client.event_v2 import RunEvent
from sqlalchemy import Connection

from lakeward.connectors.kafka import cluster
from lakeward.connectors.postgres import connection as postgres
from lakeward.lineage import store, stream_events, table_events
from lakeward.lineage.datasets import Addresses, Postgres
from lakeward.platform.boundary import Failure, attempt
from lakeward.platform.errors import LakewardError
from lakeward.platform.runtime import Runtime
from lakeward.registry import leases, maintenance, verifications
from lakeward.telemetry.mask import mask

Connect = Callable[[], AbstractContextManager[Connection]]
LEASE = ("lineage", "events")
LEASE_TTL = timedelta(minutes=5)


class Sender(Protocol):
    """What takes events: an OpenLineage client."""

    def emit(self, event: RunEvent) -> None:
        """Send one event; raises what its transport raises."""


@dataclass(frozen=True)
class Sent:
    """What a pass did.

    Attributes:
        events: number of events that the backend took.
        waiting: stream -> why its events cannot be made yet.
        failure: why the pass ended early; empty for a whole one.
        skipped: another process is sending.
    """

    events: int = 0
    waiting: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""
    skipped: bool = False


@dataclass(frozen=True)
class _Due:
    """Events in order, and the progress after they were sent."""

    events: tuple[RunEvent, ...]
    progress: Callable[[store.Progress], store.Progress]


def run(
    connect: Connect, addresses: Callable[[Connection], Addresses], client: Sender, namespace: str, every: timedelta
) -> Sent:
    """Send what is due.

    Args:
        addresses: reads what the specs do not say about their datasets.
        every: shortest time between two events of a running stream.

    Raises:
        DependencyDown: the registry cannot be reached.
    """
    began = time.monotonic()
    token = secrets.token_hex(8)
    with connect() as connection:
        if leases.take(connection, *LEASE, token, socket.gethostname(), LEASE_TTL) is None:
            return Sent(skipped=True)
        progress = store.load(connection)
        due, waiting = _due(connection, progress, addresses(connection), namespace, every)
    progress, sent = _send(due, progress, client)
    result = Sent(sent, waiting, progress.failure)
    with connect() as connection:
        if leases.renew(connection, LEASE[0], [LEASE[1]], token, LEASE_TTL):
            store.save(connection, progress, time.monotonic() - began)
            leases.release(connection, LEASE[0], [LEASE[1]], token)
    return result


def addresses_of(runtime: Runtime, project: str) -> Callable[[Connection], Addresses]:
    """The addresses of a deployment: connections from its files, locations of tables from the registry."""

    def brokers(connection: str) -> str | None:
        try:
            return cluster.find(connection, runtime).bootstrap
        except LakewardError:
            return None

    def database(connection: str) -> Postgres | None:
        try:
            known = postgres.find(connection, runtime.postgres)
        except LakewardError:
            return None
        return Postgres(known.host, known.port, known.database)

    def read(connection: Connection) -> Addresses:
        tables = maintenance.all_tables(connection)
        return Addresses(
            brokers,
            database,
            runtime.lake.name,
            {name: table.location for name, table in tables.items() if table.location is not None},
            {name: table.format for name, table in tables.items()},
            project,
            tuple(each.name for each in runtime.lake.others),
        )

    return read


def _send(due: list[_Due], progress: store.Progress, client: Sender) -> tuple[store.Progress, int]:
    """Send in order; what failed, and all after it, stays due."""
    sent = 0
    for item in due:
        for event in item.events:
            failed = attempt("the OpenLineage backend", partial(client.emit, event))
            if isinstance(failed, Failure):
                return replace(progress, failure=mask(failed.why)), sent
            sent += 1
        progress = item.progress(progress)
    return replace(progress, failure=""), sent


def _due(
    connection: Connection, progress: store.Progress, addresses: Addresses, namespace: str, every: timedelta
) -> tuple[list[_Due], dict[str, str]]:
    due: list[_Due] = []
    waiting: dict[str, str] = {}
    for facts in store.stream_facts(connection, progress.streams):
        cursor = progress.streams.get(facts.stream)
        step = attempt(
            f"lineage of stream {facts.stream}",
            partial(stream_events.plan, facts, cursor, addresses, namespace, every),
        )
        if isinstance(step, Failure):
            waiting[facts.stream] = step.text
            continue
        if step.waits_for:
            waiting[facts.stream] = step.waits_for
        if step.events:
            due.append(_Due(step.events, partial(_stream_moved, facts.stream, step.cursor)))
    actions, action_mark = store.new_actions(connection, progress.actions)
    due.append(
        _Due(
            _made(
                (f"lineage of action {row['id']}", partial(table_events.of_action, row, addresses, namespace))
                for row in actions
            ),
            lambda before: replace(before, actions=action_mark),
        )
    )
    runs, run_mark = store.new_check_runs(connection, progress.checks)
    results = verifications.checks_of_runs(connection, [row["run"] for row in runs]) if runs else {}
    due.append(
        _Due(
            _made(
                (
                    f"lineage of check run {row['run']}",
                    partial(table_events.of_check_run, row, results.get(row["run"], []), addresses, namespace),
                )
                for row in runs
            ),
            lambda before: replace(before, checks=run_mark),
        )
    )
    return due, waiting


def _made(items: Iterable[tuple[str, Callable[[], tuple[RunEvent, ...]]]]) -> tuple[RunEvent, ...]:
    """The events of rows of a ledger; a row that cannot be read is logged, and the others have theirs."""
    events: list[RunEvent] = []
    for name, make in items:
        made = attempt(name, make)
        events += () if isinstance(made, Failure) else made
    return tuple(events)


def _stream_moved(stream: str, cursor: stream_events.Cursor | None, before: store.Progress) -> store.Progress:
    return before if cursor is None else replace(before, streams={**before.streams, stream: cursor})
