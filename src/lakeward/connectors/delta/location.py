"""The folder of a Delta table, and its name in a Spark application.

Delta tables have no shared catalog. A table is a folder below the warehouse, and every application that uses its name
registers it in its own `spark_catalog`. The folder never belongs to an Iceberg table: a namespace has no dot.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Lake
from lakeward.spec.model.file_paths import local
from lakeward.spec.sql.names import NotAName, dotted, name_parts
from lakeward.spec.sql.statements import quote, quote_table, quote_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

CATALOG = "spark_catalog"
_FOLDER = "delta.tables"


def warehouse(lake: Lake) -> Path | None:
    """The folder of all Delta tables; None if the warehouse is not a local folder."""
    path = local(lake.warehouse)
    return None if "://" in path or not path.startswith("/") else Path(path) / _FOLDER


def folder_of(lake: Lake, table: str) -> Path:
    """The folder of `namespace.table`, whether it exists or not.

    Raises:
        SpecError: the warehouse is on an object store, where two writers can both commit one version (ADR 23).
    """
    root = warehouse(lake)
    if root is None:
        raise SpecError(
            f"Delta table {table} cannot be stored in the warehouse {lake.warehouse}",
            why="on an object store two processes can both commit one version of a Delta log, and the rows of one are "
            "lost without an error (docs/adr/0023); Delta tables are supported in a local folder only",
            next="use an Iceberg table (sink: {iceberg: ..}) on an object store",
            code="LW-3036",
        )
    try:
        *namespace, name = name_parts(table)
    except NotAName:
        return root / table  # no table has it
    return root / ".".join(namespace) / name


def exists(folder: Path) -> bool:
    """Whether `folder` has a Delta table."""
    return DeltaLog(folder).exists


def tables_of(lake: Lake) -> list[str]:
    """All Delta tables of the warehouse as `namespace.table`, sorted."""
    root = warehouse(lake)
    if root is None or not root.is_dir():
        return []
    return sorted(f"{folder.parent.name}.{dotted([folder.name])}" for folder in root.glob("*/*") if exists(folder))


def register(session: SparkSession | ConnectSession, lake: Lake, table: str) -> None:
    """Register an existing table as `spark_catalog.namespace.table` in this application."""
    namespace = dotted(name_parts(table)[:-1])
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote_table(namespace, CATALOG)}")
    path = quote_text(str(folder_of(lake, table)))
    session.sql(f"CREATE TABLE IF NOT EXISTS {quote_table(table, CATALOG)} USING delta LOCATION {path}")


def by_path(folder: Path) -> str:
    """A table in SQL by its path, without a registered name: ``delta.`/path` ``."""
    return f"delta.{quote(str(folder))}"
