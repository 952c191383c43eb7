"""Assets: the events between Lakeward's Dags, by name."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, AssetWatcher

from lakeward.airflow.tables_watcher import TablesTrigger
from lakeward.airflow.watcher import StreamsTrigger

if TYPE_CHECKING:
    from lakeward.supervision.observe import Connect


def streams_attention() -> Asset:
    """Fired by the watcher when a reconcile pass has something to do."""
    return Asset(
        name="lakeward_streams",
        uri="lakeward://streams/attention",
        group="lakeward",
        watchers=[AssetWatcher(name="lakeward_streams_watcher", trigger=StreamsTrigger())],
    )


def tables_changed(every: timedelta) -> Asset:
    """Fired by the watcher when tables need another observation, `every` after the last one at the soonest."""
    return Asset(
        name="lakeward_tables_changed",
        uri="lakeward://tables/changed",
        group="lakeward",
        watchers=[AssetWatcher(name="lakeward_tables_watcher", trigger=TablesTrigger(every.total_seconds()))],
    )


def tables_due() -> Asset:
    """Fired by `tables_observe` when maintenance of tables is due; `extra.tables` names them, the most urgent first."""
    return Asset(name="lakeward_tables_due", uri="lakeward://tables/due", group="lakeward")


def tables_landed() -> Asset:
    """Fired by `tables_observe` when tables have unchecked rows."""
    return Asset(name="lakeward_tables_landed", uri="lakeward://tables/landed", group="lakeward")


def of_streams() -> AssetAlias:
    """The outlet of `streams_reconcile`: state changes and commits of streams, as events of assets of each stream.

    An alias, because a task knows its streams only when it runs: `lakeward://stream/<id>/state`, `commits`, `hour`,
    `day` (see `supervision.announce`).
    """
    return AssetAlias(name="lakeward_stream_events", group="lakeward")


def announce(connect: Connect, outlet_events: Any) -> list[str]:
    """Emit the events of streams since the last call; returns the assets.

    Airflow stores the events when the task has succeeded. Therefore the record of announced events is written last.
    """
    from lakeward.supervision import announce as announcing
    from lakeward.supervision import observe

    with connect() as connection:
        facts, known = observe.read(connection, whole=False), announcing.read(connection)
        events, after = announcing.decide(facts, known)
        events = announcing.with_rows(connection, events)
    for item in events:
        extra = {"stream": item.stream, **item.extra}
        outlet_events[of_streams()].add(Asset(item.asset), extra=extra)
    if after != known:
        with connect() as connection:
            announcing.remember(connection, after)
    return [item.asset for item in events]
