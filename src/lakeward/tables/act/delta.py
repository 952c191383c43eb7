"""OPTIMIZE and VACUUM of a Delta table as SQL statements for one session of the Connect server."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from lakeward.connectors.delta import location
from lakeward.connectors.delta.folder import Folder
from lakeward.spec.sql.statements import quote_table
from lakeward.tables.act.statements import set_properties
from lakeward.tables.plan.delta import MIN_FILE_AGE
from lakeward.tables.plan.model import Action, Rewrite

_AT_ONCE = 2  # file groups rewritten in parallel: the server is shared
_SLIGHTLY = 1e-6
_LISTING = 4  # tasks that list the folder: VACUUM's default is ten thousand


def statements(folder: Folder, action: Action, now: datetime | None = None) -> list[str]:
    """The statements of a planned action, in order. They change settings of the session, which is this run's own."""
    if action.action == "compact":
        return [each for rewrite in action.rewrites for each in optimize(folder, rewrite)]
    if action.action == "metadata":
        return [set_properties(location.by_path(folder), action.properties)]
    return vacuum(folder, action.cutoff, now or datetime.now(UTC))


def optimize(folder: Folder, rewrite: Rewrite) -> list[str]:
    """Compaction of partitions into larger files, or in Z-order, in one commit that changes no row."""
    order = f" ZORDER BY ({', '.join(map(quote_table, rewrite.order.columns))})" if rewrite.order is not None else ""
    where = " OR ".join(f"({condition})" for condition in rewrite.where)
    return [
        *_settings({
            "spark.databricks.delta.optimize.minFileSize": rewrite.below,
            "spark.databricks.delta.optimize.maxFileSize": rewrite.target,
            # A file is rewritten if its share of deleted rows is above this: from the policy's share on.
            "spark.databricks.delta.optimize.maxDeletedRowsRatio": f"{max(rewrite.deleted - _SLIGHTLY, 0.0):.9f}",
            "spark.databricks.delta.optimize.maxThreads": _AT_ONCE,
        }),
        f"OPTIMIZE {location.by_path(folder)}" + (f" WHERE {where}" if where else "") + order,
    ]  # fmt: skip


def vacuum(folder: Folder, older_than: datetime, now: datetime) -> list[str]:
    """Deletion of files that no version since `older_than` references. Delta's retention check stays on above its
    minimum.

    RETAIN is rounded up to a third of a second, so that no file younger than planned is deleted.
    """
    retained_from = now - older_than
    hours = math.ceil(retained_from.total_seconds() / 3600 * 10_000) / 10_000
    settings: dict[str, str | int] = {
        # Without it this version of Delta ignores RETAIN and uses the table's property.
        "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": _LISTING,
    }
    if retained_from < MIN_FILE_AGE:
        settings["spark.databricks.delta.retentionDurationCheck.enabled"] = "false"
    return [*_settings(settings), f"VACUUM {location.by_path(folder)} RETAIN {hours:.4f} HOURS"]


def _settings(values: Mapping[str, str | int]) -> list[str]:
    return [f"SET {name} = {value}" for name, value in values.items()]
