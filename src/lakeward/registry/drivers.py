"""Drivers: their launches. Intent and a new token are written by compare-and-set before a process exists.

The last part (`hosted`, `plans`) is what a running driver reads. It names its columns, so that a driver and a registry
one version apart work together: migrations only add.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict

from sqlalchemy import Connection, Row, case, exists, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from lakeward.registry import leases
from lakeward.registry.operations import STARTS
from lakeward.registry.schema import drivers, generations, observations, operations, streams
from lakeward.registry.streams import Block

PROCESS = "process"
"""Scope of the lease a process has on its launch, named by the launch's token; removed at the next launch intent."""
UNLIMITED = timedelta(days=3650)
STUCK = "stuck"
"""The state of a driver that is alive and reports that its control loop hangs."""
EXITED, BURIED = "exited", "buried"
"""The states of a launch that has ended: ended, and ended with its consequences recorded (a failure, or none)."""


class Handle(TypedDict, total=False):
    """The identity of a driver's process: `start_time` in clock ticks or seconds since boot, by the platform.

    A driver that a cluster started has its `submission` and the `master` that knows it instead, one on Kubernetes its
    `pod`, with `namespace` and `uid`, one on YARN its `application`.
    """

    pid: int
    start_time: float
    boot_id: str
    host: str
    submission: str
    master: str
    pod: str
    namespace: str
    uid: str
    application: str


def named(handle: Handle | None) -> str:
    """How people name the process: `process 77`, or its submission, pod or application on a cluster."""
    found = handle or {}
    if "pod" in found:
        return f"pod {found['pod']}"
    if "application" in found:
        return f"YARN {found['application']}"
    return str(found["submission"]) if "submission" in found else f"process {found.get('pid')}"


def on_cluster(handle: Handle | None) -> bool:
    """Whether a cluster started it, so that its files are not on the machine that reconciles."""
    return handle is not None and any(key in handle for key in ("submission", "pod", "application"))


@dataclass(frozen=True)
class Driver:
    """The newest launch of a driver. `age_s` is the heartbeat's age in database time; None before the first one.

    `launched_s` is the age of the intent in seconds.
    """

    name: str
    token: str
    backend: str
    handle: Handle | None
    host: str | None
    log: str | None
    state: str
    launched_at: datetime
    heartbeat: datetime | None
    exit_code: int | None
    error: str | None
    spark_ui: str | None
    age_s: float | None
    launched_s: float

    @property
    def ended(self) -> bool:
        """Whether this launch has ended, as the driver or a reconcile pass recorded."""
        return self.state in (EXITED, BURIED)


def _select() -> Any:
    return select(
        drivers,
        func.extract("epoch", func.now() - drivers.c.heartbeat).label("age_s"),
        func.extract("epoch", func.now() - drivers.c.launched_at).label("launched_s"),
    )


def _read(row: Row[Any]) -> Driver:
    values = dict(row._mapping)
    values["age_s"] = None if values["age_s"] is None else float(values["age_s"])
    values["launched_s"] = float(values["launched_s"])
    return Driver(**values)


def all_drivers(connection: Connection) -> dict[str, Driver]:
    """The newest launch of every driver, by name."""
    return {row.name: _read(row) for row in connection.execute(_select().order_by(drivers.c.name))}


def find(connection: Connection, name: str) -> Driver | None:
    """The newest launch of one driver, or None."""
    row = connection.execute(_select().where(drivers.c.name == name)).one_or_none()
    return None if row is None else _read(row)


def record_intent(connection: Connection, name: str, *, token: str, previous: str | None, backend: str) -> bool:
    """Write the intent to launch: the driver's row gets `token` if its token still is `previous`.

    Returns:
        False if another process launched it in the meantime: do not start a process.
    """
    fresh = {
        "token": token,
        "backend": backend,
        "handle": None,
        "host": None,
        "log": None,
        "state": "launching",
        "launched_at": func.now(),
        "heartbeat": None,
        "exit_code": None,
        "error": None,
        "spark_ui": None,
    }
    if previous is None:
        statement = insert(drivers).values(name=name, **fresh).on_conflict_do_nothing().returning(drivers.c.name)
        return connection.execute(statement).scalar_one_or_none() is not None
    changed = connection.execute(
        update(drivers).where(drivers.c.name == name, drivers.c.token == previous).values(**fresh)
    )
    if changed.rowcount == 1:
        leases.forget(connection, PROCESS, previous)
    return changed.rowcount == 1


