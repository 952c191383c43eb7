"""Retention cleanup of Airflow's own database and logs, for the Airflow of the embedded stack.

Airflow has no keep time of its own; `streams_reconcile` alone makes 1,440 runs a day. A task has no way to its
database, on purpose; `airflow db clean` has, with the configuration `lakeward stack up` wrote. In an Airflow of one's
own that is its owner's business: docs/how-to/keep-it-small.md has the command.
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
"""How long cleaning Airflow's database may take; shorter for a pass that stands in, as supervision waits meanwhile.
What was removed by then stays removed."""
STAND_IN_AFTER = 2.0
"""Who stands in begins when the work is overdue by as many times its interval."""
TABLES = (
    "asset_event", "callback", "dag_run", "deadline", "import_error", "job", "log", "partitioned_asset_key_log",
    "revoked_token", "task_instance", "task_instance_history", "task_reschedule", "task_state_store", "xcom",
)  # fmt: skip
LOGS = (
    ("logs/tasks", "dag_id=*/run_id=*"),
    ("logs/tasks/executor_callbacks", "*/*"),  # <dag>/<run>: what failures and missed deadlines called
    ("airflow/logs/dag_processor", "????-??-??"),  # a day of parsing Dag files; not the link `latest`
)
"""Below the home: where Airflow makes folders of logs, and which of them go as one."""
_HIDDEN = ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__CORE__SQL_ALCHEMY_CONN")
"""What a task's own environment says instead of the database: that there is none."""


def tidy_if_due(runtime: Runtime, *, stand_in: bool = False) -> dict[str, int]:
    """Remove everything past its keep time: of the registry, of drivers, and of the embedded Airflow.

    `stand_in`: for whom this is not the own work, but somebody else's who may be paused.
    """
    from lakeward.airflow.connections import home
    from lakeward.airflow.project import settings
    from lakeward.supervision import retention
    from lakeward.supervision.reconcile import registry_of

    keep = settings().keep
    patience = STAND_IN_AFTER if stand_in else 1.0
    removed = retention.purge_if_due(runtime, keep, patience=patience)
    connect = registry_of(runtime)
    place = home()
    if embedded(place) and retention.due(connect, "airflow", EVERY_S * patience):
        removed["airflow_logs"] = logs(place, keep.runs.timedelta)
        # A run has a log: where none is past its time, Airflow need not be started to look for runs. And it is told
        # either way: another attempt in a minute would fail like this one, and keep supervision from its work.
        whole = not removed["airflow_logs"] or clean(place, keep, STAND_IN_S if stand_in else TIMEOUT_S)
        text = f"Removed runs older than {keep.runs} and their logs"
        retention.record(connect, "airflow", text if whole else f"{text}; some are left for the next day", {})
    return {name: number for name, number in removed.items() if number}


def embedded(home: Home) -> bool:
    """Whether this Airflow is the one of the embedded stack."""
    own = home.root / "airflow"
    return (own / "airflow.cfg").is_file() and Path(os.environ.get("AIRFLOW_HOME", "")).resolve() == own.resolve()


def clean(home: Home, keep: Keep, limit_s: float = TIMEOUT_S) -> bool:
    """Remove old runs from Airflow's database; whether it worked. What is left is the next day's."""
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
        log.warning("Old runs are not all removed yet: `airflow db clean` took too long", limit_s=limit_s)
        return False
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
        log.warning("Old runs could not be removed", why=last[0][:500])
    return done.returncode == 0


def logs(home: Home, keep: timedelta) -> int:
    """Remove the folders of Airflow's logs that were last written to longer ago than that; returns how many."""
    oldest = time.time() - keep.total_seconds()
    removed = 0
    for place, pattern in LOGS:
        for folder in (home.root / place).glob(pattern):
            if max(item.lstat().st_mtime for item in (folder, *folder.rglob("*"))) < oldest:
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
    return removed
