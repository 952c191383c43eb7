"""Compaction and the tightest expiry there is, by the procedures of Iceberg and Delta, in a Spark of its own."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exactly_once_streams import Kind

from lakeward.connectors.delta import location
from lakeward.engine import session
from lakeward.platform.runtime import Launch, Runtime
from lakeward.spec.model.driver_conf import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Maintenance:
    """Starts its Spark when it is first needed, and keeps it."""

    def __init__(self, runtime: Runtime, folder: Path) -> None:
        self._launch = Launch(
            driver="maintenance", token="none", folder=folder, runtime=runtime,
            conf={
                "spark.driver.memory": "1g", "spark.ui.enabled": "false", "spark.driver.extraJavaOptions": QUICK,
                "spark.databricks.delta.vacuum.logging.enabled": "false",
                "spark.databricks.delta.retentionDurationCheck.enabled": "false",
                "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # VACUUM lists by 10,000 tasks
            },
        )  # fmt: skip
        self._runtime = runtime
        self._started = False

    @cached_property
    def spark(self) -> SparkSession:
        """The session."""
        self._started = True
        return session.start(self._launch)

    def sql(self, *statements: str) -> list[Any]:
        """Run statements; the rows of the last one."""
        found: list[Any] = []
        for each in statements:
            found = self.spark.sql(each).collect()
        return found

    def shrink(self, kind: Kind, table: str) -> bool:
        """Rewrite every file and forget every snapshot but the newest. False: there is no such table yet."""
        if kind.sink == "delta":
            folder = location.folder_of(self._runtime.lake, table)
            if not location.exists(folder):
                return False
            self.sql(
                f"OPTIMIZE {location.by_path(folder)}",
                f"VACUUM {location.by_path(folder)} RETAIN 0 HOURS",
            )
            return True
        if not Path(self._runtime.lake.warehouse, *table.split("."), "metadata").exists():
            return False
        self.compact(table)
        self.expire(table)
        return True

    def compact(self, table: str) -> None:
        """Every data file again."""
        self.sql(f"CALL lake.system.rewrite_data_files(table => 'lake.{table}', options => map('rewrite-all', 'true'))")

    def expire(self, table: str) -> None:
        """Every snapshot but the newest one, staged ones too."""
        self.sql(
            f"CALL lake.system.expire_snapshots(table => 'lake.{table}', "
            "older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
        )

    def close(self) -> None:
        """End it."""
        if self._started:
            self.spark.stop()