def started(connection: Connection, name: str, token: str, *, handle: Handle, host: str, log: str) -> None:
    """Record the backend's answer. The driver itself may have reported before; its state is kept."""
    connection.execute(
        update(drivers)
        .where(drivers.c.name == name, drivers.c.token == token)
        .values(handle=handle, host=host, log=log)
    )


def claim(connection: Connection, name: str, token: str, process: str, holder: str) -> bool:
    """Claim a launch for one process; its first heartbeat.

    Args:
        process: a secret of this process alone. A process that a backend started a second time knows the token, too.
        holder: name of the process, for display.

    Returns:
        False if a newer launch exists, or another process has this one: the caller exits without doing anything.
    """
    if leases.take(connection, PROCESS, token, process, holder, UNLIMITED) is None:
        return False
    if beat(connection, name, token, state="launching"):
        return True
    leases.release(connection, PROCESS, [token], process)
    return False


def beat(connection: Connection, name: str, token: str, *, state: str, spark_ui: str | None = None) -> bool:
    """Record the driver's heartbeat. Returns False if a newer launch exists: the caller is fenced."""
    changed = connection.execute(
        update(drivers)
        .where(drivers.c.name == name, drivers.c.token == token)
        .values(heartbeat=func.now(), state=state, spark_ui=spark_ui)
    )
    return changed.rowcount == 1


def exited(connection: Connection, name: str, token: str, *, exit_code: int | None, error: str | None) -> None:
    """Record the end of a launch, by the driver itself or by a reconcile pass. The consequences are not decided yet."""
    connection.execute(
        update(drivers)
        .where(drivers.c.name == name, drivers.c.token == token)
        .values(state=EXITED, exit_code=exit_code, error=error)
    )


def terminated(connection: Connection, name: str, token: str, *, exit_code: int | None, error: str | None) -> None:
    """Record the end of a launch, together with its consequences, and release its leases."""
    connection.execute(
        update(drivers)
        .where(drivers.c.name == name, drivers.c.token == token)
        .values(state=BURIED, exit_code=exit_code, error=error)
    )
    leases.release(connection, "driver", [name], token)
    leases.release(connection, "stream", [stream.id for stream in hosted(connection, name)], token)


@dataclass(frozen=True)
class Hosted:
    """What a driver must know about a stream it hosts. `query_id` is the last observed one."""

    id: str
    desired: str
    generation: int
    blocked: Block | None
    run_after: datetime | None
    removed_at: datetime | None
    query_id: str | None


@dataclass(frozen=True)
class Plan:
    """The part of an accepted spec that a driver needs; it never changes."""

    stream: str
    generation: int
    spec: dict[str, Any]
    checkpoint: str


def hosted(connection: Connection, driver: str) -> list[Hosted]:
    """The streams a driver hosts, running or not.

    A query that failed while restarts are held waits until the hold is over, unless a person has started it since.
    """
    started = exists().where(
        operations.c.stream == streams.c.id,
        operations.c.operation.in_(STARTS),
        operations.c.requested_at >= observations.c.at,
    )
    hold = case(((observations.c.query_state == "failed") & ~started, streams.c.hold_until))
    columns = [streams.c[name] for name in ("id", "desired", "generation", "blocked", "removed_at")]
    rows = connection.execute(
        select(*columns, func.greatest(streams.c.run_after, hold).label("run_after"), observations.c.query_id)
        .join_from(streams, observations, observations.c.stream == streams.c.id, isouter=True)
        .where(streams.c.driver == driver)
        .order_by(streams.c.id)
    )
    return [Hosted(**row._mapping) for row in rows]


def plans(connection: Connection, numbers: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Plan]:
    """The named generations, by (stream, generation)."""
    keys = list(numbers)
    if not keys:
        return {}
    g = generations.c
    rows = connection.execute(
        select(g.stream, g.generation, g.spec, g.checkpoint).where(tuple_(g.stream, g.generation).in_(keys))
    )
    return {(row.stream, row.generation): Plan(**row._mapping) for row in rows}


def checkpoints(connection: Connection) -> dict[str, str]:
    """Stream -> the recorded checkpoint of its current generation, for every declared stream."""
    current = (generations.c.stream == streams.c.id) & (generations.c.generation == streams.c.generation)
    rows = connection.execute(
        select(streams.c.id, generations.c.checkpoint)
        .join_from(streams, generations, current)
        .where(streams.c.removed_at.is_(None))
    )
    return {row.id: row.checkpoint for row in rows}
