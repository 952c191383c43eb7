"""A Dag as a stream has one, with a shorter deadline and a task that waits to be let go, by the file `go`."""

import time
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task
from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from lakeward.airflow.deadlines import missed

with DAG(
    "stream__late",
    schedule=None,
    is_paused_upon_creation=False,
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT, interval=timedelta(seconds=1), callback=SyncCallback(missed)
    ),
):

    @task
    def wait() -> None:
        """Wait for the file in the project's folder."""
        while not Path(__file__).parents[1].joinpath("go").exists():
            time.sleep(0.2)

    wait()
