"""Starting a run of another Dag from inside a task, without a task of its own: a process start costs 2 s of CPU.

Airflow's own operator for this ends its task with an exception and lets the task runner send one message to the
supervisor; here the same message is sent. It is the only place that knows Airflow's task protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Started(StrEnum):
    """The result of a request for a run."""

    STARTED = "started"
    EXISTS = "exists already"
    NO_DAG = "no such Dag"
    PAUSED = "its Dag is paused, so nothing was started"
    FAILED = "failed"


def run_state(dag_id: str, run_id: str) -> str | None:
    """The state of a run; None if no such run exists."""
    from airflow.sdk.exceptions import AirflowRuntimeError
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import DagRunStateResult, GetDagRunState

    try:
        answer = task_runner.SUPERVISOR_COMMS.send(GetDagRunState(dag_id=dag_id, run_id=run_id))
    except AirflowRuntimeError:
        return None
    return str(getattr(answer.state, "value", answer.state)) if isinstance(answer, DagRunStateResult) else None


def start_run(dag_id: str, run_id: str, conf: Mapping[str, object]) -> Started:
    """Start a run; the same `run_id` twice is one run. A paused Dag gets none, because it would stay queued."""
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import DagResult, ErrorResponse, GetDag, TriggerDagRun

    try:
        dag = task_runner.SUPERVISOR_COMMS.send(GetDag(dag_id=dag_id))
    except AirflowRuntimeError:
        dag = None  # the answer to the request itself has the error
    if isinstance(dag, DagResult) and dag.is_paused:
        return Started.PAUSED
    message = TriggerDagRun(dag_id=dag_id, run_id=run_id, conf=dict(conf))
    try:
        answer = task_runner.SUPERVISOR_COMMS.send(message)
    except AirflowRuntimeError as error:
        answer = error.error
    if not isinstance(answer, ErrorResponse):
        return Started.STARTED
    if answer.error == ErrorType.DAGRUN_ALREADY_EXISTS:
        return Started.EXISTS
    status = (answer.detail or {}).get("status_code")
    return Started.NO_DAG if status == 404 else Started.FAILED
