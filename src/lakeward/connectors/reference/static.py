"""Reading a reference, and telling whether it changed without reading it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.errors import DependencyDown, SpecError
from lakeward.runtime import CATALOG
from lakeward.spec.sources import Reference
from lakeward.spec.sql import quote_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILES = ("csv", "parquet")


def read(session: SparkSession, name: str, reference: Reference) -> DataFrame:
    """The reference as it is now.

    Raises:
        SpecError: its file does not exist or has no column named as declared, or its kind is not built yet.
    """
    if reference.csv is not None:
        _must_exist(name, reference.csv)
        reader = session.read.option("header", "true").option("mode", "FAILFAST").option("enforceSchema", "false")
        if reference.nulls is not None:
            reader = reader.option("nullValue", reference.nulls)
        if reference.columns:
            reader = reader.schema(reference.columns)
        return reader.csv(reference.csv)
    if reference.parquet is not None:
        _must_exist(name, reference.parquet)
        return session.read.parquet(reference.parquet)
    if reference.iceberg is not None:
        return session.table(quote_table(reference.iceberg, CATALOG))
    raise SpecError(
        f"Reference {name} cannot be read yet",
        why=f"references of kind {reference.kind} are not implemented",
        next="use csv, parquet or iceberg",
    )


def version(session: SparkSession, reference: Reference) -> str:
    """A text that changes when the reference's content does: files by name, size and time, tables by snapshot."""
    path = reference.csv or reference.parquet
    if path is not None and "://" not in path:
        digest = hashlib.sha256()
        root = Path(path)
        for file in sorted(root.rglob("*")) if root.is_dir() else [root]:
            stat = file.stat()
            digest.update(f"{file}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
        return digest.hexdigest()
    if reference.iceberg is not None:
        util = session._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]  # classic sessions have a JVM
        table = util.loadIcebergTable(session._jsparkSession, quote_table(reference.iceberg, CATALOG))
        snapshot = table.currentSnapshot()
        return str(snapshot.snapshotId()) if snapshot is not None else "empty"
    return ""


def _must_exist(name: str, path: str) -> None:
    if "://" in path:
        return
    try:
        Path(path).stat()
    except FileNotFoundError:
        raise SpecError(
            f"Reference {name} has no file", why=f"{path} does not exist", next="correct its path and deploy again"
        ) from None
    except OSError as error:
        raise DependencyDown(f"Reference {name} cannot be read", why=f"{path}: {error.strerror}") from None
