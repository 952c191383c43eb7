"""A Hive Metastore: Iceberg's HiveCatalog for Spark, and PyIceberg's with a commit that compares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakeward.platform.runtime import Lake

_CLIENT = "lakeward.connectors.iceberg.catalogs.hive_client.HiveClient"
_SPARK = {
    # Seconds. The default of ten minutes lets a silent metastore stop a stream for as long.
    "hadoop.hive.metastore.client.socket.timeout": "60",
    "hadoop.hive.metastore.client.connect.retry.delay": "1",
}


class Hive:
    """A metastore behind Thrift. Its address and warehouse are in `Lake.properties`."""

    def spark(self, lake: Lake) -> dict[str, str]:
        return {"warehouse": lake.warehouse, **_SPARK}

    def pyiceberg(self, lake: Lake, pgpass: Path | None) -> dict[str, Any]:
        return {"warehouse": lake.warehouse, "py-catalog-impl": _CLIENT}

    def libraries(self, lake: Lake) -> list[Path]:
        return []

    def reads_s3(self, lake: Lake) -> bool:
        return lake.store is not None

    def state(self, lake: Lake, pgpass: Path | None) -> str | None:
        return None  # the metastore has no cheap value that every commit changes

    def create_schema(self, lake: Lake, pgpass: Path | None) -> None:
        """Nothing: the metastore has its own database."""
