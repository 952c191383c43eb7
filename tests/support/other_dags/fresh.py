"""A Dag of somebody who reports from a stream's table and has to be in time; its task waits for the file `go_fresh`."""

import time
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from lakeward.airflow.deadlines import freshness

with DAG(
    "reports_from_fresh",
    schedule=None,
    is_paused_upon_creation=False,
    deadline=freshness("used_late", within=timedelta(seconds=1)),
):

    @task
    def report() -> None:
        """Wait for the file in the project's folder."""
        while not Path(__file__).parents[1].joinpath("go_fresh").exists():
            time.sleep(0.2)

    report()
