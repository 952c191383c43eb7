"""Choice of the reader for a reference table, by the connector that the spec declares."""

from __future__ import annotations

from lakeward.connectors.postgres import connection
from lakeward.connectors.postgres.name import Name
from lakeward.connectors.reference.base import Reader
from lakeward.connectors.reference.files import FilesReference
from lakeward.connectors.reference.postgres import PostgresReference
from lakeward.connectors.reference.tables import DeltaReference, IcebergReference
from lakeward.platform.runtime import Runtime
from lakeward.spec.model.sources import JdbcReference, Reference


def reader_of(name: str, reference: Reference, runtime: Runtime) -> Reader:
    """The reader of a reference table.

    Raises:
        SpecError: its connection is unknown.
    """
    if reference.iceberg is not None:
        return IcebergReference(name, str(reference.iceberg))
    if reference.delta is not None:
        return DeltaReference(name, str(reference.delta), runtime.lake)
    if reference.jdbc is not None:
        return of_database(name, reference.jdbc, runtime)
    return FilesReference(name, reference)


def of_database(name: str, reference: JdbcReference, runtime: Runtime) -> PostgresReference:
    """The reader of a reference table in a database.

    Raises:
        SpecError: its connection is unknown.
    """
    database = connection.find(str(reference.connection), runtime.postgres)
    return PostgresReference(name, Name.of(str(reference.table)), database, runtime.pgpass)
