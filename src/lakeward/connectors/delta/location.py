"""The folder of a Delta table, and its name in a Spark application.

Delta tables have no shared catalog. A table is a folder below the warehouse, and every application that uses its name
registers it in its own `spark_catalog`. The folder never belongs to an Iceberg table: a namespace has no dot.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.connectors.aws import conditional
from lakeward.connectors.delta.delta_log import DeltaLog
from lakeward.connectors.delta.folder import Folder, StorePath
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Lake
from lakeward.spec.model.file_paths import hadoop, local, on_s3
from lakeward.spec.sql.names import NotAName, dotted, name_parts
from lakeward.spec.sql.statements import quote, quote_table, quote_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

CATALOG = "spark_catalog"
_FOLDER = "delta.tables"


def warehouse(lake: Lake) -> Folder | None:
    """The folder of all Delta tables; None if the warehouse is neither a local folder nor on this deployment's S3.

    A bucket of a REST catalog, a Hive Metastore or Glue is not this deployment's: its login may not reach it.
    """
    path = local(lake.warehouse)
    if on_s3(path) and lake.store is not None and not lake.external:
        return StorePath(f"{hadoop(path).rstrip('/')}/{_FOLDER}", lake)
    return None if "://" in path or not path.startswith("/") else Path(path) / _FOLDER


def try_store(lake: Lake) -> str | None:
    """Check, without Spark, that the object store of Delta tables grants a version once.

    Returns:
        The place that was tried; None if they are on a disk, or cannot be stored at all.

    Raises:
        SpecError: the store creates an object twice.
        LakewardError: the check was not possible.
    """
    root = warehouse(lake)
    if not isinstance(root, StorePath):
        return None
    conditional.check(lake, str(root.parent))
    return str(root.parent)


def folder_of(lake: Lake, table: str) -> Folder:
    """The folder of `namespace.table`, whether it exists or not.

    Raises:
        SpecError: the warehouse is on a store where two writers can both commit one version (ADR 113).
    """
    root = warehouse(lake)
    if root is None:
        raise SpecError(
            f"Delta table {table} cannot be stored in the warehouse {lake.warehouse}",
            why="two processes must not both commit one version of a Delta log; a local folder and the S3 store of the "
            "settings grant it once (docs/adr/0045, docs/adr/0113), of other stores this is not known",
            next="use an Iceberg table (sink: {iceberg: ..}) there",
            code="LW-3036",
        )
    try:
        *namespace, name = name_parts(table)
    except NotAName:
        return root / table  # no table has it
    return root / ".".join(namespace) / name


def exists(folder: Folder) -> bool:
    """Whether `folder` has a Delta table."""
    return DeltaLog(folder).exists


def tables_of(lake: Lake) -> list[str]:
    """All Delta tables of the warehouse as `namespace.table`, sorted."""
    root = warehouse(lake)
    spaces = root.iterdir() if root is not None and root.is_dir() else ()
    folders = [folder for space in spaces if space.is_dir() for folder in space.iterdir() if exists(folder)]
    return sorted(f"{folder.parent.name}.{dotted([folder.name])}" for folder in folders)


def register(session: SparkSession | ConnectSession, lake: Lake, table: str) -> None:
    """Register an existing table as `spark_catalog.namespace.table` in this application."""
    namespace = dotted(name_parts(table)[:-1])
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS {quote_table(namespace, CATALOG)}")
    path = quote_text(str(folder_of(lake, table)))
    session.sql(f"CREATE TABLE IF NOT EXISTS {quote_table(table, CATALOG)} USING delta LOCATION {path}")


def by_path(folder: Folder) -> str:
    """A table in SQL by its path, without a registered name: ``delta.`/path` ``."""
    return f"delta.{quote(str(folder))}"
