"""PyIceberg's client of a JDBC catalog, for a database that may fall silent."""

from __future__ import annotations

import os
from functools import lru_cache

from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import Engine

from lakeward.registry import client


class JdbcClient(SqlCatalog):
    """A JDBC catalog whose connections are checked before use and given up when the database is silent.

    All clients of a process share the connections to a catalog: an operation loads the catalog dozens of times, and a
    connection to PostgreSQL costs more than what it is opened for.
    """

    def _init_catalog(self) -> None:
        self.engine.dispose()  # made by PyIceberg, which takes no arguments for the connections
        self.engine = _engine(self.properties["uri"], os.environ.get("PGPASSFILE"), os.getpid())
        super()._init_catalog()


@lru_cache(maxsize=4)
def _engine(uri: str, passfile: str | None, pid: int) -> Engine:
    """The connections to a catalog's database; libpq reads the password from `passfile`.

    A process that was forked has others than its parent: a connection is of one process.
    """
    return client.pool(uri, "lakeward-catalog", 1, 9)
