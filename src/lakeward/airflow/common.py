"""What all of Lakeward's Dags share."""

from __future__ import annotations

import logging
import textwrap
from datetime import UTC, datetime
from typing import Any

START = datetime(2026, 1, 1, tzinfo=UTC)
"""A fixed start: a Dag file knows no clock."""


def options(*, owner: str, tags: list[str], doc: str, **more: Any) -> dict[str, Any]:
    """Arguments of every Dag: unpaused on arrival, no catching up, one run at a time, a page a person can use."""
    return {
        "start_date": START,
        "catchup": False,
        "max_active_runs": 1,
        "is_paused_upon_creation": False,
        "default_args": {"owner": owner, "retries": 0, "depends_on_past": False},
        "tags": ["lakeward", *tags],
        "doc_md": textwrap.dedent(doc).strip(),
        "render_template_as_native_obj": False,
        **more,
    }


def access(team: str | None) -> dict[str, Any]:
    """Of a team's Dag, who may see and trigger it; an argument of the Dag."""
    if team is None:
        return {}
    return {"access_control": {team: {"DAGs": {"can_read", "can_edit"}, "DAG Runs": {"can_read", "can_create"}}}}


def quiet_libraries() -> None:
    """Keep a task's log to its own sentences: PyIceberg tells of every file system it opens."""
    for name in ("pyiceberg", "py4j", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)
