"""Deadlines: a run of a Dag that does not end in time opens an incident.

Of operations, for each Dag of a stream: `dagrun_timeout` ends such a run much later, without a message. Of freshness,
for a Dag of somebody who reports from a stream's table. Airflow's deadline does not change the run; its callback runs
in the executor and only opens the incident. `streams_reconcile` closes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from lakeward.airflow.names import STREAM_PREFIX, stream_dag_id
from lakeward.platform.boundary import attempt
from lakeward.platform.errors import DependencyDown, SpecError
from lakeward.platform.text import span

if TYPE_CHECKING:
    from lakeward.registry.incidents import Incident
    from lakeward.supervision.observe import Connect

_NAMED = "name" in inspect.signature(DeadlineAlert).parameters
"""Airflow 3.2 has deadlines without a name."""
WITHIN = timedelta(minutes=20)
"""The longest operation, an upgrade that waits until it is stable, waits 15 minutes by default."""


def of_operations() -> DeadlineAlert:
    """The deadline of every run of a stream's Dag."""
    return _alert(WITHIN, SyncCallback(missed), "an operation takes too long")


def _alert(interval: timedelta, callback: SyncCallback, name: str) -> DeadlineAlert:
    named = {"name": name} if _NAMED else {}
    return DeadlineAlert(reference=DeadlineReference.DAGRUN_QUEUED_AT, interval=interval, callback=callback, **named)


def missed(context: dict[str, Any] | None = None, **_: Any) -> None:
    """Open the incident. Called by Airflow, in a process of the executor, with the run in the context."""
    from lakeward.airflow.connections import home
    from lakeward.platform.runtime import Runtime
    from lakeward.supervision.reconcile import registry_of

    run = (context or {}).get("dag_run") or {}
    late(registry_of(Runtime.load(home().runtime_file)), run)


def freshness(stream: str, *, within: timedelta) -> DeadlineAlert:
    """The deadline of a Dag that has to use a stream's rows in time, as in `DAG(.., deadline=freshness(..))`.

    It counts from when a run is queued: for a Dag that an asset of the stream starts, from the news. A run that has not
    ended then is an incident, which names the state of the stream, until it ends.
    """
    if within <= timedelta():
        raise SpecError(
            f"The deadline of freshness for stream {stream} is {within}",
            why="it is the time that a run has from when it is queued: more than nothing",
            next=f'freshness("{stream}", within=timedelta(minutes=30))',
            code="LW-2527",
        )
    callback = SyncCallback(stale, kwargs={"stream": stream, "within_s": within.total_seconds()})
    return _alert(within, callback, f"the rows of stream {stream} are not used in time")


def stale(stream: str, within_s: float, context: dict[str, Any] | None = None, **_: Any) -> None:
    """Open the incident of `freshness`. Called by Airflow, in a process of the executor."""
    from lakeward.airflow.connections import home
    from lakeward.platform.runtime import Runtime
    from lakeward.supervision.reconcile import registry_of

    run = (context or {}).get("dag_run") or {}
    not_used(registry_of(Runtime.load(home().runtime_file)), run, stream, within_s)


def not_used(connect: Connect, run: dict[str, Any], stream: str, within_s: float) -> None:
    """Open the incident of one run that has not used a stream's rows in time."""
    from lakeward.registry import incidents, streams

    dag, number = str(run["dag_id"]), str(run["dag_run_id"])
    with connect() as connection:
        row = streams.find(connection, stream)
        how = "does not exist" if row is None else f"is {row.state}" + (f": {row.why}" if row.why else "")
        text = (
            f"Dag {dag} has not used the rows of stream {stream} within {span(within_s)}: its run {number} has not "
            f"ended; the stream {how}"
        )
        incidents.opened(
            connection, incidents.FRESHNESS, f"{dag}/{number}", text, streams=[stream], dag=dag, run=number,
            next=f"lakeward streams status {stream}   if it is healthy, the run is slow: its tasks in Airflow",
        )  # fmt: skip


def late(connect: Connect, run: dict[str, Any]) -> None:
    """Open the incident of one run that takes too long."""
    from lakeward.registry import incidents

    stream = str(run["dag_id"]).removeprefix(STREAM_PREFIX)
    what = str((run.get("conf") or {}).get("op") or "operation")
    who = run.get("triggering_user_name") or "Airflow"
    minutes = WITHIN.total_seconds() / 60
    text = f"The {what} of stream {stream} has not ended after {minutes:.0f} min (requested by {who})"
    with connect() as connection:
        incidents.opened(
            connection, incidents.OPERATION, stream, text, streams=[stream], run=run["dag_run_id"],
            next=f"Required Actions in Airflow, if it waits for approval; else: lakeward streams status {stream}",
        )  # fmt: skip


def close_ended(connect: Connect, state: Callable[[str, str], str | None]) -> None:
    """Close the incidents of runs that have ended; `state` returns the state of a run, None if it does not exist."""
    from lakeward.registry import incidents

    with connect() as connection:
        kinds = (incidents.OPERATION, incidents.FRESHNESS)
        known = [item for (kind, _), item in incidents.open_ones(connection).items() if kind in kinds]
    for incident in known:
        item = f"{incident.kind} incident of {incident.subject}"
        attempt(item, partial(_close_ended, connect, state, incident), through=(DependencyDown,))


def _close_ended(connect: Connect, state: Callable[[str, str], str | None], incident: Incident) -> None:
    from lakeward.registry import incidents

    of_stream = incident.kind == incidents.OPERATION
    dag = stream_dag_id(incident.subject) if of_stream else str(incident.fields.get("dag"))
    became = state(dag, str(incident.fields.get("run")))
    if became in ("queued", "running"):
        return
    how = {"success": "succeeded", "failed": "failed"}.get(became or "", "does not exist any more")
    text = f"The late {'operation on stream' if of_stream else 'run'} {incident.subject} {how}"
    with connect() as connection:
        incidents.closed(connection, incident.kind, incident.subject, text)
