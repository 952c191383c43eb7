"""Which catalog a table is in, and names of tables with it.

The deployment names its catalogs (`catalogs: {prod: .., staging: ..}` in `conf/lakeward.yaml`). A table of the default
one is recorded as `sales.orders`, a table of a further one as `staging.sales.orders`. `catalog.spark_conf` writes the
names into the conf of each application, so that all code with a session has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakeward.connectors.iceberg.catalogs.routed import Further
from lakeward.platform.runtime import CATALOG
from lakeward.spec.sql.names import catalog_in, name_parts, namespace_of
from lakeward.spec.sql.statements import call_name, quote_table

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    Session = SparkSession | ConnectSession

KEY: Final = "spark.lakeward.catalog"
"""Spark conf with the name of the default catalog; not set for the default name."""
FURTHER: Final = "spark.lakeward.catalogs"
"""Spark conf with the names of the further catalogs, with commas between them; not set without any."""


def prefix_of(table: Table) -> str:
    """`catalogs.prefix_in` of a table of PyIceberg."""
    catalog: Any = table.catalog
    return "" if isinstance(catalog, Further) else str(catalog.name)


def prefix(session: Session, table: str) -> str:
    """`catalogs.prefix_in` where there is a session."""
    return "" if _further(session, table) is not None else session.conf.get(KEY, CATALOG) or CATALOG


def catalog_of(session: Session, table: str) -> str:
    """The name of the catalog that a table is in."""
    return _further(session, table) or session.conf.get(KEY, CATALOG) or CATALOG


def _further(session: Session, table: str) -> str | None:
    if table.count(".") < 2:  # without a question to the server
        return None
    names = session.conf.get(FURTHER, "") or ""
    return catalog_in(table, names.split(",")) if names else None


def in_lake(session: Session, table: str) -> str:
    """A table for Spark: quoted, with its catalog.

    Raises:
        ValueError: it is not a name.
    """
    return quote_table(table, prefix(session, table))


def namespace_in_lake(session: Session, table: str) -> str:
    """The namespace of a table for Spark: quoted, with its catalog."""
    return quote_table(namespace_of(table), prefix(session, table))


def local_parts(session: Session, table: str) -> tuple[str, ...]:
    """The parts of a table's name inside its catalog."""
    parts = name_parts(table)
    return parts if _further(session, table) is None else parts[1:]


def spoken(session: Session, table: str) -> str:
    """A table as people write it, with its catalog."""
    return call_name(table, prefix(session, table))


def procedure(name: str, table: str, catalog: str) -> str:
    """The start of a call of one of Iceberg's procedures, as people write it: `CALL prod.system.NAME`.

    Args:
        table: the table that it works on.
        catalog: `catalogs.prefix_in` of the table.
    """
    return f"CALL {call_name(f'system.{name}', catalog or name_parts(table)[0])}"
