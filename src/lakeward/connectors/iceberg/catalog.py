"""The catalog of the lake for Spark and PyIceberg, from one definition: `Lake`. Its kind is one class of `catalogs`."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lakeward import jars
from lakeward.connectors.aws import store
from lakeward.connectors.iceberg.catalogs.glue import Glue
from lakeward.connectors.iceberg.catalogs.hive import Hive
from lakeward.connectors.iceberg.catalogs.jdbc import Jdbc
from lakeward.connectors.iceberg.catalogs.kind import Kind
from lakeward.connectors.iceberg.catalogs.other import Other
from lakeward.connectors.iceberg.catalogs.rest import Rest
from lakeward.connectors.iceberg.qualified import FURTHER, KEY
from lakeward.jars import own
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import CATALOG, Lake
from lakeward.spec.checks import sqlite

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

SPARK_EXTENSIONS = (
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "io.delta.sql.DeltaSparkSessionExtension",
)
_FILE_IO = "py-io-impl"  # by name: the class loads PyIceberg
_CLASSPATH = "SPARK_DIST_CLASSPATH"


def kind_of(lake: Lake) -> Kind:
    """The kind of the catalog."""
    if lake.rest:
        return Rest()
    if lake.hive:
        return Hive()
    if lake.glue:
        return Glue()
    return Other() if {"type", "catalog-impl"} & set(lake.properties) else Jdbc()


def spark_conf(lake: Lake) -> dict[str, str]:
    """The Spark conf of every Lakeward application: extensions and the catalogs: the lake's and `spark_catalog`.

    The process needs `PGPASSFILE` in its environment, and the variables of `environment`.

    Raises:
        SpecError: the catalog would be an SQLite file.
    """
    _check(lake)
    return {
        "spark.sql.extensions": ",".join(SPARK_EXTENSIONS),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # The number of tasks that compute a table's state. Delta's default of 50 costs a second where the log is small.
        "spark.databricks.delta.snapshotPartitions": "2",
        **own.spark_conf(),
        # Otherwise Spark replaces `${..}` in the text of every statement, also within quotes: in names and values, too.
        "spark.sql.variable.substitute": "false",
        **({} if lake.name == CATALOG else {KEY: lake.name}),
        **({FURTHER: ",".join(each.name for each in lake.others)} if lake.others else {}),
        # The default one is the last: what is common to all of Hadoop's s3a is its.
        **{key: value for each in (*lake.others, lake) for key, value in _spark_catalog(each).items()},
    }


def _spark_catalog(lake: Lake) -> dict[str, str]:
    """The Spark conf of one catalog."""
    prefix = f"spark.sql.catalog.{lake.name}"
    catalog = {"cache-enabled": "false", **kind_of(lake).spark(lake), **lake.properties}
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **store.spark_conf(lake, prefix),
        **{f"{prefix}.{key}": value for key, value in catalog.items()},
    }


def environment(lake: Lake, jars_at: Path | None = None) -> dict[str, str]:
    """The environment of a Spark application before its JVM starts: the file with the store's keys, and further jars.

    The jars are the last ones of the class path: the class archive is valid only if the class path starts as it did at
    the archive's creation. Iceberg loads the class of a login by its own class loader, which does not see `spark.jars`.

    Args:
        jars_at: `Runtime.jars`.
    """
    variables = variables_of(lake)
    if found := libraries(lake, jars_at):
        given = filter(None, os.environ.get(_CLASSPATH, "").split(os.pathsep))  # of a Spark without Hadoop, for example
        variables[_CLASSPATH] = os.pathsep.join(dict.fromkeys([*given, *map(str, found)]))
    return variables


def variables_of(lake: Lake) -> dict[str, str]:
    """The environment variables by which the AWS SDK finds the store's keys, in driver and executors."""
    account = store.account_of(lake)
    return {} if account is None else account.environment()


def libraries(lake: Lake, jars_at: Path | None = None) -> list[Path]:
    """The jars that catalog and store need in addition to `jars.spark_classpath`."""
    known = (lake, *lake.others)
    s3 = any(each.store is not None or kind_of(each).reads_s3(each) for each in known)
    own_jars = dict.fromkeys(jar for each in known for jar in kind_of(each).libraries(each))
    return [*(jars.s3_classpath(jars_at) if s3 else ()), *own_jars]


def pyiceberg_properties(lake: Lake, pgpass: Path | None = None) -> dict[str, Any]:
    """The properties for `pyiceberg.catalog.load_catalog(lake.name, **properties)`.

    Args:
        lake: the catalog.
        pgpass: `Runtime.pgpass`; needed where `PGPASSFILE` is not in the environment.

    Raises:
        SpecError: the catalog would be an SQLite file.
    """
    _check(lake)
    properties = {
        _FILE_IO: "lakeward.connectors.iceberg.file_io.CheckedFileIO",
        **store.pyiceberg_properties(lake), **kind_of(lake).pyiceberg(lake, pgpass), **lake.properties,
    }  # fmt: skip
    if "py-catalog-impl" in properties:  # PyIceberg takes either a type or a class
        properties.pop("type", None)
    return properties


def load_lake(lake: Lake, pgpass: Path | None = None) -> Catalog:
    """The catalogs of the lake in PyIceberg, as one: see `routed`.

    Args:
        pgpass: `Runtime.pgpass`; needed where `PGPASSFILE` is not in the environment.

    Raises:
        SpecError: the catalog would be an SQLite file.
        DependencyDown: the default catalog does not answer.
    """
    from pyiceberg.catalog import load_catalog

    default = load_catalog(lake.name, **pyiceberg_properties(lake, pgpass))
    if not lake.others:
        return default
    from lakeward.connectors.iceberg.catalogs.routed import Further, Lakes

    def connect(other: Lake) -> Catalog:
        return load_catalog(other.name, **pyiceberg_properties(other, pgpass))

    lakes: Any = Lakes(default, {each.name: Further(each.name, partial(connect, each)) for each in lake.others})
    return cast("Catalog", lakes)  # it has what Lakeward uses of a catalog


def create_schema(lake: Lake, pgpass: Path | None = None) -> None:
    """Create the tables of the stack's own catalog; safe to repeat. Does nothing for a catalog of another kind."""
    kind_of(lake).create_schema(lake, pgpass)


def _check(lake: Lake) -> None:
    why = sqlite.refusal(lake.properties)
    if why:
        raise SpecError(
            "The catalog of the lake cannot be an SQLite file",
            why=why,
            next="lakeward stack up   configures PostgreSQL as the catalog",
            code="LW-3065",
        )
