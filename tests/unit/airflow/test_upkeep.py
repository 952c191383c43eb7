from __future__ import annotations

import os
import time
from datetime import timedelta

from lakeward.airflow import upkeep
from lakeward.runtime import Home


def test_logs_of_old_runs_go(tmp_path) -> None:
    for number, days in enumerate((0, 13, 15, 300)):
        run = tmp_path / "dag_id=streams_reconcile" / f"run_id={number}" / "task_id=reconcile"
        run.mkdir(parents=True)
        (run / "attempt=1.log").write_text("x")
        moment = time.time() - days * 86_400
        for path in (run / "attempt=1.log", run, run.parent):
            os.utime(path, (moment, moment))
    assert upkeep.task_logs(tmp_path, timedelta(days=14)) == 2
    left = sorted(item.name for item in (tmp_path / "dag_id=streams_reconcile").iterdir())
    assert left == ["run_id=0", "run_id=1"]
    assert upkeep.task_logs(tmp_path / "none", timedelta(days=14)) == 0


def test_only_the_embedded_airflow_is_cleaned(tmp_path, monkeypatch) -> None:
    home = Home(tmp_path)
    (tmp_path / "airflow").mkdir()
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    assert not upkeep.embedded(home), "no configuration of ours"
    (tmp_path / "airflow" / "airflow.cfg").write_text("")
    assert upkeep.embedded(home)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "other"))
    assert not upkeep.embedded(home)
