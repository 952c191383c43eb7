"""The assets of Lakeward's Dags: events between them, by name."""

from __future__ import annotations

from airflow.sdk import Asset, AssetWatcher

from lakeward.airflow.watcher import StreamsTrigger


def streams_to_look_at() -> Asset:
    """Fired by the watcher when a reconcile pass has something to do."""
    return Asset(
        name="lakeward_streams",
        uri="lakeward://streams/attention",
        group="lakeward",
        watchers=[AssetWatcher(name="lakeward_streams_watcher", trigger=StreamsTrigger())],
    )


def tables_landed() -> Asset:
    """Fired by `tables_observe` when tables have rows no check has seen."""
    return Asset(name="lakeward_tables_landed", uri="lakeward://tables/landed", group="lakeward")
