"""Common arguments of Lakeward's Dags."""

from __future__ import annotations

import logging
import os
import textwrap
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.platform.runtime import TASK_QUEUE

if TYPE_CHECKING:
    from airflow.sdk.exceptions import AirflowFailException

    from lakeward.platform.errors import LakewardError

log = structlog.get_logger(__name__)

START = datetime(2026, 1, 1, tzinfo=UTC)
"""A fixed start: a Dag file does not read the clock."""


def options(*, owner: str, tags: list[str], doc: str, **more: Any) -> dict[str, Any]:
    """Arguments of every Dag: unpaused on creation, no catch-up, one run at a time, documentation, the queue."""
    queue = os.environ.get(TASK_QUEUE)
    return {
        "start_date": START,
        "catchup": False,
        "max_active_runs": 1,
        "is_paused_upon_creation": False,
        "default_args": {
            "owner": owner,
            "retries": 0,
            "depends_on_past": False,
            **({"queue": queue} if queue else {}),
        },
        "tags": ["lakeward", *tags],
        "doc_md": textwrap.dedent(doc).strip(),
        "render_template_as_native_obj": False,
        **more,
    }


def access(team: str | None) -> dict[str, object]:
    """The access control of a team's Dag: who may see and trigger it."""
    if team is None:
        return {}
    return {"access_control": {team: {"DAGs": {"can_read", "can_edit"}, "DAG Runs": {"can_read", "can_create"}}}}


def failure(error: LakewardError) -> AirflowFailException:
    """Log a foreseen error; returns the exception that ends the task red without a retry."""
    from airflow.sdk.exceptions import AirflowFailException

    log.error("task failed", error=error.headline, why=error.why, next=error.next)
    return AirflowFailException(str(error))


def quiet_libraries() -> None:
    """Silence libraries in a task's log: PyIceberg logs every file system it opens."""
    for name in ("pyiceberg", "py4j", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)
