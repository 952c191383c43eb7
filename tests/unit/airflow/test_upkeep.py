from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lakeward.airflow import upkeep
from lakeward.platform.runtime import Home

OLD = ("dag_id=streams_reconcile/run_id={}", "executor_callbacks/streams_reconcile/{}")


def logged(folder: Path, days: float) -> Path:
    """A folder of logs that was last written to that long ago."""
    (folder / "task_id=reconcile").mkdir(parents=True)
    (folder / "task_id=reconcile" / "attempt=1.log").write_text("x")
    moment = time.time() - days * 86_400
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (moment, moment))
    return folder


def test_old_logs_of_airflow_go_whoever_wrote_them(tmp_path: Path) -> None:
    home = Home(tmp_path)
    tasks, parser = tmp_path / "logs" / "tasks", tmp_path / "airflow" / "logs" / "dag_processor"
    kept, old = [], []
    for days in (0, 13, 15, 300):
        day = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%d")
        made = [logged(tasks / name.format(days), days) for name in OLD] + [logged(parser / day, days)]
        (kept if days < 14 else old).extend(made)
    (parser / "latest").symlink_to(kept[2].name)
    assert upkeep.logs(home, timedelta(days=14)) == 6
    assert [folder.exists() for folder in kept] == [True] * 6
    assert [folder.exists() for folder in old] == [False] * 6
    assert (parser / "latest").is_symlink()
    assert upkeep.logs(Home(tmp_path / "none"), timedelta(days=14)) == 0


def test_only_the_embedded_airflow_is_cleaned(tmp_path, monkeypatch) -> None:
    home = Home(tmp_path)
    (tmp_path / "airflow").mkdir()
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    assert not upkeep.embedded(home), "no configuration of ours"
    (tmp_path / "airflow" / "airflow.cfg").write_text("")
    assert upkeep.embedded(home)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "other"))
    assert not upkeep.embedded(home)
