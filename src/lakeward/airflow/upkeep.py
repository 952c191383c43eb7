"""Retention cleanup of Airflow's own database and logs, for the Airflow of the embedded stack.

Airflow has no retention of its own, and `streams_reconcile` makes up to 1,440 runs a day. A task has no access to
Airflow's database; `airflow db clean` has, with the configuration that `lakeward stack up` wrote. The operator of
another Airflow cleans it up: docs/how-to/keep-it-small.md has the command.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from lakeward.platform.runtime import Home, Runtime
    from lakeward.spec.model.settings import Keep

log = structlog.get_logger(__name__)

EVERY_S = 24 * 3600.0
TIMEOUT_S, STAND_IN_S = 240.0, 60.0
"""The time limit of cleaning Airflow's database; shorter for a stand-in, because supervision waits meanwhile. Rows that
were removed before the limit stay removed."""
STAND_IN_AFTER = 2.0
"""A stand-in begins when the work is overdue by this multiple of its interval."""
TABLES = (
    "asset_event", "callback", "dag_run", "deadline", "import_error", "job", "log", "partitioned_asset_key_log",
    "revoked_token", "task_instance", "task_instance_history", "task_reschedule", "task_state_store", "xcom",
)  # fmt: skip
LOGS = (
    ("logs/tasks", "dag_id=*/run_id=*"),
    ("logs/tasks/executor_callbacks", "*/*"),  # <dag>/<run>: callbacks of failures and missed deadlines
    ("airflow/logs/dag_processor", "????-??-??"),  # a day of parsing Dag files; not the link `latest`
)
"""Log folders below the home, and the pattern of folders that are removed as a whole."""
_HIDDEN = ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__CORE__SQL_ALCHEMY_CONN")
"""Variables that Airflow sets in a task's environment to hide the database."""


def tidy_if_due(runtime: Runtime, *, stand_in: bool = False) -> dict[str, int]:
    """Remove expired data: of the registry, of drivers, and of the embedded Airflow.

    `stand_in`: the caller is a fallback for another Dag, which may be paused.
    """
    from lakeward.airflow.connections import home
    from lakeward.airflow.project import settings
    from lakeward.supervision import retention
    from lakeward.supervision.reconcile import registry_of

    patience = STAND_IN_AFTER if stand_in else 1.0
    connect = registry_of(runtime)
    place = home()
    of_airflow = embedded(place) and retention.due(connect, "airflow", EVERY_S * patience)
    if not of_airflow and not retention.due(connect, "registry", retention.EVERY_S * patience):
        return {}  # before any file is read: each pass asks
    keep = settings().keep
    removed = retention.purge_if_due(runtime, keep, patience=patience)
    if of_airflow:
        removed["airflow_logs"] = logs(place, keep.runs.timedelta)
        # Every run has a log: without an expired log, Airflow need not be started to search for runs. The cleanup is
        # recorded also if it failed, because an attempt every minute would fail again and delay supervision.
        complete = not removed["airflow_logs"] or clean(place, keep, STAND_IN_S if stand_in else TIMEOUT_S)
        text = f"Removed runs older than {keep.runs} and their logs"
        retention.record(connect, "airflow", text if complete else f"{text}; some remain until the next day", {})
    return {name: number for name, number in removed.items() if number}


def embedded(home: Home) -> bool:
    """Whether this Airflow belongs to the embedded stack."""
    own = home.root / "airflow"
    return (own / "airflow.cfg").is_file() and Path(os.environ.get("AIRFLOW_HOME", "")).resolve() == own.resolve()


def clean(home: Home, keep: Keep, limit_s: float = TIMEOUT_S) -> bool:
    """Remove old runs from Airflow's database; returns whether that succeeded. The next day removes the rest."""
    before = datetime.now(UTC) - keep.runs.timedelta
    program = Path(sys.executable).with_name("airflow")
    command = [
        str(program), "db", "clean", "--clean-before-timestamp", before.isoformat(timespec="seconds"),
        "--tables", ",".join(TABLES), "--skip-archive", "--yes", "--batch-size", "5000", "--error-on-cleanup-failure",
    ]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
    environment["AIRFLOW_HOME"] = str(home.root / "airflow")
    try:
        done = subprocess.run(
            command, env=environment, cwd="/", capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        log.warning("old Airflow runs remain, cleanup timed out", command="airflow db clean", limit_s=limit_s)
        return False
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no output"]
        log.warning("old Airflow runs not removed", command="airflow db clean", why=last[0][:500])
    return done.returncode == 0


def logs(home: Home, keep: timedelta) -> int:
    """Remove the log folders of Airflow that were last written to longer ago than `keep`; returns how many."""
    oldest = time.time() - keep.total_seconds()
    removed = 0
    for place, pattern in LOGS:
        for folder in (home.root / place).glob(pattern):
            if max(item.lstat().st_mtime for item in (folder, *folder.rglob("*"))) < oldest:
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
    return removed
