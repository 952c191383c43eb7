"""PyIceberg's client of a JDBC catalog, for a database that may fall silent."""

from __future__ import annotations

import os
from functools import lru_cache

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate
from sqlalchemy import Engine

from lakeward.connectors.iceberg.document_updates import by_document, change, not_written
from lakeward.connectors.iceberg.metadata_document import commit_document
from lakeward.registry import client
from lakeward.spec.sql.names import dotted


class JdbcClient(SqlCatalog):
    """A JDBC catalog whose connections are checked before use and given up when the database is silent.

    All clients of a process share the connections to a catalog: an operation loads the catalog dozens of times, and a
    connection to PostgreSQL costs more than what it is opened for.
    """

    def _init_catalog(self) -> None:
        self.engine.dispose()  # made by PyIceberg, which takes no arguments for the connections
        self.engine = _engine(self.properties["uri"], os.environ.get("PGPASSFILE"), os.getpid())
        super()._init_catalog()

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit updates to a table; to one of format version 3, which PyIceberg does not write, by its document."""
        if not by_document(table.metadata, updates):
            try:
                return super().commit_table(table, requirements, updates)
            except NotImplementedError as error:
                raise not_written(table) from error
        current = self.load_table(table.name())
        if current.metadata.table_uuid != table.metadata.table_uuid:
            raise CommitFailedException(f"{dotted(table.name())} was replaced by another table")
        commit_document(self, current, requirements, lambda document: change(document, updates))
        after = self.load_table(table.name())
        return CommitTableResponse(metadata=after.metadata, metadata_location=after.metadata_location)


@lru_cache(maxsize=4)
def _engine(uri: str, passfile: str | None, pid: int) -> Engine:
    """The connections to a catalog's database; libpq reads the password from `passfile`.

    A process that was forked has others than its parent: a connection is of one process.
    """
    return client.pool(uri, "lakeward-catalog", 1, 9)
