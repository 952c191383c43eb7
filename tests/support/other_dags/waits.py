"""Dags of somebody who waits for a stream."""

from typing import Any

from airflow.sdk import DAG, Asset, task

for what in ("state", "hour"):
    with DAG(f"waits_for_{what}", schedule=[Asset(f"lakeward://stream/awaited/{what}")], is_paused_upon_creation=False):

        @task
        def show(triggering_asset_events: Any = None) -> None:
            """Print what was heard."""
            for events in triggering_asset_events.values():
                for event in events:
                    print("heard", event.extra)

        show()
