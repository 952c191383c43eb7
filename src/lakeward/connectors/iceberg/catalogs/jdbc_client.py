"""PyIceberg's client of a JDBC catalog, for a database that may fall silent."""

from __future__ import annotations

from pyiceberg.catalog.sql import SqlCatalog

from lakeward.registry import client


class JdbcClient(SqlCatalog):
    """A JDBC catalog whose connections are checked before use and given up when the database is silent."""

    def _init_catalog(self) -> None:
        self.engine.dispose()  # made by PyIceberg, which takes no arguments for the connections
        self.engine = client.pool(self.properties["uri"], "lakeward-catalog", 2, 8)
        super()._init_catalog()
