"""Operation deadline: a run of a stream's Dag that does not end opens an incident.

`dagrun_timeout` ends such a run much later, without a message. Airflow's deadline does not change the run; its callback
runs in the executor and only opens the incident. `streams_reconcile` closes it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from lakeward.airflow.names import STREAM_PREFIX, stream_dag_id
from lakeward.platform.boundary import attempt
from lakeward.platform.errors import DependencyDown

if TYPE_CHECKING:
    from lakeward.registry.incidents import Incident
    from lakeward.supervision.observe import Connect

WITHIN = timedelta(minutes=20)
"""The longest operation, an upgrade that waits until it is stable, waits 15 minutes by default."""


def of_operations() -> DeadlineAlert:
    """The deadline of every run of a stream's Dag."""
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=WITHIN,
        callback=SyncCallback(missed),
        name="an operation takes too long",
    )


def missed(context: dict[str, Any] | None = None, **_: Any) -> None:
    """Open the incident. Called by Airflow, in a process of the executor, with the run in the context."""
    from lakeward.airflow.connections import home
    from lakeward.platform.runtime import Runtime
    from lakeward.supervision.reconcile import registry_of

    run = (context or {}).get("dag_run") or {}
    late(registry_of(Runtime.load(home().runtime_file)), run)


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
        known = [item for (kind, _), item in incidents.open_ones(connection).items() if kind == incidents.OPERATION]
    for incident in known:
        item = f"operation of stream {incident.subject}"
        attempt(item, partial(_close_ended, connect, state, incident), through=(DependencyDown,))


def _close_ended(connect: Connect, state: Callable[[str, str], str | None], incident: Incident) -> None:
    from lakeward.registry import incidents

    became = state(stream_dag_id(incident.subject), str(incident.fields.get("run")))
    if became in ("queued", "running"):
        return
    how = {"success": "succeeded", "failed": "failed"}.get(became or "", "does not exist any more")
    text = f"The late operation on stream {incident.subject} {how}"
    with connect() as connection:
        incidents.closed(connection, incidents.OPERATION, incident.subject, text)
